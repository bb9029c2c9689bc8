"""SQL of what is remembered beside mail: policies, limits, suppressions, each a value under the name that it is about.

Rules: what has expired is as if it were not there; the purge removes it.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping

from mta.spool.base import Memory, Remembered
from mta.spool.rows import as_number, as_text, as_time

_COLUMNS = "SELECT name, value, at, expires_at FROM memories WHERE kind = ? AND coalesce(expires_at > ?, 1) "


def remember(
    db: sqlite3.Connection, kind: Memory, values: Mapping[str, str], expires_at: float | None, now: float
) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO memories (kind, name, value, at, expires_at) VALUES (?, ?, ?, ?, ?)",
        [(kind.value, name, value, now, expires_at) for name, value in values.items()],
    )


def forget(db: sqlite3.Connection, kind: Memory, names: Collection[str]) -> int:
    wanted = json.dumps(list(names))
    condition = "kind = ? AND name IN (SELECT value FROM json_each(?))"
    return db.execute(f"DELETE FROM memories WHERE {condition}", (kind.value, wanted)).rowcount


def recall(db: sqlite3.Connection, kind: Memory, names: Collection[str], now: float) -> dict[str, Remembered]:
    wanted = json.dumps(list(names))
    rows = db.execute(_COLUMNS + "AND name IN (SELECT value FROM json_each(?))", (kind.value, now, wanted))
    return {one.name: one for one in map(_remembered, rows)}


def page(db: sqlite3.Connection, kind: Memory, after: str, limit: int, now: float) -> list[Remembered]:
    rows = db.execute(_COLUMNS + "AND name > ? ORDER BY name LIMIT ?", (kind.value, now, after, limit))
    return [_remembered(row) for row in rows]


def purge(db: sqlite3.Connection, limit: int, now: float) -> None:
    db.execute(
        """DELETE FROM memories WHERE (kind, name) IN
        (SELECT kind, name FROM memories INDEXED BY memories_by_end WHERE expires_at <= ? LIMIT ?)""",
        (now, limit),
    )


def _remembered(row: tuple[object, ...]) -> Remembered:
    name, value, at, expires_at = row
    return Remembered(as_text(name), as_text(value), as_number(at), as_time(expires_at))
