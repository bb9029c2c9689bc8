"""SQL of deadlines (RFC 2852): which is the next, and whose has passed.

Rules: what is claimed, waits for a person (no next attempt) or is under a standing order has none until it is free
again; what fails by its deadline goes before what is only late.
"""

import sqlite3

from mta.spool.claims import Claims
from mta.spool.due import Place
from mta.spool.schema import WITH_DEADLINE

EXPIRED = "next_at IS NOT NULL AND (fails_at <= :now OR late_at <= :now)"


def _next(column: str, index: str) -> str:
    return f"""SELECT {column}, destination, id FROM recipients INDEXED BY {index}
        WHERE {WITH_DEADLINE} AND {column} IS NOT NULL AND destination NOT IN (SELECT destination FROM standing_holds)
        ORDER BY {column}, id"""


_FAILS, _LATE = _next("fails_at", "recipients_fails"), _next("late_at", "recipients_late")


def first_expired(db: sqlite3.Connection, claims: Claims, now: float) -> Place | None:
    if _all_held(db):
        return None
    for query in (_FAILS, _LATE):
        found = _first_free(db, claims, query)
        if found is not None and found[0] <= now:
            return Place(*found[1:])
    return None


def next_deadline(db: sqlite3.Connection, claims: Claims) -> float | None:
    if _all_held(db):
        return None
    with claims.lock:
        found = [_first_free(db, claims, query) for query in (_FAILS, _LATE)]
    return min((one[0] for one in found if one is not None), default=None)


def _all_held(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM standing_holds WHERE destination = '*'").fetchone() is not None


def _first_free(db: sqlite3.Connection, claims: Claims, query: str) -> tuple[float, str, int] | None:
    rows = db.execute(query)
    return next(((at, name, one) for at, name, one in rows if one not in claims.busy(name)), None)
