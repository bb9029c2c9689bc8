"""SQL of what is due: read-only, since a claim is no row. What can't be tried is found here and reported as a `Flaw`."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from mta.model.envelope import DoubtOrder, Kind, MailClass
from mta.model.lifecycle import Status
from mta.spool.base import Claim, ClaimedRecipient
from mta.spool.claims import Claims
from mta.spool.rows import address_flaw, as_member, as_text, first_id, last_id, message_flaw, message_of, reply_of

Search = Callable[[sqlite3.Connection, str, Collection[int], float], int | None]
"""The first recipient of a destination that is to be claimed, not one of those given."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A message that can't be tried, by its row's id."""

    message: int
    reason: str


def take(
    db: sqlite3.Connection, claims: Claims, search: Search, condition: str, destination: str, limit: int, now: float
) -> Claim | Flaw | None:
    """Finds, checks and enters a claim; `condition` is what the other recipients of the same message must fulfil."""
    with claims.lock:
        if _held_back(db, destination):
            return None
        busy = claims.busy(destination)
        found = search(db, destination, busy, now)
        if found is None:
            return None
        read = _read(db, message_of(found), destination, condition, now)
        if isinstance(read, Flaw):
            return read
        claim, recipients = read
        chosen = _together(found, (one for one in recipients if one.id not in busy), limit)
        return replace(claim, id=claims.enter(destination, (one.id for one in chosen)), recipients=chosen)


DUE = "next_at <= :now"
OVERDUE = "overdue_at <= :now AND next_at IS NOT NULL"


def first_due(db: sqlite3.Connection, destination: str, busy: Collection[int], now: float) -> int | None:
    """By class, then what is due longest."""
    for mail_class in MailClass:
        rows = db.execute(
            """SELECT id FROM recipients INDEXED BY recipients_due WHERE waiting AND destination = ? AND class = ?
            AND next_at <= ? ORDER BY next_at, id""",
            (destination, int(mail_class), now),
        )
        if (found := _first_free(rows, busy)) is not None:
            return found
    return None


def first_overdue(db: sqlite3.Connection, destination: str, busy: Collection[int], now: float) -> int | None:
    """What waits for a person (no next attempt) is not given up."""
    rows = db.execute(
        """SELECT id FROM recipients INDEXED BY recipients_overdue WHERE waiting AND destination = ? AND overdue_at <= ?
        AND next_at IS NOT NULL ORDER BY overdue_at, id""",
        (destination, now),
    )
    return _first_free(rows, busy)


def next_due(db: sqlite3.Connection, claims: Claims, destination: str) -> float | None:
    with claims.lock:
        if _held_back(db, destination):
            return None
        busy = claims.busy(destination)
        instants = [_next_of_class(db, destination, mail_class, busy) for mail_class in MailClass]
    return min((at for at in instants if at is not None), default=None)


_WAITING = """SELECT destination, at FROM (
    SELECT d.destination, (SELECT min((
        SELECT next_at FROM recipients INDEXED BY recipients_due WHERE waiting AND destination = d.destination
        AND class = classes.value AND next_at IS NOT NULL ORDER BY next_at LIMIT 1
    )) FROM json_each(:classes) AS classes) AS at
    FROM destinations AS d WHERE d.waiting > 0 AND d.destination > :after ORDER BY d.destination
) WHERE at IS NOT NULL LIMIT :limit"""
_CLASSES = json.dumps([int(mail_class) for mail_class in MailClass])


def destinations(db: sqlite3.Connection, after: str, limit: int) -> list[tuple[str, float]]:
    """Exact but for claimed recipients, which are not left out."""
    return db.execute(_WAITING, {"classes": _CLASSES, "after": after, "limit": limit}).fetchall()


def _next_of_class(
    db: sqlite3.Connection, destination: str, mail_class: MailClass, busy: Collection[int]
) -> float | None:
    rows = db.execute(
        """SELECT id, next_at FROM recipients INDEXED BY recipients_due WHERE waiting AND destination = ? AND class = ?
        AND next_at IS NOT NULL ORDER BY next_at, id""",
        (destination, int(mail_class)),
    )
    return next((float(next_at) for recipient_id, next_at in rows if recipient_id not in busy), None)


