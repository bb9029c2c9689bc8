"""One typed event per fact, for logs and metrics. Stages emit them; `observe` alone formats them.

Every field may hold text from outside: who prints it escapes it.
"""

from msgspec import Struct

from mta.model.reply import Reply
from mta.model.tls import TlsPolicy, TlsResult


class Accepted(Struct, frozen=True):
    """A message is durable; its 250 may be sent."""

    queue_id: str
    key: str
    message_id: str
    sender: str
    recipients: int
    size: int
    mail_class: str
    kind: str
    client: str
    deliver_by: float | None = None
    not_before: float | None = None
    """Seconds since the epoch: the deadline and the release, where there are such."""
    user: str = ""
    """Who authenticated, "" nobody."""


class Repeated(Struct, frozen=True):
    """A submission was not stored: its idempotency key, or its Message-ID, was that of `queue_id`. `answer` says what it
    was told: duplicate, other, finished."""

    queue_id: str
    key: str
    answer: str
    status: str
    client: str


class Refused(Struct, frozen=True):
    """A submission was refused after its data, or a connection was turned away."""

    client: str
    reply: str
    reason: str
    user: str = ""


class Attempted(Struct, frozen=True):
    """A host was tried and the attempt went on to another."""

    queue_id: str
    key: str
    destination: str
    host: str
    address: str
    phase: str
    reply: Reply


class Settled(Struct, frozen=True):
    """A recipient's result is durable. `outcome` is a timeline event: sent, deferred, failed, dead, in_doubt, held,
    cancelled."""

    queue_id: str
    key: str
    recipient: str
    outcome: str
    attempt: int
    host: str
    address: str
    tls: str
    reply: Reply | None
    remote_id: str
    next_attempt_at: float | None
    delay: float
    """Seconds since acceptance."""
    category: str = ""
    """What kind of refusal it was (`model.category`), "" for none, or unknown."""


class Reported(Struct, frozen=True):
    """A DSN, report or alert is in the spool. `queue_id` is its own, `about` that of the message it tells of ("" for a
    collected report)."""

    queue_id: str
    about: str
    kind: str
    to: str
    recipients: int


class Ordered(Struct, frozen=True):
    """A person's verb changed a recipient, or a standing order ("*" is everything)."""

    verb: str
    target: str
    recipient: str
    outcome: str


class Trouble(Struct, frozen=True):
    """Something is wrong with ourselves or our surroundings. `severity` is "warning", "error", or "debug" for details
    that only a developer wants; an error id in `what` links the two."""

    severity: str
    what: str
    detail: str = ""


class Encrypted(Struct, frozen=True):
    """How encryption with one host of a destination went, or why it was not even begun (RFC 8460 section 4.3). `policies`
    are those that were in force there, `lines` the text of each as it was published, joined by line feeds; `domain` is the
    policy domain."""

    domain: str
    policies: tuple[tuple[TlsPolicy, str], ...]
    result: TlsResult
    host: str
    address: str
    detail: str = ""


Fact = Encrypted | Accepted | Repeated | Refused | Attempted | Settled | Reported | Ordered | Trouble
