"""A message as the spool takes it: its class, its kind, its envelope (RFC 5321 section 2.3.1, RFC 5598 section 4)."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class MailClass(IntEnum):
    """How soon a message matters; lower goes first. Stored by number, shown by `label`."""

    URGENT = 0
    NORMAL = 1
    BULK = 2

    @property
    def label(self) -> str:
        return self.name.lower()


class Kind(StrEnum):
    """Where a message comes from. What fails of a DSN is reported, never bounced; what fails of a report or an alert is
    only counted and shown (interface.md section 4)."""

    MAIL = "mail"
    DSN = "dsn"
    REPORT = "report"
    ALERT = "alert"


class DoubtOrder(StrEnum):
    """What is to be done with a message in doubt."""

    DEFAULT = ""
    """As the daemon's configuration says."""
    RETRY = "retry"
    HOLD = "hold"


class Notice(StrEnum):
    """Something about a recipient that is to be told, durable in the commit that decides it."""

    DSN_FAILED = "dsn-failed"
    DSN_DELAYED = "dsn-delayed"
    DSN_DOUBT = "dsn-doubt"
    """To the sender: the final dot went out, its reply was not read, and a person decides."""
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


@dataclass(frozen=True, slots=True)
class NewRecipient:
    """`address` as it goes into RCPT; `destination` is what it is routed by (the domain in lower case, or a literal);
    `original` is what was submitted where an alias replaced it, else ""."""

    address: str
    destination: str
    original: str = ""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be accepted. `reverse_path` "" is the null path; times are seconds since the epoch, UTC; `size` is the
    content's in octets as it will be sent (CRLF line ends, no stuffing: RFC 1870 section 5). `expires_at` is the
    give-up; `warn_at` None means never a "delayed" DSN.

    `key` names the logical email within its `scope`, "" without one; `fingerprint` is what a second submission under it
    must match. `same_since`: without a key, a message with the same Message-ID and fingerprint accepted since then is the
    same; None: no two are."""

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
