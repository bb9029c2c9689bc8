"""SQL of a person's verbs (the table of interface.md section 1).

Rules: by queue id all messages or none; of a message, those recipients that the verb applies to, and it is refused where
it applies to none. What is being sent is not touched but ordered (`requested`), obeyed when the attempt ends unsent; a
doubt is never forgotten. By destination or for everything the work is cut into slices, so that neither memory
nor a transaction follows the backlog.
"""

import math
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from mta.model.address import AddressError, parse_address
from mta.model.envelope import MailClass
from mta.model.lifecycle import FINISHED, Event, IllegalTransition, Status, after
from mta.spool.base import Changed, Selection, SpoolRefusal
from mta.spool.batch import Effects, Sum
from mta.spool.marks import withdraw
from mta.spool.rows import RecipientRow, as_member, first_id, last_id, message_of, move, recipients_where, ring, save, tell
from mta.spool.schema import MESSAGE_SHIFT

SLICE = 1000
"""Recipients that one transaction of a retry by destination makes due."""

_TOLD_AS = {
    Event.RETRY: "resolved",
    Event.HOLD: "held",
    Event.RELEASE: "released",
    Event.CANCEL: "cancelled",
    Event.RESOLVE_SENT: "resolved",
    Event.RESOLVE_RESEND: "resolved",
}
_NOTHING = "nothing to do"


def order(
    db: sqlite3.Connection, effects: Effects, busy: Collection[int], event: Event, selection: Selection
) -> list[Changed]:
    """For messages by queue id; `busy` are the claimed recipients. Raises `SpoolRefusal`."""
    changed = []
    for queue_id in dict.fromkeys(selection.queue_ids):
        changed += _message(db, effects, busy, event, _selected(db, queue_id, selection.recipient))
    return changed


def _message(
    db: sqlite3.Connection, effects: Effects, busy: Collection[int], event: Event, rows: list[RecipientRow]
) -> list[Changed]:
    """The selected recipients of one message: those that the verb applies to, else its refusal for the first."""
    changed, refusals = [], []
    for row in rows:
        try:
            changed.append(_apply(db, effects, row, event, row.id in busy))
        except SpoolRefusal as refusal:  # raised before anything is touched
            refusals.append(refusal)
    if refusals and not changed:
        raise refusals[0]
    return changed


def _selected(db: sqlite3.Connection, queue_id: str, wanted: str) -> list[RecipientRow]:
    message = db.execute("SELECT id FROM messages WHERE queue_id = ?", (queue_id,)).fetchone()
    if message is None:
        raise SpoolRefusal(f"no message {queue_id}")
    rows = recipients_where(db, "WHERE r.id BETWEEN ? AND ?", (first_id(message[0]), last_id(message[0])))
    if wanted:
        rows = [row for row in rows if _key(wanted) in (_key(row.address), _key(row.original))]
        if not rows:
            raise SpoolRefusal(f"{queue_id} has no recipient {wanted}")
    return rows


def _key(address: str) -> str:
    try:
        return parse_address(address or "", utf8=True).key
    except AddressError:
        return address


def _apply(db: sqlite3.Connection, effects: Effects, row: RecipientRow, event: Event, busy: bool) -> Changed:
    before = as_member(Status, row.status, Status.PENDING)
    if row.damaged and event is not Event.CANCEL:
        raise SpoolRefusal(f"{row.queue_id} is damaged ({row.damaged}): only cancel applies to it")
    if busy and before not in FINISHED and not row.damaged:
        return _while_sending(db, row, event)
    following = _following(row, before, event)
    if following is before and not (event is Event.RETRY and before is Status.PENDING):
        return Changed(row.queue_id, row.address, before, before, _NOTHING)
    row.status = before.value
    row.held_from = before.value if event is Event.HOLD else ""
    move(effects, row, following)
    if event in (Event.RETRY, Event.RESOLVE_RESEND):
        _due_now(db, effects, row, before)
    if following is not before:
        _tell(db, effects, row, event, before)
    save(db, row)
    ring(effects, row)
    if row.damaged:
        _count_ended_damage(db, effects, row)
    return Changed(row.queue_id, row.address, before, following, "due now" if following is before else "")


def _following(row: RecipientRow, before: Status, event: Event) -> Status:
    if event is Event.RELEASE and before not in FINISHED:
        return as_member(Status, row.held_from, Status.PENDING) if before is Status.HELD else before
    try:
        return after(before, event, doubts=row.doubts)
    except IllegalTransition as error:
        raise SpoolRefusal(f"{row.queue_id} {row.address}: {error}") from None


