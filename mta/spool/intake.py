"""SQL of what goes in: a message with all its recipients and its content, whole or not at all (RFC 5321 section 6.1);
and the setting apart of a damaged one."""

import sqlite3
import zlib
from collections import Counter

from mta.model.envelope import DeliverBy, NewMessage
from mta.model.lifecycle import FINISHED, STORED, Status
from mta.model.notify import Of, wants
from mta.model.text import safe_text
from mta.spool.base import ContentBuffer, SpoolError
from mta.spool.batch import Effects, Sum
from mta.spool.rows import first_id, last_id
from mta.spool.schema import MESSAGE_SHIFT


def accept(db: sqlite3.Connection, effects: Effects, message: NewMessage, content: ContentBuffer) -> None:
    count = len(message.recipients)
    if not 0 < count < 1 << MESSAGE_SHIFT:
        raise SpoolError(f"a message can't have {count} recipients")
    row = (message.queue_id, message.message_id, message.reverse_path, safe_text(message.subject), message.size,
           content.size, message.eight_bit, int(message.mail_class), message.kind.value, message.accepted_at,
           message.expires_at, message.warn_at, message.expires_at - _start(message), count, count,
           message.scope, message.key or None, message.fingerprint, message.in_doubt.value,
           message.priority, *_deadline(message.deliver_by), message.not_before, message.hold_request,
           message.ret, message.envid, message.utf8, message.submitter, message.require_tls,
           message.tls_optional)  # fmt: skip
    message_id = db.execute(
        """INSERT INTO messages (queue_id, message_id, reverse_path, subject, size, octets, eight_bit, class, kind,
        accepted_at, expires_at, warn_at, lifetime, unfinished, waiting, scope, idempotency_key, fingerprint, doubt_order,
        priority, deliver_by, by_mode, by_trace, not_before, hold_request, ret, envid, utf8, submitter,
        require_tls, tls_optional) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)""",
        row,
    ).lastrowid
    assert message_id is not None  # noqa: S101  what lastrowid is after an INSERT
    _insert_recipients(db, effects, message, first_id(message_id))
    db.executemany("INSERT INTO content (id, chunk) VALUES (?, ?)", enumerate(content.chunks(), first_id(message_id)))


def _start(message: NewMessage) -> float:
    """What its age counts from."""
    return max(message.accepted_at, message.not_before or message.accepted_at)


def _deadline(by: DeliverBy | None) -> tuple[float | None, str, bool]:
    return (None, "", False) if by is None else (by.at, by.mode.value, by.trace)


def _insert_recipients(db: sqlite3.Connection, effects: Effects, message: NewMessage, first: int) -> None:
    next_at = max(effects.now, message.not_before or effects.now)
    sender = zlib.crc32(message.reverse_path.lower().encode())
    alike = (int(message.mail_class), next_at, sender)
    db.executemany(
        """INSERT INTO recipients (id, address, original, notify, orcpt, destination, class, next_at, sender,
        overdue_at, fails_at, late_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [
            (recipient_id, new.address, new.original, new.notify, new.orcpt, new.destination, *alike,
             *_told_at(message, wants(new.notify, Of.DELAY)))
            for recipient_id, new in enumerate(message.recipients, first)
        ],
    )  # fmt: skip
    effects.deadlines |= message.deliver_by is not None
    effects.change(Sum.COUNT, (Status.PENDING.value, int(message.mail_class)), len(message.recipients))
    for destination, count in Counter(new.destination for new in message.recipients).items():
        effects.change(Sum.WAITING, destination, count)
        effects.ring(destination, next_at, message.mail_class)


def _told_at(message: NewMessage, of_delays: bool) -> tuple[float, float | None, float | None]:
    """(When it is overdue, when it fails, when it is late): at most one of the last two. Nobody hears of a delay of what
    has no sender, or one who wants none: what nobody is told of is not to come up to be told."""
    by, warn_at = message.deliver_by, message.warn_at if of_delays else None
    overdue_at = min(message.expires_at, warn_at or message.expires_at)
    if by is None:
        return overdue_at, None, None
    is_told = of_delays and message.reverse_path != ""
    return (overdue_at, by.at, None) if by.fails else (overdue_at, None, by.at if is_told else None)


def quarantine(db: sqlite3.Connection, effects: Effects, message: int, reason: str) -> None:
    """Nothing of this message is tried any more; what is finished of it stays as it is, and so does a message that is
    finished altogether. A second reason is not kept."""
    rows = db.execute(
        "SELECT destination, class, status, waiting FROM recipients WHERE id BETWEEN ? AND ?",
        (first_id(message), last_id(message)),
    ).fetchall()
    if all(status in FINISHED for _, _, status, _ in rows):
        return
    changed = db.execute(
        "UPDATE messages SET damaged = ? WHERE id = ? AND damaged = ''", (safe_text(reason) or "damaged", message)
    ).rowcount
    if not changed and not any(waiting for *_, waiting in rows):
        return
    for destination, mail_class, status, waiting in rows:
        if status in STORED and status not in FINISHED:
            effects.change(Sum.COUNT, (status, mail_class), -1)
        effects.change(Sum.WAITING, destination, -waiting)
        effects.change(Sum.WAITING_OF, message, -waiting)
    effects.change(Sum.TALLY, "damaged", changed)
    db.execute(
        "UPDATE recipients SET waiting = 0 WHERE id BETWEEN ? AND ? AND waiting", (first_id(message), last_id(message))
    )


def quarantine_named(db: sqlite3.Connection, effects: Effects, queue_id: str, reason: str) -> None:
    row = db.execute("SELECT id FROM messages WHERE queue_id = ?", (queue_id,)).fetchone()
    if row is not None:
        quarantine(db, effects, row[0], reason)
