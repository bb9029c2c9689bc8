"""SQL of what is to be told: marks are made in the commit that decides, and end in the commit that tells (B08).

Rules: a recipient gets at most one mark for a failed DSN, ever, unless a person took its failure back before anything
was told; a mark keeps the reply and the phase of its moment, while status and counts are read as they are now.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from mta.model.envelope import Kind, MailClass, NewMessage, Notice
from mta.model.lifecycle import Status
from mta.model.reply import Reply
from mta.spool.base import ContentBuffer, DueNotice, SpoolRefusal
from mta.spool.batch import Effects
from mta.spool.intake import accept
from mta.spool.rows import (
    RecipientRow,
    as_number,
    as_text,
    deliver_by_of,
    first_id,
    last_id,
    message_of,
    reply_of,
    tell,
)
from mta.spool.schema import MESSAGE_SHIFT

BOUNCES = {
    Notice.DSN_FAILED.value: "failed",
    Notice.DSN_DELAYED.value: "delayed",
    Notice.DSN_DOUBT.value: "delayed",
    Notice.DSN_LATE.value: "delayed",
    Notice.DSN_RELAYED.value: "relayed",
}
"""The action of the DSN that each mark becomes (RFC 3464 section 2.3.3)."""


def next_step(db: sqlite3.Connection) -> int:
    """A number above every mark's that is still there."""
    return int(db.execute("SELECT coalesce(max(step), 0) + 1 FROM notices").fetchone()[0])


