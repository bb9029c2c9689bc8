"""Every legal state of a recipient on disk, and what moves it.

`TRANSITIONS` is the whole table: status x event -> status. What is not in it is refused (`IllegalTransition`).
docs/lifecycle.md and the tests are made from it. A status is durable; `sending` alone is not: it is a pending or
in-doubt recipient that a living daemon has claimed, and a crash makes it what it was (RFC 5321 section 6.1).
"""

from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    SENDING = "sending"
    IN_DOUBT = "in_doubt"
    SENT = "sent"
    FAILED = "failed"
    DEAD = "dead"
    HELD = "held"
    CANCELLED = "cancelled"


FINISHED = frozenset({Status.SENT, Status.FAILED, Status.DEAD, Status.CANCELLED})
WAITING = frozenset({Status.PENDING, Status.IN_DOUBT})
"""What a claim may take, when it is due."""
STORED = tuple(status for status in Status if status is not Status.SENDING)


class Event(StrEnum):
    """What happens to a recipient. The first group is the daemon's, the second a person's."""

    MARKED = "marked"
    """The final dot is about to be sent (`mark_in_doubt`); durable before the first octet of it."""
    UNMARKED = "unmarked"
    """It was not sent after all: the connection was lost, or the daemon stopped, just before it."""
    DELIVERED = "delivered"
    DEFERRED = "deferred"
    DOUBTED = "doubted"
    """The reply to the dot was not read."""
    REFUSED = "refused"
    """Permanent failure."""
    GAVE_UP = "gave_up"
    """Attempts or age used up."""

    RETRY = "retry"
    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"
    RESOLVE_SENT = "resolve --sent"
    RESOLVE_RESEND = "resolve --resend"


_P, _D, _H = Status.PENDING, Status.IN_DOUBT, Status.HELD
TRANSITIONS: dict[tuple[Status, Event], Status] = {
    (_P, Event.MARKED): _D,
    (_P, Event.DEFERRED): _P,
    (_P, Event.REFUSED): Status.FAILED,
    (_P, Event.GAVE_UP): Status.DEAD,
    (_P, Event.RETRY): _P,
    (_P, Event.HOLD): _H,
    (_P, Event.CANCEL): Status.CANCELLED,
    (_D, Event.MARKED): _D,
    (_D, Event.DELIVERED): Status.SENT,
    (_D, Event.DEFERRED): _P,
    (_D, Event.DOUBTED): _D,
    (_D, Event.REFUSED): Status.FAILED,
    (_D, Event.GAVE_UP): Status.DEAD,
    (_D, Event.HOLD): _H,
    (_D, Event.CANCEL): Status.CANCELLED,
    (_D, Event.RESOLVE_SENT): Status.SENT,
    (_D, Event.RESOLVE_RESEND): _P,
    (_H, Event.CANCEL): Status.CANCELLED,
    (_H, Event.RESOLVE_SENT): Status.SENT,
    (_H, Event.RESOLVE_RESEND): _P,
    (Status.DEAD, Event.RETRY): _P,
    (Status.DEAD, Event.RESOLVE_SENT): Status.SENT,
    (Status.DEAD, Event.RESOLVE_RESEND): _P,
}
"""Two are not here, since they restore what was before: `release` what was before `hold`, `unmarked` what was before the
mark (`PENDING` or `IN_DOUBT`; the row, or the claim, remembers). A held recipient and a dead one are resolved as sent, and
a held one as to be sent again, only with a doubt (`NEEDS_DOUBT`)."""

COMMITS: dict[Event, str] = {
    Event.MARKED: "mark_in_doubt",
    Event.UNMARKED: "settle, release",
    Event.DELIVERED: "settle",
    Event.DEFERRED: "settle",
    Event.DOUBTED: "settle",
    Event.REFUSED: "settle",
    Event.GAVE_UP: "settle",
    Event.RETRY: "order",
    Event.HOLD: "order",
    Event.RELEASE: "order",
    Event.CANCEL: "order",
    Event.RESOLVE_SENT: "order",
    Event.RESOLVE_RESEND: "order",
}
"""The verb of the spool whose commit makes each event durable. (`accept` makes a recipient: pending.)"""

CRASHES: tuple[tuple[str, str, str], ...] = (
    ("before the commit of `accept`", "nothing", "nothing was promised: the client got no 250 and submits again"),
    ("after it, before the 250 was read", "pending", "delivered; the client may submit again (RFC 1047)"),
    ("claimed, before `mark_in_doubt` commits", "pending", "plain retry: no octet of the final dot was sent"),
    ("after `mark_in_doubt`, before the reply is settled", "in_doubt, in flight",
     "in_doubt: counted as an attempt and a doubt; rests and is sent again, or is held, by `delivery.in_doubt`"),
    ("after `settle`, before the report is written", "sent, failed, dead, pending, and its notices",
     "the result stands; the notices are told after the start"),
    ("before the commit of `report`", "the notices", "the report is composed anew; the lost one was never in the spool"),
    ("after the commit of `report`", "the report, pending; no notices", "the report is delivered, once"),
    ("after `hold` or `cancel` of one that is sending", "pending or in_doubt, and the order",
     "held or cancelled; a doubt is kept"),
)
"""What a crash makes of a recipient: (where it hits, what is on disk, what the next start makes of it)."""

NEEDS_DOUBT = frozenset(
    {(_H, Event.RESOLVE_SENT), (_H, Event.RESOLVE_RESEND), (Status.DEAD, Event.RESOLVE_SENT)}
)
RESTORING = {Event.RELEASE: _H, Event.UNMARKED: _D}
"""Events that restore what was before, and the status they apply to."""
NO_EFFECT = frozenset({(_D, Event.RETRY), (_H, Event.RETRY), (_H, Event.HOLD)})
"""A person's verbs that do nothing and are no error (interface.md section 1)."""


_WHAT_DOES = {
    Status.SENT: "it has arrived; resend makes a new email of it",
    Status.FAILED: "that is final; resend makes a new email of it",
    Status.CANCELLED: "that is final; resend makes a new email of it",
    Status.DEAD: "retry, or resolve --resend, tries it again",
    Status.SENDING: "wait for the end of the attempt",
}
"""For a person whose verb does not apply: what would."""


class IllegalTransition(ValueError):
    """An event that does not apply to a recipient of this status."""

    def __init__(self, status: Status, event: Event) -> None:
        hint = f" ({_WHAT_DOES[status]})" if status in _WHAT_DOES else ""
        super().__init__(f"{event} does not apply to a recipient that is {status}{hint}")
        self.status, self.event = status, event


def after(status: Status, event: Event, *, doubts: int = 0) -> Status:
    """The status that follows; raises `IllegalTransition`."""
    pair = (status, event)
    if pair in NO_EFFECT:
        return status
    following = TRANSITIONS.get(pair)
    if following is None or (pair in NEEDS_DOUBT and not doubts):
        raise IllegalTransition(status, event)
    return following
