"""Connections whose statements can be counted or made to fail, for the writer of a spool."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar, cast

from mta.spool.connection import Connection, Opener, connect_threaded

T = TypeVar("T")


class Statements:
    """Sees each statement of each connection. `fail` maps a statement's beginning to what it raises, once."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fail: dict[str, Exception] = {}
        self.connections: list[sqlite3.Connection] = []

    def count(self, beginning: str) -> int:
        return sum(statement.startswith(beginning) for statement in self.seen)

    async def connect(self, opener: Opener) -> Connection:
        def opened() -> sqlite3.Connection:
            db = opener()
            self.connections.append(db)
            return cast("sqlite3.Connection", _Watched(db, self))

        return await connect_threaded(opened)


class _Watched:
    def __init__(self, db: sqlite3.Connection, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        self._statements.seen.append(statement)
        for beginning in list(self._statements.fail):
            if statement.startswith(beginning):
                raise self._statements.fail.pop(beginning)
        return self._db.execute(statement, *values)

    def __getattr__(self, name: str) -> Callable[..., object]:
        return cast("Callable[..., object]", getattr(self._db, name))