def mark(
    db: sqlite3.Connection,
    effects: Effects,
    row: RecipientRow,
    notices: Iterable[Notice],
    reply: Reply,
    *,
    host: str,
    phase: str,
    step: int,
) -> None:
    """Marks a recipient; `row.bounced`, `row.warned` and `row.late_at` are set, for the caller to save."""
    for notice in notices:
        if notice is Notice.DSN_FAILED:
            if row.bounced:
                continue
            row.bounced = 1
        row.warned |= notice in (Notice.DSN_DELAYED, Notice.DSN_LATE)
        if notice is Notice.DSN_LATE:
            row.late_at = None
        db.execute(
            """INSERT INTO notices (kind, step, at, recipient, phase, remote_host, reply_code, reply_enhanced, reply_text)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (notice.value, step, effects.now, row.id, phase, host, reply.code, reply.enhanced, reply.text),
        )
        effects.notices = True


def withdraw(db: sqlite3.Connection, row: RecipientRow) -> None:
    """A person took the result back: what was not told yet is not told."""
    kinds = db.execute("DELETE FROM notices WHERE recipient = ? RETURNING kind", (row.id,)).fetchall()
    if (Notice.DSN_FAILED.value,) in kinds:
        row.bounced = 0


_SELECT = f"""SELECT n.id, n.kind, n.step, n.at, m.queue_id, m.message_id, m.reverse_path, m.kind, m.subject,
    m.accepted_at, m.expires_at, r.address, r.original, r.status, r.attempts, r.doubts,
    n.reply_code, n.reply_enhanced, n.reply_text, n.remote_host, n.phase, m.class, m.idempotency_key,
    m.deliver_by, m.by_mode, m.by_trace, m.hold_request, m.priority, m.ret, m.envid, m.utf8, r.notify, r.orcpt,
    r.category, m.require_tls
    FROM notices n JOIN recipients r ON r.id = n.recipient JOIN messages m ON m.id = n.recipient >> {MESSAGE_SHIFT}
    WHERE n.kind IN (SELECT value FROM json_each(:kinds)) AND n.step <= :last ORDER BY n.step, n.id"""
_LAST_STEP = """SELECT step FROM notices WHERE kind IN (SELECT value FROM json_each(:kinds))
    ORDER BY step LIMIT 1 OFFSET :limit - 1"""


def due(db: sqlite3.Connection, kinds: Iterable[Notice], limit: int) -> list[DueNotice]:
    """The oldest marks of these kinds by whole steps."""
    if db.execute("SELECT 1 FROM notices LIMIT 1").fetchone() is None:  # mostly so, and it is asked with every look
        return []
    wanted = json.dumps([kind.value for kind in kinds])
    last = db.execute(_LAST_STEP, {"kinds": wanted, "limit": max(limit, 1)}).fetchone()
    rows = db.execute(_SELECT, {"kinds": wanted, "last": last[0] if last else 1 << 62}).fetchall()
    return [notice for row in rows if (notice := _notice(row)) is not None]


def _notice(row: tuple[Any, ...]) -> DueNotice | None:
    """None for a mark whose rows are damaged: it stays, and is told by what shows the quarantine."""
    notice_id, kind, step, at, queue_id, message_id, reverse_path, mail_kind, subject, accepted_at, expires_at = row[:11]
    address, original, status, attempts, doubts, code, enhanced, text, host, phase, mail_class, key = row[11:23]
    *deadline, hold_request, priority, ret, envid, utf8, notify, orcpt, category, require_tls = row[23:]
    try:
        notice, mail, standing, mail_class = Notice(kind), Kind(mail_kind), Status(status), MailClass(mail_class)
    except ValueError:
        return None
    if not address:
        return None
    return DueNotice(
        id=int(as_number(notice_id)), notice=notice, step=int(as_number(step)), at=as_number(at),
        queue_id=as_text(queue_id), message_id=as_text(message_id), reverse_path=as_text(reverse_path),
        kind=mail, subject=as_text(subject), accepted_at=as_number(accepted_at),
        expires_at=as_number(expires_at), recipient=as_text(address), original=as_text(original), status=standing,
        attempts=int(as_number(attempts)), doubts=int(as_number(doubts)),
        reply=reply_of(code, enhanced, text) or Reply(None, None, ""), remote_host=as_text(host), phase=as_text(phase),
        mail_class=mail_class, key=as_text(key), deliver_by=deliver_by_of(*deadline),
        hold_request=as_text(hold_request), priority=int(as_number(priority)), ret=as_text(ret), envid=as_text(envid),
        utf8=bool(utf8), notify=as_text(notify), orcpt=as_text(orcpt), category=as_text(category),
        require_tls=bool(require_tls),
    )  # fmt: skip


def told(db: sqlite3.Connection, notice_ids: Sequence[int]) -> None:
    db.execute("DELETE FROM notices WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(notice_ids)),))


def seen(db: sqlite3.Connection, effects: Effects, queue_id: str, unreported: bool) -> None:
    """As the verb says. Raises `SpoolRefusal`."""
    found = db.execute("SELECT id, untold FROM messages WHERE queue_id = ?", (queue_id,)).fetchone()
    message, untold = found or (0, 0)
    if unreported:
        waits = "kind = ? AND recipient BETWEEN ? AND ?"
        bounds = (Notice.REPORT.value, first_id(message), last_id(message))
        untold = db.execute(f"DELETE FROM notices WHERE {waits}", bounds).rowcount or untold
    if not untold:
        raise SpoolRefusal(f"{queue_id} has no failure that could be told to nobody")
    db.execute("UPDATE messages SET untold = 0 WHERE id = ?", (message,))
    tell(db, effects, message, "resolved", "", {"verb": "seen"})


def report(
    db: sqlite3.Connection,
    effects: Effects,
    notice_ids: Sequence[int],
    message: NewMessage | None,
    content: ContentBuffer | None,
) -> None:
    """As the verb says. Where a mark is gone (told, or withdrawn, meanwhile) nothing happens: those that are left will be
    read again."""
    wanted = json.dumps(list(notice_ids))
    condition = "id IN (SELECT value FROM json_each(?))"
    marks = db.execute(f"SELECT kind, recipient FROM notices WHERE {condition}", (wanted,)).fetchall()
    if len(marks) < len(set(notice_ids)):
        return
    db.execute(f"DELETE FROM notices WHERE {condition}", (wanted,))
    if message is None or content is None:
        for _, recipient_id in marks:
            db.execute("UPDATE messages SET untold = untold + 1 WHERE id = ?", (message_of(recipient_id),))
        return
    accept(db, effects, message, content)
    for kind, recipient_id in marks:
        if kind in BOUNCES:
            address = db.execute("SELECT address FROM recipients WHERE id = ?", (recipient_id,)).fetchone()
            detail = {"action": BOUNCES[kind], "dsn": message.queue_id}
            tell(db, effects, message_of(recipient_id), "bounced", as_text(address and address[0]), detail)
