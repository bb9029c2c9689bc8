"""SQL of what is due: read-only, since a claim is no row. What can't be tried is found here and reported as a `Flaw`."""

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from mta.model.envelope import DoubtOrder, Kind, MailClass
from mta.model.lifecycle import Status
from mta.spool.base import Claim, ClaimedRecipient
from mta.spool.claims import Claims
from mta.spool.rows import (
    address_flaw,
    as_member,
    as_number,
    as_text,
    as_time,
    deliver_by_of,
    first_id,
    last_id,
    message_flaw,
    message_of,
    reply_of,
)


@dataclass(frozen=True, slots=True)
class Place:
    """The first recipient that is to be claimed: waiting, not claimed, under no standing order. `behind` has the rows of its
    lane behind it (id, when due), where they are at hand."""

    destination: str
    recipient: int
    behind: sqlite3.Cursor | None = None


Search = Callable[[sqlite3.Connection, Claims, float], Place | None]
Chooser = Callable[[sqlite3.Connection, str, MailClass, Collection[int], float], Place | None]
"""Of a lane; not one of the recipients given."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A message that can't be tried, by its row's id."""

    message: int
    reason: str


def take(
    db: sqlite3.Connection, claims: Claims, search: Search, condition: str, limit: int, now: float
) -> Claim | Flaw | None:
    """Finds, checks and enters a claim; `condition` is what the other recipients of the same message must fulfil."""
    with claims.lock:
        place = search(db, claims, now)
        if place is None:
            return None
        with contextlib.closing(place.behind) if place.behind is not None else contextlib.nullcontext():
            return _enter(db, claims, place, condition, limit, now)


def _enter(
    db: sqlite3.Connection, claims: Claims, place: Place, condition: str, limit: int, now: float
) -> Claim | Flaw:
    destination = place.destination
    small = SMALL if condition == DUE else 0  # what is only to be told of is not sent
    read = _read(db, message_of(place.recipient), destination, condition, now, small)
    if isinstance(read, Flaw):
        return read
    claim, recipients = read
    busy = claims.busy(destination)
    chosen = _together(place.recipient, (one for one in recipients if one.id not in busy), limit)
    ids = {one.id for one in chosen}
    rows = place.behind if place.behind is not None else _lane(db, destination, claim.mail_class, now)
    following = next((float(at) for one, at in rows if one not in busy and one not in ids), None)
    return replace(claim, id=claims.enter(destination, ids), recipients=chosen, following=following)


FRESH = "(fails_at IS NULL OR fails_at > :now)"
"""The condition of what has not passed its deadline; it is in the indexes that lanes go by."""
DUE = f"next_at <= :now AND {FRESH}"
OVERDUE = f"overdue_at <= :now AND next_at IS NOT NULL AND {FRESH}"
_NOT_HELD = "NOT EXISTS (SELECT 1 FROM standing_holds WHERE destination IN ('*', :destination))"
"""No standing order keeps the destination's mail from being sent. It is asked once a query, not once a row."""
_LANE = f"""SELECT id, next_at FROM recipients INDEXED BY recipients_due WHERE waiting AND destination = :destination
    AND class = :class AND next_at IS NOT NULL AND {FRESH} AND {_NOT_HELD} ORDER BY next_at, fails_at, id"""
_OVERDUE = f"""SELECT id FROM recipients INDEXED BY recipients_overdue WHERE waiting AND destination = :destination
    AND {OVERDUE} AND {_NOT_HELD} ORDER BY overdue_at, id"""


def first_due(
    destination: str, classes: Sequence[MailClass], choose: Chooser, db: sqlite3.Connection, claims: Claims, now: float
) -> Place | None:
    """Of the first of `classes` that has something due, whichever `choose` takes."""
    busy = claims.busy(destination)
    for mail_class in classes:
        found = choose(db, destination, mail_class, busy, now)
        if found is not None:
            return found
    return None


def oldest(
    db: sqlite3.Connection, destination: str, mail_class: MailClass, busy: Collection[int], now: float
) -> Place | None:
    """What is due longest."""
    rows = _lane(db, destination, mail_class, now)
    for recipient, at in rows:
        if recipient not in busy:
            if at <= now:
                return Place(destination, recipient, rows)
            break
    rows.close()
    return None


def _lane(db: sqlite3.Connection, destination: str, mail_class: MailClass, now: float) -> sqlite3.Cursor:
    return db.execute(_LANE, {"destination": destination, "class": int(mail_class), "now": now})


def first_overdue(destination: str, db: sqlite3.Connection, claims: Claims, now: float) -> Place | None:
    """What waits for a person (no next attempt) is not given up."""
    busy = claims.busy(destination)
    rows = db.execute(_OVERDUE, {"destination": destination, "now": now})
    return next((Place(destination, one) for (one,) in rows if one not in busy), None)


def next_due(
    db: sqlite3.Connection, claims: Claims, destination: str, now: float, classes: Sequence[MailClass]
) -> float | None:
    with claims.lock:
        busy = claims.busy(destination)
        instants = [_next_of_class(db, destination, mail_class, busy, now) for mail_class in classes]
    return min((at for at in instants if at is not None), default=None)


def _next_of_class(
    db: sqlite3.Connection, destination: str, mail_class: MailClass, busy: Collection[int], now: float
) -> float | None:
    return next((float(at) for one, at in _lane(db, destination, mail_class, now) if one not in busy), None)


