"""SQL of what makes an email one: its idempotency key, else (where asked for) its Message-ID. Decided in the accepting
transaction, the only one that writes, and held by a unique index besides.
"""

import sqlite3
from collections.abc import Collection

from mta.model.envelope import NewMessage
from mta.model.lifecycle import FINISHED, WAITING, Status
from mta.spool.base import Clash, Earlier
from mta.spool.batch import Effects
from mta.spool.rows import as_member, as_text, first_id, last_id

_FIRST_OF = (
    Status.IN_DOUBT, Status.SENDING, Status.PENDING, Status.HELD, Status.SENT, Status.DEAD, Status.FAILED, Status.CANCELLED,
)  # fmt: skip
"""Which of several recipients' statuses stands for the message."""


def earlier(db: sqlite3.Connection, effects: Effects, busy: Collection[int], new: NewMessage) -> Earlier | None:
    """The message that `new` repeats, or whose key it takes; counted there. None: it is the first."""
    row = _by_key(db, new) if new.key else _by_message_id(db, new)
    if row is None:
        return None
    message, queue_id, known = row
    status, clash = _standing(db, busy, message)
    if as_text(known) != new.fingerprint:
        clash = Clash.OTHER
    db.execute(
        "UPDATE messages SET duplicates = duplicates + 1, duplicate_at = ? WHERE id = ?", (effects.now, message)
    )
    return Earlier(as_text(queue_id), status, clash)


def knows(db: sqlite3.Connection, key: str, scope: str) -> bool:
    found = db.execute("SELECT 1 FROM messages WHERE idempotency_key = ? AND scope = ?", (key, scope)).fetchone()
    return found is not None


def _by_key(db: sqlite3.Connection, new: NewMessage) -> tuple[int, object, object] | None:
    row: tuple[int, object, object] | None = db.execute(
        "SELECT id, queue_id, fingerprint FROM messages WHERE idempotency_key = ? AND scope = ?", (new.key, new.scope)
    ).fetchone()
    return row


def _by_message_id(db: sqlite3.Connection, new: NewMessage) -> tuple[int, object, object] | None:
    if new.same_since is None:
        return None
    row: tuple[int, object, object] | None = db.execute(
        """SELECT id, queue_id, fingerprint FROM messages WHERE message_id = ? AND scope = ? AND fingerprint = ?
        AND accepted_at >= ? ORDER BY id DESC LIMIT 1""",
        (new.message_id, new.scope, new.fingerprint, new.same_since),
    ).fetchone()
    return row


def _standing(db: sqlite3.Connection, busy: Collection[int], message: int) -> tuple[Status, Clash]:
    rows = db.execute(
        "SELECT id, status, doubts FROM recipients WHERE id BETWEEN ? AND ?", (first_id(message), last_id(message))
    ).fetchall()
    statuses = set()
    for recipient, stored, _ in rows:
        status = as_member(Status, stored, Status.PENDING)
        statuses.add(Status.SENDING if recipient in busy and status in WAITING else status)
    unsent = statuses <= FINISHED - {Status.SENT} and not any(doubts for *_, doubts in rows)
    return next(it for it in _FIRST_OF if it in statuses), Clash.FINISHED if unsent else Clash.DUPLICATE
