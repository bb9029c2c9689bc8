"""The spool's verbs: what every implementation promises (the contract suite holds them to it).

Rules: each verb is one transaction and is given `now` (seconds since the epoch, UTC). A verb that returned is durable.
A cancelled caller does not undo or halve a verb. Every failure of the storage is a `SpoolError`; what a person did wrong
is a `SpoolRefusal`. Recipients of one message at one destination are claimed together, at most once at a time.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from mta.doorbell import Doorbell
from mta.model.envelope import DeliverBy, DoubtOrder, Kind, MailClass, NewMessage, Notice
from mta.model.lifecycle import Event, Status
from mta.model.reply import Reply

CLASSES = tuple(MailClass)
"""All, the highest first."""


class SpoolError(Exception):
    """The storage failed; nothing of the verb happened. A client is told 451 4.3.0 (RFC 5321 section 4.2.1)."""


class ContentGone(SpoolError):
    """The message's content is kept no longer (`spool.content_retention`)."""


class SpoolFull(SpoolError):
    """No space: 452 4.3.1."""


class SpoolBusy(SpoolError):
    """Another daemon owns the spool; the text says which."""


class SpoolDamaged(SpoolError):
    """The file is no spool, is damaged as a whole, or has a schema from the future. It is left as it is."""


class Clash(StrEnum):
    """Why a submission was not stored: its key, or its Message-ID, is known."""

    DUPLICATE = "the same logical email"
    OTHER = "the key names another: other sender, recipients or Subject"
    FINISHED = "it is finished, and was neither sent nor ever in doubt"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The message that was there first. `status` is the first of in_doubt, sending, pending, held, sent, dead, failed,
    cancelled that a recipient of it has."""

    queue_id: str
    status: Status
    clash: Clash


class ContentBuffer(Protocol):
    """Content on its way into the spool: in memory up to 1 MiB, beyond it in an unlinked temporary file in the spool's
    folder. `close` (idempotent) frees what `accept` did not take."""

    @property
    def size(self) -> int: ...

    def write(self, data: bytes) -> None:
        """Raises `SpoolFull` or `SpoolError`."""
        ...

    def prefix(self, length: int) -> bytes:
        """The first `length` octets, or what there is of them."""
        ...

    def replace_prefix(self, length: int, by: bytes) -> None:
        """The first `length` octets become `by` (header fix-ups)."""
        ...

    def chunks(self) -> Iterator[bytes]: ...
    def close(self) -> None: ...


# ---------------------------------------------------------------- claims
class ClaimedRecipient(Struct, frozen=True):
    """`status` is PENDING or IN_DOUBT; `attempts` those made before this one; `refusals` how many of the last attempts
    in a row ended with every host refusing us in its greeting (Table A, banner). `remote_host` and `remote_address` are
    those of the last doubt, "" without one; `reply` is the last one stored."""

    id: int
    address: str
    status: Status
    attempts: int
    doubts: int
    refusals: int
    warned: bool
    remote_host: str
    remote_address: str
    reply: Reply | None
    next_at: float | None = None
    """When it was due."""
    notify: str = ""
    orcpt: str = ""
    signed: str = ""
    """The DKIM keys that the content of the last doubt was signed with, as `mark_in_doubt` was given them."""


class Claim(Struct, frozen=True):
    """Some due recipients of one message at one destination, ours until `settle` or `release`. `following` is when the
    next of this destination and class is due, without these; None: nothing else waits unclaimed."""

    id: int
    queue_id: str
    message_id: str
    key: str
    in_doubt: DoubtOrder
    reverse_path: str
    mail_class: MailClass
    kind: Kind
    size: int
    eight_bit: bool
    accepted_at: float
    expires_at: float
    warn_at: float | None
    destination: str
    recipients: tuple[ClaimedRecipient, ...]
    priority: int = 0
    deliver_by: DeliverBy | None = None
    not_before: float | None = None
    following: float | None = None
    ret: str = ""
    envid: str = ""
    utf8: bool = False
    require_tls: bool = False
    tls_optional: bool = False
    content: bytes = b""
    """All of the content where it is small, b"" where it is to be read (`Spool.content`)."""


class Trial(Struct, frozen=True):
    """A host that was tried on the way to a result: becomes an `attempt` of the timeline."""

    host: str
    address: str
    tls: str
    phase: str
    reply: Reply


class RecipientResult(Struct, frozen=True):
    """What an attempt came to for one recipient. `event` is DELIVERED, DEFERRED, DOUBTED, REFUSED or GAVE_UP;
    `next_attempt_at` goes with DEFERRED, and with DOUBTED where it is to be retried (None: waits for a person).
    `counted` False: no attempt was made (the destination rests), the count stays. `doubted`: the reply to
    this attempt's final dot was not read, whatever became of it; goes without saying with DOUBTED."""

    recipient_id: int
    event: Event
    reply: Reply
    next_attempt_at: float | None = None
    counted: bool = True
    phase: str = ""
    host: str = ""
    address: str = ""
    tls: str = ""
    remote_id: str = ""
    refusals: int = 0
    notices: tuple[Notice, ...] = ()
    doubted: bool = False
    category: str = ""
    signed: str = ""
    policy: str = ""
    """What is kept with the attempt besides: what kind of refusal it was, the DKIM keys that the content was signed with,
    and what the encryption had to satisfy."""


