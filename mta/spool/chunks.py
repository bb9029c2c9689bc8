"""SQL of content on its way out: one chunk at a time, nothing missing, nothing in its place."""

import sqlite3

from mta.spool.base import SpoolError
from mta.spool.rows import first_id


def first(db: sqlite3.Connection, queue_id: str) -> tuple[int, int, bytes]:
    """The message's row id, the octets of its content and the first chunk, in one look. Raises `SpoolError`."""
    row = db.execute("SELECT id, octets, content_gone FROM messages WHERE queue_id = ?", (queue_id,)).fetchone()
    if row is None:
        raise SpoolError(f"{queue_id}: no such message")
    message, octets, gone = row
    if gone:
        raise SpoolError(f"{queue_id}: the content is kept no longer")
    if not isinstance(octets, int) or octets <= 0:
        raise SpoolError(f"{queue_id}: the content's size is missing")
    return message, octets, chunk(db, message, 0)


def chunk(db: sqlite3.Connection, message: int, position: int) -> bytes:
    """Raises `SpoolError` for one that is missing or void."""
    row = db.execute("SELECT chunk FROM content WHERE id = ?", (first_id(message) + position,)).fetchone()
    if row is None or not isinstance(row[0], bytes) or not row[0]:
        raise SpoolError(f"some of the content is missing (chunk {position})")
    return row[0]