def _first_free(rows: Iterator[tuple[int]], busy: Collection[int]) -> int | None:
    return next((recipient_id for (recipient_id,) in rows if recipient_id not in busy), None)


def _held_back(db: sqlite3.Connection, destination: str) -> bool:
    return bool(db.execute("SELECT 1 FROM standing_holds WHERE destination IN ('*', ?)", (destination,)).fetchone())


_MESSAGE = """SELECT queue_id, message_id, reverse_path, class, kind, size, eight_bit, accepted_at, expires_at, warn_at,
    idempotency_key, doubt_order,
    octets, (SELECT sum(length(chunk)) FROM content WHERE id BETWEEN ? AND ?) FROM messages WHERE id = ?"""
# NOT INDEXED: by id, or the planner goes through the destination's whole backlog
_RECIPIENTS = """SELECT id, address, status, attempts, doubts, refusals, warned, doubt_host, doubt_address,
    reply_code, reply_enhanced, reply_text FROM recipients NOT INDEXED
    WHERE id BETWEEN :first AND :last AND destination = :destination AND waiting AND """


def _read(
    db: sqlite3.Connection, message: int, destination: str, condition: str, now: float
) -> tuple[Claim, list[ClaimedRecipient]] | Flaw:
    row = db.execute(_MESSAGE, (first_id(message), last_id(message), message)).fetchone()
    if row is None:
        return Flaw(message, "the message's row is missing")
    (queue_id, message_id, reverse_path, mail_class, kind, size, eight_bit, accepted, expires, warn) = row[:10]
    key, order, octets, stored = row[10:]
    flaw = message_flaw(reverse_path, mail_class, kind, (accepted, expires), octets)
    if not flaw and octets != stored:
        flaw = f"the content has {stored or 0} octets instead of {octets}"
    if flaw:
        return Flaw(message, flaw)
    values = {"first": first_id(message), "last": last_id(message), "destination": destination, "now": now}
    rows = db.execute(_RECIPIENTS + condition + " ORDER BY id", values).fetchall()
    for flaw in (_recipient_flaw(row) for row in rows):
        if flaw:
            return Flaw(message, flaw)
    doubts = as_member(DoubtOrder, order, DoubtOrder.DEFAULT)
    claim = Claim(0, queue_id, as_text(message_id), as_text(key), doubts, reverse_path, MailClass(mail_class), Kind(kind),
                  size, bool(eight_bit), accepted, expires, warn, destination, ())  # fmt: skip
    return claim, [_claimed(row) for row in rows]


def _recipient_flaw(row: tuple[object, ...]) -> str:
    if row[2] not in (Status.PENDING, Status.IN_DOUBT):
        return "a recipient's status is unknown"
    return address_flaw(row[1])


def _claimed(row: tuple[object, ...]) -> ClaimedRecipient:
    recipient_id, address, status, attempts, doubts, refusals, warned, host, remote_address, *reply = row
    numbers = [value if isinstance(value, int) else 0 for value in (recipient_id, attempts, doubts, refusals)]
    return ClaimedRecipient(
        numbers[0], as_text(address), Status(as_text(status)), numbers[1], numbers[2], numbers[3], bool(warned),
        as_text(host), as_text(remote_address), reply_of(*reply),
    )  # fmt: skip


def _together(found: int, recipients: Iterator[ClaimedRecipient], limit: int) -> tuple[ClaimedRecipient, ...]:
    """Those that may go with the one found: all without a doubt, or all whose last doubt was at the same host."""
    free = list(recipients)
    first = next(one for one in free if one.id == found)
    group = (bool(first.doubts), first.remote_host)
    alike = [one for one in free if one is not first and (bool(one.doubts), one.remote_host) == group]
    return tuple(sorted([first, *alike[: max(limit, 1) - 1]], key=lambda one: one.id))