class Settlement(Struct, frozen=True):
    """All that one attempt came to. Recipients of the claim without a result go back as they were, due at once."""

    claim: Claim
    results: tuple[RecipientResult, ...]
    trials: tuple[Trial, ...] = ()


class Settled(Struct, frozen=True):
    """What became of a recipient: differs from the result where a person ordered `hold` or `cancel` meanwhile."""

    recipient_id: int
    status: Status
    attempts: int


# ---------------------------------------------------------------- what can be looked at
@dataclass(frozen=True, slots=True)
class RecipientView:
    address: str
    original: str
    status: Status
    attempts: int
    doubts: int
    next_attempt_at: float | None
    finished_at: float | None
    remote_host: str
    remote_address: str
    remote_id: str
    reply: Reply | None
    standing_hold: str = ""
    """The standing order that keeps it from being sent: its destination, "*" for everything, "" for none."""
    notify: str = ""
    orcpt: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """`event` is one of interface.md section 5; `detail` what belongs to it (server, address, tls, phase, reply ...)."""

    at: float
    event: str
    recipient: str
    detail: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MessageView:
    queue_id: str
    message_id: str
    reverse_path: str
    subject: str
    size: int
    mail_class: MailClass
    kind: Kind
    accepted_at: float
    expires_at: float
    key: str
    scope: str
    in_doubt: DoubtOrder
    eight_bit: bool
    damaged: str
    """Why the message is quarantined, "" if it is sound."""
    recipients: tuple[RecipientView, ...]
    timeline: tuple[TimelineEntry, ...] = ()
    deliver_by: DeliverBy | None = None
    not_before: float | None = None
    priority: int = 0
    ret: str = ""
    envid: str = ""
    utf8: bool = False
    submitter: str = ""
    require_tls: bool = False
    tls_optional: bool = False
    untold: int = 0
    """Failures that could be told to nobody, and no person has seen yet."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages `queue` lists: those with an unfinished recipient that fits. `older_than` and `scheduled_after` are
    instants; the latter: pending, and its release as well as its own next attempt lie behind it."""

    status: Status | None = None
    domain: str = ""
    sender: str | None = None
    mail_class: MailClass | None = None
    older_than: float | None = None
    limit: int = 100
    scheduled_after: float | None = None


@dataclass(frozen=True, slots=True)
class ClassCount:
    """`pending` counts waiting recipients (pending, sending, in doubt); `oldest_at` is when the oldest that is released
    was accepted, or released."""

    pending: int
    oldest_at: float | None


@dataclass(frozen=True, slots=True)
class DestinationView:
    destination: str
    waiting: int
    last_reply: str


