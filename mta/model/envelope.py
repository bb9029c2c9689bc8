"""A message as the spool takes it: its class, its kind, its envelope (RFC 5321 section 2.3.1, RFC 5598 section 4)."""

from enum import IntEnum, StrEnum

from msgspec import Struct


class MailClass(IntEnum):
    """How soon a message matters; lower goes first. Stored by number, shown by `label`."""

    URGENT = 0
    NORMAL = 1
    BULK = 2

    @property
    def label(self) -> str:
        return self._name_.lower()


class Kind(StrEnum):
    """Where a message comes from. What fails of a DSN is reported, never bounced; what fails of a report or an alert is
    only counted and shown (interface.md section 4); what fails of a report on encryption is no matter (RFC 8460 section
    5.5)."""

    MAIL = "mail"
    DSN = "dsn"
    REPORT = "report"
    ALERT = "alert"
    TLS_REPORT = "tls-report"


class DoubtOrder(StrEnum):
    """What is to be done with a message in doubt."""

    DEFAULT = ""
    """As the daemon's configuration says."""
    RETRY = "retry"
    HOLD = "hold"


class ByMode(StrEnum):
    """What a deadline asks for (RFC 2852 section 4); the values are what the spool stores."""

    HANDOVER = "handover"
    """Handed over to any server in time, or it fails: the header's, a class's default."""
    RETURN = "R"
    """The same, and the promise goes with the mail: only to a server that keeps it too."""
    NOTIFY = "N"
    """It goes on after the deadline; the sender is told that it is late."""


class DeliverBy(Struct, frozen=True):
    """A deadline: `at` in seconds since the epoch. `trace`: the sender is told of each relay (RFC 2852 section 4)."""

    at: float
    mode: ByMode
    trace: bool = False

    @property
    def fails(self) -> bool:
        """Whether mail that has not left by then is not sent any more."""
        return self.mode is not ByMode.NOTIFY


class Notice(StrEnum):
    """Something about a recipient that is to be told, durable in the commit that decides it."""

    DSN_FAILED = "dsn-failed"
    DSN_DELAYED = "dsn-delayed"
    DSN_DOUBT = "dsn-doubt"
    """To the sender: the final dot went out, its reply was not read, and a person decides."""
    DSN_LATE = "dsn-late"
    """To the sender: the deadline has passed, and it is still tried (RFC 2852 section 4.1.4.2)."""
    DSN_RELAYED = "dsn-relayed"
    """To the sender: handed over to a server that does not promise the deadline (RFC 2852 section 4.2)."""
    REPORT = "report"
    """To the postmaster: this recipient failed."""
    ALERT = "alert"
    """To the postmaster: this needs a person."""
    ALERT_COMMAND = "alert-command"
    """The same, to the program that the configuration names."""
    ALERT_WEBHOOK = "alert-webhook"
    """The same, to the web server that the configuration names."""


KEY_LIMIT = 255
"""Characters of an idempotency key."""


def is_key(text: str) -> bool:
    """Whether `text` can name a logical email: 1 to 255 of the ASCII characters 0x21 to 0x7E (no blank)."""
    return 0 < len(text) <= KEY_LIMIT and all("!" <= character <= "~" for character in text)


class NewRecipient(Struct, frozen=True):
    """`address` as it goes into RCPT; `destination` is what it is routed by (the domain in lower case, or a literal);
    `original` is what was submitted where an alias replaced it, else "". `notify` is NOTIFY's value in upper case
    ("NEVER", or some of SUCCESS, FAILURE and DELAY in this order, with commas), `orcpt` ORCPT's as it was given (RFC 3461
    sections 4.1 and 4.2); "": there was none."""

    address: str
    destination: str
    original: str = ""
    notify: str = ""
    orcpt: str = ""


class NewMessage(Struct, frozen=True):
    """A message to be accepted. `reverse_path` "" is the null path; times are seconds since the epoch, UTC; `size` is the
    content's in octets as it will be sent (CRLF line ends, no stuffing: RFC 1870 section 5). `expires_at` is the
    give-up; `warn_at` None means never a "delayed" DSN.

    `key` names the logical email within its `scope`, "" without one; `fingerprint` is what a second submission under it
    must match. `same_since`: without a key, a message with the same Message-ID and fingerprint accepted since then is the
    same; None: no two are.

    `priority` is MT-PRIORITY's, from -9 to 9. `not_before` is when it is released, None at once; `hold_request` is the
    parameter that asked for it as it goes into a DSN ("for;60", "until;2027-01-01T00:00:00Z"; RFC 4865 section 4.6).

    `ret` is RET's value in upper case ("FULL" or "HDRS"), `envid` ENVID's as it was given (RFC 3461 sections 4.3 and 4.4);
    "": there was none. `utf8`: the sender, or the header section, has characters beyond ASCII, so that it needs SMTPUTF8
    (RFC 6531) whoever gets it; a recipient's address may need it besides. `submitter` is who authenticated, "" nobody.

    `require_tls`: REQUIRETLS was asked for; `tls_optional`: a `TLS-Required: No` field was (RFC 8689)."""

    queue_id: str
    message_id: str
    reverse_path: str
    recipients: tuple[NewRecipient, ...]
    subject: str
    size: int
    eight_bit: bool
    mail_class: MailClass
    kind: Kind
    accepted_at: float
    expires_at: float
    warn_at: float | None
    key: str = ""
    scope: str = ""
    fingerprint: str = ""
    same_since: float | None = None
    in_doubt: DoubtOrder = DoubtOrder.DEFAULT
    priority: int = 0
    deliver_by: DeliverBy | None = None
    not_before: float | None = None
    hold_request: str = ""
    ret: str = ""
    envid: str = ""
    utf8: bool = False
    submitter: str = ""
    require_tls: bool = False
    tls_optional: bool = False
