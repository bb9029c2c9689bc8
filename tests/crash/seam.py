"""Runs inside a daemon's process, before it is one: kills it, and its spool's process, which is a copy of it, just before or
just after one commit.

A commit is named by the verb and by what it is about: "accept mail", "mark dsn", "settle report", "report dsn", "purge".
`CRASH_AT` in the environment is a `Point` as text; `COMMITS` is a file that gets the name of each commit.
"""

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mta.app import upkeep as app_upkeep
from mta.spool import batch, intake, marks, outcome, upkeep

ROOT = Path(__file__).parents[2]
PREAMBLE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.crash import seam; seam.install()"


class Point(NamedTuple):
    """Just `side` ("before" or "after") the `nth` commit (from 1) that is called `commit`."""

    side: str
    commit: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.side} {self.commit} {self.nth}"

    @classmethod
    def parse(cls, text: str) -> "Point":
        side, _, rest = text.partition(" ")
        commit, _, nth = rest.rpartition(" ")
        return cls(side, commit, int(nth))


def _crash() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class _Commits:
    """Knows what the transaction that is being made is about. It is alone: one thread writes."""

    def __init__(self, point: Point | None, record: str) -> None:
        self._point, self._record = point, record
        self._names: list[str] = []
        self._seen: Counter[str] = Counter()

    def naming(self, module: Any, verb: str, name: Callable[..., str]) -> None:
        """`name` gives the commit's name of the verb's arguments and its result, "" where it changes nothing."""
        original = getattr(module, verb)

        def named(db: sqlite3.Connection, effects: batch.Effects, *values: Any) -> Any:
            result = original(db, effects, *values)
            self._names += filter(None, [name(*values, result)])
            return result

        setattr(module, verb, named)

    def commit(self, db: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
        names, self._names = self._names, []
        self._seen.update(names)
        hit = self._point is not None and self._point.commit in names and self._seen[self._point.commit] == self._point.nth
        if hit and self._point.side == "before":
            _crash()
        done = db.execute(statement)
        if hit:
            _crash()
        if self._record:
            with open(self._record, "a") as record:
                record.writelines(f"{name}\n" for name in names)
        return done


class _Watched:
    def __init__(self, db: sqlite3.Connection, commits: _Commits) -> None:
        self._db, self._commits = db, commits

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            return self._commits.commit(self._db, statement)
        return self._db.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def install() -> None:
    point = os.environ.get("CRASH_AT")
    commits = _Commits(Point.parse(point) if point else None, os.environ.get("COMMITS", ""))
    commits.naming(intake, "accept", lambda message, content, _: f"accept {message.kind}")
    commits.naming(outcome, "mark_in_doubt", lambda claims, claim, *_: f"mark {claim.kind}")
    commits.naming(outcome, "settle", lambda claims, settlement, _: f"settle {settlement.claim.kind}")
    commits.naming(outcome, "release", lambda claims, claim, _: f"release {claim.kind}")
    commits.naming(marks, "report", lambda ids, message, content, _: f"report {message.kind if message else 'nobody'}")
    commits.naming(upkeep, "purge", lambda *values: "purge" if values[-1].messages else "")
    original = batch.run_batch
    batch.run_batch = lambda operations, claims, db: original(operations, claims, _Watched(db, commits))
    app_upkeep.PURGE_INTERVAL = 0.1