@dataclass(frozen=True, slots=True)
class Overview:
    """Kept up to date in every transaction: looking at it counts no rows."""

    recipients: Mapping[Status, int]
    classes: Mapping[MailClass, ClassCount]
    damaged: int
    """Messages in quarantine."""
    untold: int
    """Failures that could be told to nobody: a DSN, report or alert that failed (double bounces among them), and no
    person has seen yet; counted for up to 1000 messages."""
    held_destinations: tuple[str, ...]
    """Standing orders; "*" is everything."""
    largest: tuple[DestinationView, ...]
    """The destinations with the most waiting, most first, at most 50."""
    held_doubts: int = 0
    """Recipients in doubt that wait for a person; counted up to 1000."""


# ---------------------------------------------------------------- what is to be told
@dataclass(frozen=True, slots=True)
class DueNotice:
    """A mark made by `settle`. Marks with the same `step` were made in one commit for one message and go into one DSN."""

    id: int
    notice: Notice
    step: int
    at: float
    queue_id: str
    message_id: str
    reverse_path: str
    kind: Kind
    subject: str
    accepted_at: float
    expires_at: float
    recipient: str
    original: str
    status: Status
    attempts: int
    doubts: int
    reply: Reply
    remote_host: str
    phase: str
    mail_class: MailClass = MailClass.NORMAL
    key: str = ""
    deliver_by: DeliverBy | None = None
    hold_request: str = ""
    priority: int = 0
    ret: str = ""
    envid: str = ""
    utf8: bool = False
    notify: str = ""
    orcpt: str = ""
    category: str = ""
    require_tls: bool = False


# ---------------------------------------------------------------- a person's verbs
class SpoolRefusal(ValueError):
    """A person's verb does not apply; the text says to what and why (exit code 65)."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a verb is for: messages by queue id (with `recipient` "" for all of theirs), else a `destination`, else
    everything."""

    queue_ids: tuple[str, ...] = ()
    recipient: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """One recipient that a verb was for. `note` says what is special ("when the attempt ends unsent", "nothing to do")."""

    queue_id: str
    address: str
    before: Status
    after: Status
    note: str = ""


@dataclass(frozen=True, slots=True)
class Purged:
    contents: int = 0
    messages: int = 0
    pages: int = 0
    """Given back to the file system."""


# ---------------------------------------------------------------- what is remembered beside mail
class Memory(StrEnum):
    """What a remembered value is about."""

    STS_POLICY = "sts-policy"
    """By domain: its MTA-STS policy (RFC 8461 section 3.3)."""
    TLS_RESULT = "tls-result"
    """By day and policy domain: how encryption went (RFC 8460 section 4)."""
    RATE = "rate"
    """By whom a rate limits together: what is left of it."""
    LIMIT = "limit"
    """By destination: how many sessions it was seen to bear."""
    SUPPRESSION = "suppression"
    """By address: why nothing is sent to it."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """`value` is what was given; `at` when. `expires_at` None: until it is forgotten."""

    name: str
    value: str
    at: float
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class DoubtPolicy:
    """What is done with what is in doubt, where the message itself says nothing: `retry` after `rest` seconds, or hold.
    `alerts` are the marks by which a person is called."""

    retry: bool
    rest: float
    alerts: tuple[Notice, ...] = (Notice.ALERT,)

    def rest_of(self, order: DoubtOrder) -> float | None:
        """The seconds that a doubt of a message with this `order` rests before it is sent again; None: it is held."""
        retry = self.retry if order is DoubtOrder.DEFAULT else order is DoubtOrder.RETRY
        return self.rest if retry else None


@dataclass(frozen=True, slots=True)
class Recovered:
    """What `open` found: recipients whose reply to the dot was lost with the last run."""

    in_doubt: int = 0
    damaged: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What `reconcile` put right: claims that nobody worked on any more, recipients whose mark nobody would have ended."""

    claims: int = 0
    in_doubt: int = 0


