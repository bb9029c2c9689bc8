"""SQL of content on its way out: one chunk at a time, nothing missing, nothing in its place."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable

from mta.spool.base import ContentGone, SpoolError
from mta.spool.rows import first_id
from mta.spool.schema import MESSAGE_SHIFT

_FIRST = f"""SELECT m.id, m.octets, m.content_gone, c.chunk
    FROM messages m LEFT JOIN content c ON c.id = m.id << {MESSAGE_SHIFT} WHERE m.queue_id = ?"""


def first(db: sqlite3.Connection, queue_id: str) -> tuple[int, int, bytes]:
    """The message's row id, the octets of its content and the first chunk, in one statement. Raises `SpoolError`."""
    row = db.execute(_FIRST, (queue_id,)).fetchone()
    if row is None:
        raise SpoolError(f"{queue_id}: no such message")
    message, octets, gone, found = row
    if gone:
        raise ContentGone(f"{queue_id}: the content is kept no longer")
    if not isinstance(octets, int) or octets <= 0:
        raise SpoolError(f"{queue_id}: the content's size is missing")
    return message, octets, _sound(found, 0)


def chunk(db: sqlite3.Connection, message: int, position: int) -> bytes:
    """Raises `SpoolError` for one that is missing or void."""
    row = db.execute("SELECT chunk FROM content WHERE id = ?", (first_id(message) + position,)).fetchone()
    return _sound(row and row[0], position)


async def all_of(
    queue_id: str,
    first: Callable[[str], Awaitable[tuple[int, int, bytes]]],
    following: Callable[[int, int], Awaitable[bytes]],
) -> AsyncIterator[bytes]:
    """The whole content. Raises `SpoolError` where it is not as long as it should be."""
    message, rest, found = await first(queue_id)
    position = 1
    while len(found) < rest:
        yield found
        rest -= len(found)
        found = await following(message, position)
        position += 1
    if len(found) > rest:
        raise SpoolError(f"{queue_id}: the content is longer than it should be")
    yield found


def _sound(found: object, position: int) -> bytes:
    if not isinstance(found, bytes) or not found:
        raise SpoolError(f"some of the content is missing (chunk {position})")
    return found
