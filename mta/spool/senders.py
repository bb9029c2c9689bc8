"""Fair by sender: within a destination and class, one message of each sender in turn (`lanes.fair_by = "sender"`).

Rules: only the order within a lane is changed, never what may be claimed; whose turn it is lives in memory alone, for
lanes with something due.
"""

import sqlite3
from collections.abc import Collection

from mta.model.envelope import MailClass
from mta.spool.due import DUE, Place, oldest

LOOKED_AT = 100
"""Senders that one search looks at; where none of them has anything due, what is due longest goes, and the next search
goes on behind them."""
_LANE = "recipients INDEXED BY recipients_by_sender WHERE waiting AND destination = :destination AND class = :class"
_NEXT = f"SELECT sender FROM {_LANE} AND sender > :sender ORDER BY sender LIMIT 1"
_OLDEST = f"SELECT id FROM {_LANE} AND sender = :sender AND {DUE} ORDER BY next_at, fails_at, id"


class Senders:
    """Whose turn was the last, by lane. Called with the claims' lock held."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, MailClass], int] = {}

    def choose(
        self, db: sqlite3.Connection, destination: str, mail_class: MailClass, busy: Collection[int], now: float
    ) -> Place | None:
        """As `due.oldest`, of the next sender who has something due."""
        lane = (destination, mail_class)
        fallback = oldest(db, destination, mail_class, busy, now)
        if fallback is None:
            self._last.pop(lane, None)
            return None
        values: dict[str, object] = {"destination": destination, "class": int(mail_class), "now": now}
        for _ in range(LOOKED_AT):
            sender = self._last[lane] = _after(db, values, self._last.get(lane, -1))
            rows = db.execute(_OLDEST, {**values, "sender": sender})
            found: int | None = next((one for (one,) in rows if one not in busy), None)
            if found is not None:
                return Place(destination, found)
        return fallback


def _after(db: sqlite3.Connection, values: dict[str, object], last: int) -> int:
    """The next sender behind `last`; -1, which is before the first, behind the last of them."""
    row = db.execute(_NEXT, {**values, "sender": last}).fetchone()
    return int(row[0]) if row else -1
