"""SQL of forgetting: content first, then whole messages, in small steps; never anything unfinished, never anything whose
sender is still to be told (RFC 5321 section 6.1). Space is given back to the file system a little at a time."""

import sqlite3

from mta.spool import marks, memories
from mta.spool.base import Purged
from mta.spool.batch import BATCH_OCTETS, Effects, Sum
from mta.spool.rows import first_id, last_id
from mta.spool.schema import MESSAGE_SHIFT

VACUUM_PAGES = 500
"""Pages that one step gives back, of those beyond a quarter of the file: the rest is for the mail to come."""
_FOR_SENDERS = ", ".join(f"'{it}'" for it in marks.BOUNCES)
_TOLD = f"""NOT EXISTS (SELECT 1 FROM notices n WHERE n.recipient BETWEEN m.id << {MESSAGE_SHIFT}
    AND (m.id + 1 << {MESSAGE_SHIFT}) - 1 AND n.kind IN ({_FOR_SENDERS}))"""


def purge(
    db: sqlite3.Connection, effects: Effects, content_before: float, messages_before: float, limit: int
) -> Purged:
    contents = _finished(db, "m.content_gone = 0", content_before, limit)
    for message in contents:
        db.execute("DELETE FROM content WHERE id BETWEEN ? AND ?", (first_id(message), last_id(message)))
        db.execute("UPDATE messages SET content_gone = 1 WHERE id = ?", (message,))
    messages = _finished(db, "m.content_gone IN (0, 1)", messages_before, limit)
    for message in messages:
        _forget(db, effects, message)
    if not contents and not messages:
        _forget_destinations(db, limit)
    memories.purge(db, limit, effects.now)
    return Purged(len(contents), len(messages), _give_space_back(db))


def _finished(db: sqlite3.Connection, condition: str, before: float, limit: int) -> list[int]:
    """Finished messages that may go, at most `limit` and at most a batch of content (or one larger message)."""
    rows = db.execute(
        f"""SELECT m.id, m.octets FROM messages m INDEXED BY messages_finished WHERE {condition}
        AND m.finished_at IS NOT NULL AND m.finished_at < ? AND {_TOLD} ORDER BY m.finished_at LIMIT ?""",
        (before, limit),
    ).fetchall()
    chosen: list[int] = []
    octets = 0
    for message, size in rows:
        octets += size if isinstance(size, int) else 0
        if chosen and octets > BATCH_OCTETS:
            break
        chosen.append(message)
    return chosen


def _forget(db: sqlite3.Connection, effects: Effects, message: int) -> None:
    bounds = (first_id(message), last_id(message))
    rows = db.execute("SELECT status, class FROM recipients WHERE id BETWEEN ? AND ?", bounds).fetchall()
    for status, mail_class in rows:
        effects.change(Sum.COUNT, (status, mail_class), -1)
    db.execute("DELETE FROM notices WHERE recipient BETWEEN ? AND ?", bounds)
    db.execute("DELETE FROM content WHERE id BETWEEN ? AND ?", bounds)
    db.execute("DELETE FROM timeline WHERE message = ?", (message,))
    db.execute("DELETE FROM recipients WHERE id BETWEEN ? AND ?", bounds)
    db.execute("DELETE FROM messages WHERE id = ?", (message,))


def _forget_destinations(db: sqlite3.Connection, limit: int) -> None:
    db.execute(
        "DELETE FROM destinations WHERE destination IN (SELECT destination FROM destinations WHERE waiting = 0 LIMIT ?)",
        (limit,),
    )


def _give_space_back(db: sqlite3.Connection) -> int:
    """The pages that were."""
    before = _free_pages(db)
    spare = before - db.execute("PRAGMA page_count").fetchone()[0] // 4
    if spare <= 0:
        return 0
    for _ in range(min(spare, VACUUM_PAGES)):  # one at a time: of more, Python's module carries out the first alone
        db.execute("PRAGMA incremental_vacuum(1)")
    return before - _free_pages(db)


def _free_pages(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA freelist_count").fetchone()[0])