class Spool(Protocol):
    @property
    def doorbell(self) -> Doorbell: ...

    # ------------------------------------------------ submission
    def buffer(self) -> ContentBuffer: ...

    def check_room(self, octets: int) -> None:
        """Raises `SpoolFull` where content of `octets` would be refused now, so that nobody sends it in vain."""
        ...

    async def accept(self, message: NewMessage, content: ContentBuffer, now: float) -> Earlier | None:
        """The message, all its recipients and its content; closes the buffer. Where its key (or, without one, its
        Message-ID since `same_since`) is known, nothing is stored: the message that was first, which counts the duplicate.
        Decided in the accepting commit, so of any number of submissions under one key one is stored."""
        ...

    # ------------------------------------------------ delivery
    async def claim(
        self, destination: str, limit: int, now: float, classes: Sequence[MailClass] = CLASSES
    ) -> Claim | None:
        """The due recipients (at most `limit`) of one message at `destination`: of the first of `classes` that has
        something due, what is due longest (of the next sender, where it is fair by sender). None when nothing is due, held
        back by a standing order, or damaged (quarantined on the way). Those with a doubt come apart from those without, and
        only with others of the same last host. Never one whose deadline has passed, unless that only asks for a word."""
        ...

    async def claim_expired(self, limit: int, now: float) -> Claim | None:
        """Some waiting recipients of one message at one destination whose deadline has passed, the oldest deadline first;
        of those that only ask for a word (NOTIFY), who was not told. Never what waits for a person, is held, or is under a
        standing order."""
        ...

    async def next_deadline(self) -> float | None:
        """The earliest deadline of those that `claim_expired` will come to return; may lie in the past."""
        ...

    async def claim_overdue(self, destination: str, limit: int, now: float) -> Claim | None:
        """As `claim`, but recipients, due or not, whose give-up has passed or whose unsent "delayed" warning is due: for
        a destination that rests, where no attempt would come to tell them."""
        ...

    async def release(self, claim: Claim, now: float) -> None:
        """Gives a claim back: nothing happened, due as before."""
        ...

    async def mark_in_doubt(
        self, claim: Claim, recipient_ids: Sequence[int], host: str, address: str, now: float, signed: str = ""
    ) -> None:
        """The final dot to `host` is about to be sent for these, `signed` with these DKIM keys. Raises `SpoolError`: then it
        must not be sent."""
        ...

    async def settle(self, settlement: Settlement, now: float) -> tuple[Settled, ...]:
        """All recipients of an attempt, next attempts, the timeline and the notices due: indivisible. Ends the claim; a
        settlement that raised `SpoolError` is given again."""
        ...

    def content(self, queue_id: str) -> AsyncIterator[bytes]:
        """The content in chunks, in order. Raises `ContentGone`, or `SpoolError` where some of it is missing."""
        ...

    async def next_due(self, destination: str, now: float, classes: Sequence[MailClass] = CLASSES) -> float | None:
        """When something unclaimed of `classes` at `destination` is due, None when nothing waits. A standing order counts
        as nothing, and so does what `claim` would not give at `now` for its deadline."""
        ...

    async def destinations(
        self, after: str, limit: int, now: float
    ) -> Sequence[tuple[str, Mapping[MailClass, float]]]:
        """Destinations with waiting recipients, in order of name, beginning behind `after`: (name, by class when its next
        is due at most). What has passed its deadline at `now` is left out."""
        ...

    async def quarantine(self, queue_id: str, reason: str, now: float) -> None:
        """Sets a damaged message apart: kept, shown, never tried."""
        ...

    # ------------------------------------------------ reports
    async def notices(self, kinds: Collection[Notice], limit: int, now: float) -> Sequence[DueNotice]:
        """The oldest marks of these kinds, never only some of a step's (so `limit` may be passed)."""
        ...

    async def report(
        self, notice_ids: Sequence[int], message: NewMessage | None, content: ContentBuffer | None, now: float
    ) -> None:
        """The report goes in and its marks go out in one commit. `message` None: told to nobody, counted as untold."""
        ...

    async def seen(self, queue_id: str, unreported: bool, now: float) -> None:
        """A person knows of what could be told to nobody of this message: it is untold no more. With `unreported` also
        what was to be reported to the postmaster. Raises `SpoolRefusal` where there is none of it."""
        ...

    async def told(self, notice_ids: Sequence[int], now: float) -> None:
        """These were told by other means than mail: their marks go out. One that is gone already is passed over."""
        ...

    async def knows(self, key: str, scope: str) -> bool:
        """Whether a message with this idempotency key is remembered in its scope."""
        ...

    # ------------------------------------------------ persons
    async def find(self, ref: str) -> Sequence[str]:
        """Queue ids of what `ref` names: a queue id, else a Message-ID in angle brackets, else an idempotency key."""
        ...

    async def show(self, queue_id: str) -> MessageView | None: ...
    async def queue(self, wanted: Filter) -> tuple[Sequence[MessageView], int]:
        """Messages without their timelines, the oldest first, and how many match."""
        ...

    async def needing_person(self, limit: int, unreported: bool = False) -> tuple[Sequence[MessageView], int]:
        """Messages with dead recipients, doubts that wait for a person, damage, or failures that could be told to nobody;
        with `unreported` also those whose report to the postmaster still waits."""
        ...

    async def overview(self, now: float) -> Overview: ...
    async def order(self, event: Event, selection: Selection, now: float) -> Sequence[Changed]:
        """RETRY, HOLD, RELEASE, CANCEL, RESOLVE_SENT or RESOLVE_RESEND for the selected recipients that it applies to. By
        `queue_ids` all messages or none: raises `SpoolRefusal` for a message with no recipient that the verb applies to,
        naming the first, and for an unknown id or recipient. By destination, or for everything, only RETRY, and that not
        of what is scheduled for later."""
        ...

    async def bring_forward(self, beyond: float, doubt_rest: float, now: float) -> int:
        """After the clock went back: what would wait for more than `beyond` seconds is due now, and a doubt that is to be
        retried after at most `doubt_rest` seconds; nothing of what is scheduled. To how many destinations that was."""
        ...

    async def standing_hold(self, destination: str, held: bool, now: float) -> None:
        """Holds a destination ("*": everything) until told otherwise. Raises `SpoolRefusal` when there is no such order
        to take back."""
        ...

    # ------------------------------------------------ what is remembered beside mail
    async def remember(self, kind: Memory, values: Mapping[str, str], expires_at: float | None, now: float) -> None:
        """Keeps a value for each name, in place of what was remembered under it, until `expires_at`."""
        ...

    async def forget(self, kind: Memory, names: Collection[str], now: float) -> int:
        """How many of them there were."""
        ...

    async def recall(self, kind: Memory, names: Collection[str], now: float) -> Mapping[str, Remembered]:
        """Those of `names` that are remembered; never what has expired."""
        ...

    async def memories(self, kind: Memory, after: str, limit: int, now: float) -> Sequence[Remembered]:
        """Of one kind in order of name, beginning behind `after`; never what has expired."""
        ...

    # ------------------------------------------------ upkeep
    async def purge(self, content_before: float, messages_before: float, limit: int, now: float) -> Purged:
        """Forgets the content of messages finished before `content_before`, and messages finished before
        `messages_before`, at most `limit` of each; never anything unfinished or untold to its sender. Gives back some of the
        space that it does not need."""
        ...

    async def reconcile(self, working: Collection[int], doubts: DoubtPolicy, now: float) -> Reconciled:
        """What was left halfway goes on, as after a crash; nothing is removed. A claim that was not among those `working`
        (ids) at this call nor at the one before is over: its recipients are due as before, and in doubt where their mark
        stands. The same for marks and orders that no claim holds. To be called with seconds in between: a claim on its way
        to who asked for it is among neither."""
        ...

    async def backup(self, path: Path, now: float) -> int:
        """Copies the spool, as it is now, to the new file `path`; nothing waits for it. The copy's size in octets. Raises
        `SpoolRefusal` where something is there already or another backup is at work, OSError where the file can't be
        made or written, `SpoolError`."""
        ...

    async def close(self) -> None: ...