def _while_sending(db: sqlite3.Connection, row: RecipientRow, event: Event) -> Changed:
    note = _NOTHING
    if event in (Event.RESOLVE_SENT, Event.RESOLVE_RESEND):
        raise SpoolRefusal(f"{row.queue_id} {row.address}: {IllegalTransition(Status.SENDING, event)}")
    if event is Event.CANCEL or (event is Event.HOLD and not row.requested):
        row.requested = event.value
        note = f"{'cancelled' if event is Event.CANCEL else 'held'} when the attempt ends unsent"
    elif event is Event.RELEASE and row.requested == Event.HOLD:
        row.requested, note = "", "no longer to be held"
    save(db, row)
    return Changed(row.queue_id, row.address, Status.SENDING, Status.SENDING, note)


def _due_now(db: sqlite3.Connection, effects: Effects, row: RecipientRow, before: Status) -> None:
    """Due at once; one that was given up gets a lifetime as long as its first, or it would be given up at once again."""
    row.next_at, row.refusals = effects.now, 0
    if before is not Status.DEAD:
        return
    old, message = row.expires_at, message_of(row.id)
    row.expires_at = row.overdue_at = max(old, effects.now + row.lifetime)
    db.execute("UPDATE messages SET expires_at = ? WHERE id = ?", (row.expires_at, message))
    db.execute(
        "UPDATE recipients SET overdue_at = ? WHERE id BETWEEN ? AND ? AND overdue_at = ?",
        (row.expires_at, first_id(message), last_id(message), old),
    )


def _tell(db: sqlite3.Connection, effects: Effects, row: RecipientRow, event: Event, before: Status) -> None:
    if event not in (Event.HOLD, Event.RELEASE):
        withdraw(db, row)
    tell(db, effects, message_of(row.id), _TOLD_AS[event], row.address, {"verb": event.value, "was": before.value})


def _count_ended_damage(db: sqlite3.Connection, effects: Effects, row: RecipientRow) -> None:
    """A message in quarantine whose last recipient was cancelled needs nobody any more."""
    message = message_of(row.id)
    rows = db.execute("SELECT status FROM recipients WHERE id BETWEEN ? AND ?", (first_id(message), last_id(message)))
    if all(status in FINISHED for (status,) in rows):
        effects.change(Sum.TALLY, "damaged", -1)


_SOONEST = f"""CASE WHEN status <> 'pending' THEN :rested WHEN attempts > 0 THEN :now
    ELSE max(:now, coalesce((SELECT not_before FROM messages WHERE messages.id = r.id >> {MESSAGE_SHIFT}), :now)) END"""
"""What was tried is released, also where the clock went back behind its release since."""
_DUE_NOW = f"""UPDATE recipients AS r SET next_at = {_SOONEST}, refusals = 0 WHERE id IN (
    SELECT r.id FROM recipients AS r INDEXED BY recipients_due WHERE r.waiting AND r.destination = :destination
    AND r.class = :class AND r.next_at > :after AND r.next_at > {_SOONEST} LIMIT :room)"""


@dataclass(frozen=True, slots=True)
class Sooner:
    """What is made due: pending recipients that would wait for more than `beyond` seconds, at once, or at their release, and
    doubts that are to be retried, after at most `doubt_rest` seconds. A person's `retry` is for all of the former, for none
    of the latter."""

    beyond: float = 0.0
    doubt_rest: float = math.inf


def retry_slice(db: sqlite3.Connection, effects: Effects, destination: str, sooner: Sooner) -> int:
    """At most `SLICE` recipients of a destination, none before its release. How many."""
    total = 0
    for mail_class in MailClass:
        changed = db.execute(
            _DUE_NOW,
            {
                "now": effects.now, "after": effects.now + sooner.beyond, "rested": effects.now + sooner.doubt_rest,
                "destination": destination,
                "class": int(mail_class), "room": SLICE - total,
            },
        ).rowcount
        if changed:
            effects.ring(destination, effects.now, mail_class)
        total += changed
    return total


def standing_hold(db: sqlite3.Connection, _effects: Effects, destination: str, held: bool) -> None:
    """Raises `SpoolRefusal` when there is no order to take back."""
    if held:
        db.execute("INSERT OR IGNORE INTO standing_holds (destination) VALUES (?)", (destination,))
    elif not db.execute("DELETE FROM standing_holds WHERE destination = ?", (destination,)).rowcount:
        what = "everything" if destination == "*" else destination
        raise SpoolRefusal(f"there is no standing order that holds {what}")