def _next_in(mail_class: MailClass) -> str:
    return f"""(SELECT next_at FROM recipients INDEXED BY recipients_due WHERE waiting AND destination = d.destination
        AND class = {int(mail_class)} AND next_at IS NOT NULL AND {FRESH} ORDER BY next_at, fails_at LIMIT 1)"""


_CLASSES = tuple(MailClass)
_COLUMNS = ", ".join(mail_class.label for mail_class in _CLASSES)
_WAITING = f"""SELECT destination, {_COLUMNS} FROM (
    SELECT d.destination, {", ".join(f"{_next_in(one)} AS {one.label}" for one in _CLASSES)}
    FROM destinations AS d WHERE d.waiting > 0 AND d.destination > :after ORDER BY d.destination
) WHERE coalesce({_COLUMNS}) IS NOT NULL LIMIT :limit"""


def destinations(
    db: sqlite3.Connection, after: str, limit: int, now: float
) -> list[tuple[str, Mapping[MailClass, float]]]:
    """Exact but for claimed recipients, which are not left out."""
    return [
        (name, {mail_class: at for mail_class, at in zip(_CLASSES, instants, strict=True) if at is not None})
        for name, *instants in db.execute(_WAITING, {"after": after, "limit": limit, "now": now})
    ]


SMALL = 64 * 1024
"""Octets of content that is read with its claim: one trip for both."""
_MESSAGE = """SELECT queue_id, message_id, reverse_path, class, kind, size, eight_bit, accepted_at, expires_at, warn_at,
    idempotency_key, doubt_order, priority, deliver_by, by_mode, by_trace, not_before, ret, envid, utf8,
    require_tls, tls_optional,
    octets, (SELECT sum(length(chunk)) FROM content WHERE id BETWEEN :first AND :last),
    (SELECT chunk FROM content WHERE id = :first AND octets <= :small) FROM messages WHERE id = :id"""
# NOT INDEXED: by id, or the planner goes through the destination's whole backlog
_RECIPIENTS = """SELECT id, address, status, attempts, doubts, refusals, warned, doubt_host, doubt_address,
    next_at, notify, orcpt, signed, reply_code, reply_enhanced, reply_text FROM recipients NOT INDEXED
    WHERE id BETWEEN :first AND :last AND destination = :destination AND waiting AND """


def _read(
    db: sqlite3.Connection, message: int, destination: str, condition: str, now: float, small: int
) -> tuple[Claim, list[ClaimedRecipient]] | Flaw:
    place = {"id": message, "first": first_id(message), "last": last_id(message), "small": small}
    row = db.execute(_MESSAGE, place).fetchone()
    if row is None:
        return Flaw(message, "the message's row is missing")
    (queue_id, message_id, reverse_path, mail_class, kind, size, eight_bit, accepted, expires, warn) = row[:10]
    key, order, priority, by_at, by_mode, by_trace, not_before, ret, envid, utf8, *tls, octets, stored, chunk = row[10:]
    flaw = message_flaw(reverse_path, mail_class, kind, (accepted, expires), octets, (by_at, by_mode))
    if not flaw and octets != stored:
        flaw = f"the content has {stored or 0} octets instead of {octets}"
    if flaw:
        return Flaw(message, flaw)
    values = {**place, "destination": destination, "now": now}
    rows = db.execute(_RECIPIENTS + condition + " ORDER BY id", values).fetchall()
    for flaw in (_recipient_flaw(row) for row in rows):
        if flaw:
            return Flaw(message, flaw)
    doubts = as_member(DoubtOrder, order, DoubtOrder.DEFAULT)
    claim = Claim(0, queue_id, as_text(message_id), as_text(key), doubts, reverse_path, MailClass(mail_class), Kind(kind),
                  size, bool(eight_bit), accepted, expires, warn, destination, (), int(as_number(priority)),
                  deliver_by_of(by_at, by_mode, by_trace), as_time(not_before), ret=as_text(ret),
                  envid=as_text(envid), utf8=bool(utf8), require_tls=bool(tls[0]),
                  tls_optional=bool(tls[1]),
                  content=chunk if isinstance(chunk, bytes) and len(chunk) == octets else b"")  # fmt: skip
    return claim, [_claimed(row) for row in rows]


def _recipient_flaw(row: tuple[object, ...]) -> str:
    if row[2] not in (Status.PENDING, Status.IN_DOUBT):
        return "a recipient's status is unknown"
    return address_flaw(row[1])


def _claimed(row: tuple[object, ...]) -> ClaimedRecipient:
    recipient_id, address, status, attempts, doubts, refusals, warned, host, remote_address = row[:9]
    next_at, notify, orcpt, signed, *reply = row[9:]
    numbers = [value if isinstance(value, int) else 0 for value in (recipient_id, attempts, doubts, refusals)]
    return ClaimedRecipient(
        numbers[0], as_text(address), Status(as_text(status)), numbers[1], numbers[2], numbers[3], bool(warned),
        as_text(host), as_text(remote_address), reply_of(*reply), as_time(next_at), as_text(notify), as_text(orcpt),
        as_text(signed),
    )  # fmt: skip


def _together(found: int, recipients: Iterator[ClaimedRecipient], limit: int) -> tuple[ClaimedRecipient, ...]:
    """Those that may go with the one found: all without a doubt, or all whose last doubt was at the same host, of content
    that was signed by the same keys."""
    free = list(recipients)
    first = next(one for one in free if one.id == found)
    group = (bool(first.doubts), first.remote_host, first.signed)
    alike = [one for one in free if one is not first and (bool(one.doubts), one.remote_host, one.signed) == group]
    return tuple(sorted([first, *alike[: max(limit, 1) - 1]], key=lambda one: one.id))
