"""SQL of an attempt's end: the mark before the dot, the settlement, the return of what was not tried, and what a crash
left (RFC 1047, RFC 5321 section 6.1).

Rules: changes of status are those of `model.lifecycle`; results count only for recipients that the claim still holds, so
a settlement given again changes nothing; a delivery and a doubt are recorded whatever a person ordered meanwhile.
"""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from mta.model.envelope import DoubtOrder, Kind, Notice
from mta.model.lifecycle import FINISHED, WAITING, Event, Status, after
from mta.model.notify import Of, wants
from mta.model.reply import Reply, finding
from mta.spool.base import (
    Claim,
    ClaimedRecipient,
    DoubtPolicy,
    RecipientResult,
    Reconciled,
    Settled,
    Settlement,
    SpoolError,
    Trial,
)
from mta.spool.batch import Effects
from mta.spool.claims import Claims
from mta.spool.marks import mark, next_step
from mta.spool.rows import (
    RecipientRow,
    as_member,
    as_text,
    mark_sent,
    message_of,
    move,
    recipient,
    recipients_where,
    reply_detail,
    ring,
    save,
    tell,
)
from mta.spool.schema import NOTABLE

_TOLD_AS = {
    Event.DELIVERED: "sent",
    Event.DEFERRED: "deferred",
    Event.DOUBTED: "in_doubt",
    Event.REFUSED: "failed",
    Event.GAVE_UP: "dead",
}
_REPLY_LOST = finding("4.4.2", "the daemon ended before the reply to the final dot was read")
_ATTEMPT_LOST = finding("4.3.0", "the attempt ended without a result, perhaps after the final dot")
_LEFT_HALFWAY = f"{NOTABLE} AND (r.in_flight OR r.requested <> '')"


def mark_in_doubt(
    db: sqlite3.Connection, effects: Effects, claims: Claims, claim: Claim, recipient_ids: Sequence[int], host: str,
    address: str, signed: str,
) -> None:  # fmt: skip
    held = _held(claims, effects, claim)
    for recipient_id in recipient_ids:
        if recipient_id not in held or not mark_sent(db, effects, recipient_id, host, address, signed):
            raise SpoolError(f"{claim.queue_id}: a recipient is not to be sent any more")


def settle(db: sqlite3.Connection, effects: Effects, claims: Claims, settlement: Settlement) -> tuple[Settled, ...]:
    claim = settlement.claim
    held = _held(claims, effects, claim)
    results = {result.recipient_id: result for result in settlement.results}
    for trial in settlement.trials if held else ():
        _tell_trial(db, effects, claim, trial)
    step = next_step(db) if any(result.notices for result in settlement.results) else 0
    settled = []
    for one in claim.recipients:
        row, result = recipient(db, one.id), results.get(one.id)
        if row is None:
            continue
        ours = one.id in held and row.status in WAITING  # a damaged message can be cancelled while it is claimed
        if ours and result is None:
            _give_back(db, effects, row, one)
        elif ours and result is not None:
            _record(db, effects, row, one, result, step)
        if result is not None:
            settled.append(Settled(one.id, Status(row.status), row.attempts))
    effects.ended.add(claim.id)
    return tuple(settled)


def release(db: sqlite3.Connection, effects: Effects, claims: Claims, claim: Claim) -> None:
    held = _held(claims, effects, claim)
    for one in claim.recipients:
        row = recipient(db, one.id) if one.id in held else None
        if row is not None and row.status in WAITING:
            _give_back(db, effects, row, one)
    effects.ended.add(claim.id)


def _held(claims: Claims, effects: Effects, claim: Claim) -> frozenset[int]:
    return frozenset() if claim.id in effects.ended else claims.holds(claim.id)


def _give_back(db: sqlite3.Connection, effects: Effects, row: RecipientRow, one: ClaimedRecipient) -> None:
    """Nothing was sent: as it was when it was claimed, but for what a person ordered meanwhile."""
    if row.in_flight or row.requested:
        if row.in_flight:
            move(effects, row, one.status)  # the dot did not go out: the mark is undone, not followed by an event
        _undo_mark(row, one)
        _obey(db, effects, row)
        save(db, row)
    ring(effects, row)


