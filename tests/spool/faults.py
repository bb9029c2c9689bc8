"""Connections whose statements can be counted or made to fail, for the writer of a spool."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from mta.spool.connection import Connection, Opener, connect_threaded

T = TypeVar("T")


class Pause:
    """Holds a connection's thread up until `go`."""

    def __init__(self) -> None:
        self._reached, self._go = threading.Event(), threading.Event()

    def stay(self) -> None:
        self._reached.set()
        assert self._go.wait(30)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 30)

    def go(self) -> None:
        self._go.set()


class Statements:
    """Sees each statement of each connection. `fail` maps a statement's beginning to what it raises, once; `pause` one
    to the pause that is made before it, once."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fail: dict[str, Exception] = {}
        self.pause: dict[str, Pause] = {}
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

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self._statements.seen.append(statement)
        for beginning in list(self._statements.fail):
            if statement.startswith(beginning):
                raise self._statements.fail.pop(beginning)
        for beginning in list(self._statements.pause):
            if statement.startswith(beginning):
                self._statements.pause.pop(beginning).stay()
        return self._db.execute(statement, *values)

    def __getattr__(self, name: str) -> Callable[..., object]:
        return cast("Callable[..., object]", getattr(self._db, name))
