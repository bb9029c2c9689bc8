"""The spool's disk: the daemon's own SQL on SQLite without a thread, and what disks do.

Rules: a transaction runs where it is called, after a while and before an answer that takes a while, and goes on when
its caller is cancelled, as in a thread. A power cut comes before a statement or after it: what was not committed is
lost, and nobody hears of anything. An error comes from a statement, once or for a span of time.
"""

import asyncio
import contextlib
import os
import random
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mta.spool.connection import Connection, Opener
from mta.spool.ownership import beside
from tests.sim.loop import MACHINE, Machine

T = TypeVar("T")


class PowerCut(BaseException):
    """The machine is gone; no code is to handle it."""


class Disk:
    """The disk of the machine. `trouble` is what is wrong at the moment: "", full, broken, slow; `chance` when it shows."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path, self.chance = path, chance
        self.trouble = ""
        self._open: list[sqlite3.Connection] = []
        self.freed: list[int] = []
        """Descriptors of dead machines, whose numbers stay taken."""

    async def connect(self, opener: Opener) -> Connection:
        machine = MACHINE.get()
        assert machine is not None
        db = opener()
        db.execute("PRAGMA synchronous = OFF")  # here a cut is made by not committing, never by the file system
        self._open.append(db)
        return InlineConnection(self, Statements(self, machine, db))

    def delay(self) -> float:
        """Seconds that a commit takes, on flash or spinning, or on what hangs."""
        if self.trouble == "slow":
            return 60 * self.chance.random() ** 2 if self.chance.random() < 0.95 else 400.0
        return 0.001 + 0.01 * self.chance.random()

    def fails(self, statement: str) -> sqlite3.OperationalError | None:
        """The error of this statement, if it has one."""
        trouble = self.trouble
        if trouble not in ("full", "broken") or self.chance.random() > 0.2:
            return None
        if trouble == "full":
            if statement.startswith(("SELECT", "BEGIN", "ROLLBACK", "PRAGMA", "SAVEPOINT", "RELEASE")):
                return None
            error, code = sqlite3.OperationalError("database or disk is full"), sqlite3.SQLITE_FULL
        else:
            if statement.startswith(("ROLLBACK", "PRAGMA")):
                return None
            error, code = sqlite3.OperationalError("disk I/O error"), sqlite3.SQLITE_IOERR
        error.sqlite_errorcode = code
        return error

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T | None:
        """What the spool has, asked by nobody of the machine; None where it is in the middle of something, or closed."""
        with contextlib.suppress(sqlite3.ProgrammingError):
            if self._open and not any(it.in_transaction for it in self._open):
                return question(self._open[-1])
        return None

    def lose(self) -> None:
        """What the kernel does when a process dies: nothing of it stays open."""
        for db in self._open:
            with contextlib.suppress(sqlite3.Error):
                db.close()
        self._open.clear()
        self.freed += _let_go(beside(self.path, ".lock"))


def close_freed(descriptors: list[int]) -> None:
    """Nothing of the dead machines' code is left: their numbers are free."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}") == os.devnull:
                os.close(descriptor)


class InlineConnection:
    """`mta.spool.connection.Connection` in virtual time: one transaction after the other, as in its thread."""

    def __init__(self, disk: Disk, statements: "Statements") -> None:
        self._disk, self._statements = disk, statements
        self._waiting: deque[tuple[Callable[[Any], Any], asyncio.Future[Any]]] = deque()
        """The first of them is being run."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, done))
        if len(self._waiting) == 1:
            self._begin()
        return await done

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._disk.trouble:
            loop.call_later(self._disk.delay() / 2, self._perform)
        else:
            loop.call_soon(self._perform)

    def _perform(self) -> None:
        work, done = self._waiting[0]
        writes = self._statements.writes
        try:
            result = work(self._statements)
        except PowerCut:
            return
        except Exception as error:
            self._end(done, error, None)
            return
        if self._statements.writes > writes:
            asyncio.get_running_loop().call_later(self._disk.delay(), self._end, done, None, result)
        else:
            self._end(done, None, result)

    def _end(self, done: asyncio.Future[T], error: Exception | None, result: T) -> None:
        self._waiting.popleft()
        if self._waiting:
            self._begin()
        if done.done():  # its caller was cancelled
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    async def close(self) -> None:
        await self.run(lambda _: self._statements.db.close())


class Statements:
    """A connection as the daemon's SQL sees it: statement by statement, each of which may be the last."""

    def __init__(self, disk: Disk, machine: Machine, db: sqlite3.Connection) -> None:
        self.db = db
        self.writes = 0
        """Transactions that were committed."""
        self._disk, self._machine = disk, machine

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        if self._disk.trouble or not self._machine.calm:
            self._before(statement)
        cursor = self.db.execute(statement, parameters)
        if statement == "COMMIT":
            self.writes += 1
            if not self._machine.tick("commit"):
                raise PowerCut
        return cursor

    def executemany(self, statement: str, parameters: Any) -> sqlite3.Cursor:
        if self._disk.trouble or not self._machine.calm:
            self._before(statement)
        return self.db.executemany(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)

    def _before(self, statement: str) -> None:
        if not self._machine.calm and not self._machine.tick("statement"):
            raise PowerCut
        if self._disk.trouble and (error := self._disk.fails(statement)) is not None:
            if self.db.in_transaction and self._disk.chance.random() < 0.5:
                self.db.rollback()  # as SQLite does by itself after some errors
            raise error


def _let_go(lock: Path) -> list[int]:
    """Frees the spool's lock. The descriptor's number stays taken, since the dead machine's code still has it."""
    freed = []
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{entry}") == str(lock):
                nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                os.dup2(nowhere, int(entry), inheritable=False)
                os.close(nowhere)
                freed.append(int(entry))
    return freed