def _undo_mark(row: RecipientRow, one: ClaimedRecipient) -> None:
    if row.in_flight:
        row.in_flight, row.doubt_host, row.doubt_address, row.signed = 0, one.remote_host, one.remote_address, one.signed


def _obey(db: sqlite3.Connection, effects: Effects, row: RecipientRow) -> None:
    """Does what a person ordered while the recipient was being sent, if anything; the caller saves the row."""
    if not row.requested:
        return
    event = Event(row.requested)
    if event is Event.HOLD:
        row.held_from = row.status
    move(effects, row, after(Status(row.status), event))
    row.requested = ""
    tell(db, effects, message_of(row.id), row.status, row.address, {"ordered": "while it was being sent"})


def _record(
    db: sqlite3.Connection, effects: Effects, row: RecipientRow, one: ClaimedRecipient, result: RecipientResult, step: int
) -> None:
    event = _effective(row, result)
    _note(row, result)
    if event is Event.DOUBTED or result.doubted:
        row.doubts, row.in_flight = row.doubts + 1, 0
    if result.counted or event is not Event.DEFERRED:
        _follow(effects, row, event)
        tell(db, effects, message_of(row.id), _TOLD_AS[event], row.address, _detail(row.attempts, result))
    elif row.in_flight:  # a rest without an attempt is no event and settles no doubt
        move(effects, row, one.status)
    _undo_mark(row, one)
    if row.status in FINISHED:
        row.requested = ""
    else:
        row.next_at = result.next_attempt_at if event is Event.DOUBTED else result.next_attempt_at or effects.now
        _obey(db, effects, row)
    if event is result.event and row.status != Status.CANCELLED:
        mark(db, effects, row, result.notices, result.reply, host=result.host, phase=result.phase, step=step)
    if row.warned:
        row.overdue_at = row.expires_at
    if row.kind not in (Kind.MAIL, Kind.TLS_REPORT) and row.status in (Status.FAILED, Status.DEAD):
        db.execute("UPDATE messages SET untold = untold + 1 WHERE id = ?", (message_of(row.id),))
    if result.counted:  # else it is no word of the destination's
        effects.replies[row.destination] = str(result.reply)
    save(db, row)
    ring(effects, row)


def _effective(row: RecipientRow, result: RecipientResult) -> Event:
    """A person's order is stronger than our giving up, and `cancel` also than a refusal: the attempt merely ended
    unsent, or in doubt (interface.md section 1)."""
    overruled = {Event.CANCEL: (Event.REFUSED, Event.GAVE_UP), Event.HOLD: (Event.GAVE_UP,)}
    if not row.requested or result.event not in overruled[Event(row.requested)]:
        return result.event
    return Event.DOUBTED if result.doubted else Event.DEFERRED


def _note(row: RecipientRow, result: RecipientResult) -> None:
    if result.counted:
        row.attempts, row.refusals = row.attempts + 1, result.refusals
    if result.host:
        row.remote_host, row.remote_address = result.host, result.address
    row.remote_id = result.remote_id or row.remote_id
    row.category = result.category
    row.reply_code, row.reply_enhanced, row.reply_text = result.reply.code, result.reply.enhanced, result.reply.text


def _follow(effects: Effects, row: RecipientRow, event: Event) -> None:
    status = Status(row.status)
    if status is Status.PENDING and event in (Event.DELIVERED, Event.DOUBTED):
        status = after(status, Event.MARKED)  # a fact is recorded even where its mark is missing
    move(effects, row, after(status, event))


def _detail(attempt: int, result: RecipientResult) -> dict[str, object]:
    return {
        "attempt": attempt,
        "server": result.host,
        "address": result.address,
        "tls": result.tls,
        "phase": result.phase,
        "reply": reply_detail(result.reply),
        "remote_id": result.remote_id,
        "next_attempt_at": result.next_attempt_at,
        **{name: value for name in ("category", "signed", "policy") if (value := getattr(result, name))},
    }


