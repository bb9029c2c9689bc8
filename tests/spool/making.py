"""Values for the spool's tests."""

from collections.abc import Sequence
from typing import Any

from mta.doorbell import Lane
from mta.model.envelope import DeliverBy, Kind, MailClass, NewMessage, NewRecipient, Notice
from mta.model.lifecycle import Event
from mta.model.reply import Reply
from mta.spool.base import Claim, RecipientResult, Settlement, Spool

NOW = 1_000_000.0
DAY = 86400.0
LATER = Reply(451, "4.3.0", "try later")
OK = Reply(250, "2.0.0", "Ok: queued as 4Q2x")
NO_USER = Reply(550, "5.1.1", "no such user")
CONTENT = b"Subject: hello\r\n\r\nhello\r\n"


def queue_id(number: int) -> str:
    return f"{number:016d}"


def message(
    number: int,
    recipients: Sequence[str] = ("ann@example.org",),
    *,
    sender: str = "shop@example.com",
    mail_class: MailClass = MailClass.NORMAL,
    kind: Kind = Kind.MAIL,
    at: float = NOW,
    warn_after: float | None = None,
    size: int = len(CONTENT),
    subject: str = "hello",
    by: DeliverBy | None = None,
    not_before: float | None = None,
    notify: str = "",
) -> NewMessage:
    return NewMessage(
        queue_id=queue_id(number),
        message_id=f"<{number}@example.com>",
        reverse_path=sender,
        recipients=tuple(NewRecipient(one, one.rpartition("@")[2], notify=notify) for one in recipients),
        subject=subject,
        size=size,
        eight_bit=False,
        mail_class=mail_class,
        kind=kind,
        accepted_at=at,
        expires_at=max(at, not_before or at) + 5 * DAY,
        warn_at=None if warn_after is None else at + warn_after,
        deliver_by=by,
        not_before=not_before,
    )


def normal(destination: str) -> Lane:
    return destination, MailClass.NORMAL


async def put(spool: Spool, new: NewMessage, content: bytes = CONTENT, now: float = NOW) -> str:
    buffer = spool.buffer()
    buffer.write(content)
    await spool.accept(new, buffer, now)
    return new.queue_id


async def claimed(spool: Spool, destination: str = "example.org", now: float = NOW, limit: int = 100) -> Claim:
    claim = await spool.claim(destination, limit, now)
    assert claim is not None
    return claim


def result(
    claim: Claim, event: Event, reply: Reply = OK, *, next_at: float | None = None, notices: Sequence[Notice] = (),
    counted: bool = True, host: str = "mx1.example.org", place: int = 0,
) -> RecipientResult:  # fmt: skip
    return RecipientResult(
        claim.recipients[place].id, event, reply, next_at, counted, "final", host, "192.0.2.1", notices=tuple(notices)
    )


def outcome(claim: Claim, event: Event, reply: Reply = OK, **more: Any) -> Settlement:
    """The same result for all recipients of a claim."""
    results = [result(claim, event, reply, place=place, **more) for place in range(len(claim.recipients))]
    return Settlement(claim, tuple(results))


async def mark(spool: Spool, claim: Claim, now: float = NOW) -> None:
    await spool.mark_in_doubt(claim, [one.id for one in claim.recipients], "mx1.example.org", "192.0.2.1", now)


async def deliver(spool: Spool, claim: Claim, now: float = NOW) -> None:
    await mark(spool, claim, now)
    await spool.settle(outcome(claim, Event.DELIVERED), now)


async def read(spool: Spool, name: str) -> bytes:
    return b"".join([chunk async for chunk in spool.content(name)])