def _tell_trial(db: sqlite3.Connection, effects: Effects, claim: Claim, trial: Trial) -> None:
    alone = claim.recipients[0].address if len(claim.recipients) == 1 else ""
    detail = {"destination": claim.destination, "server": trial.host, "address": trial.address, "tls": trial.tls,
              "phase": trial.phase, "reply": reply_detail(trial.reply)}  # fmt: skip
    first = claim.recipients[0].id
    tell(db, effects, message_of(first), "attempt", alone, detail)


def recover(db: sqlite3.Connection, effects: Effects, doubts: DoubtPolicy) -> int:
    """What a crash left: dots whose reply was not read become doubts, orders for what was being sent are obeyed. How many
    doubts."""
    return _go_on(db, effects, recipients_where(db, f"WHERE {_LEFT_HALFWAY}", ()), doubts, _REPLY_LOST)


def left_halfway(db: sqlite3.Connection, busy: Collection[int]) -> list[int]:
    """Recipients with a mark or an order that are not among the `busy`."""
    rows = db.execute(f"SELECT r.id FROM recipients r WHERE {_LEFT_HALFWAY}")
    return [recipient_id for (recipient_id,) in rows if recipient_id not in busy]


def reconcile(
    db: sqlite3.Connection, effects: Effects, claims: Claims, abandoned: Collection[int], loose: Iterable[int],
    doubts: DoubtPolicy,
) -> Reconciled:  # fmt: skip
    """Ends the `abandoned` claims; what they held, and the `loose` recipients, go on unless they are claimed by now."""
    over = set(abandoned) - effects.ended
    freed = {recipient_id for claim in over for recipient_id in claims.holds(claim)}
    ids = freed.union(loose) - claims.everyone(effects.ended | over)
    rows = [row for row in map(partial(recipient, db), sorted(ids)) if row is not None and row.status in WAITING]
    found = _go_on(db, effects, rows, doubts, _ATTEMPT_LOST)
    effects.ended |= over
    return Reconciled(len(over), found)


def _go_on(
    db: sqlite3.Connection, effects: Effects, rows: Sequence[RecipientRow], doubts: DoubtPolicy, lost: Reply
) -> int:
    """What nobody ends any more: how many doubts that makes."""
    found = sum(row.in_flight for row in rows)
    step = next_step(db)
    for row in rows:
        if row.in_flight:
            _doubt(db, effects, row, doubts, lost, step + message_of(row.id))
        _obey(db, effects, row)
        save(db, row)
        ring(effects, row)
    return found


def _doubt(
    db: sqlite3.Connection, effects: Effects, row: RecipientRow, doubts: DoubtPolicy, lost: Reply, step: int
) -> None:
    row.attempts, row.doubts, row.in_flight = row.attempts + 1, row.doubts + 1, 0
    row.remote_host, row.remote_address = row.doubt_host, row.doubt_address
    row.reply_code, row.reply_enhanced, row.reply_text, row.category = None, lost.enhanced, lost.text, ""
    rest = doubts.rest_of(as_member(DoubtOrder, row.doubt_order, DoubtOrder.DEFAULT))
    row.next_at = None if rest is None else effects.now + rest
    detail = {"attempt": row.attempts, "server": row.remote_host, "address": row.remote_address, "phase": "final",
              "reply": reply_detail(lost), "next_attempt_at": row.next_at}  # fmt: skip
    tell(db, effects, message_of(row.id), "in_doubt", row.address, detail)
    if rest is None and not row.requested:
        mark(db, effects, row, _held_doubt(row, doubts.alerts), lost, host=row.remote_host, phase="final", step=step)


def _held_doubt(row: RecipientRow, alerts: tuple[Notice, ...]) -> tuple[Notice, ...]:
    """Who hears of a doubt that waits for a person (interface.md section 4)."""
    if row.kind == Kind.MAIL and row.reverse_path and wants(as_text(row.notify), Of.DELAY):
        return Notice.DSN_DOUBT, *alerts
    return alerts if row.kind in (Kind.MAIL, Kind.DSN) else ()
