"""Connections to the spool's file: how they are opened, and how a function runs on one.

Rules: the SQL is written as functions over `sqlite3.Connection`; a `Connection` decides where they run (in a thread of
aiosqlite's, or inline: `spool.process.server` has both, a simulation the latter). The journal is a WAL and `synchronous` is
FULL on every connection, read back and not trusted: after a 250 the message survives a power cut (RFC 5321 section 6.1). The
writer alone writes; readers can't.
"""

import asyncio
import errno
import sqlite3
import traceback
from collections.abc import Awaitable, Callable, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import aiosqlite

from mta.spool import schema
from mta.spool.base import SpoolError, SpoolFull

T = TypeVar("T")
Opener = Callable[[], sqlite3.Connection]

CHECKPOINT_PAGES = 2000
"""The WAL is copied back after so many pages; more makes the slowest commits slower."""
JOURNAL_LIMIT = 32 * 1024 * 1024
"""Octets of the WAL file that are kept after a checkpoint."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Connection(Protocol):
    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` alone on this connection. A cancelled caller does not stop it."""
        ...

    async def close(self) -> None: ...


Connect = Callable[[Opener], Awaitable[Connection]]


class ThreadConnection:
    """A connection that lives in a thread of aiosqlite's."""

    def __init__(self, inner: aiosqlite.Connection) -> None:
        self._inner = inner

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # aiosqlite's public calls are one hop for each statement; its own primitive is one for a whole transaction
        execute = cast("Callable[..., Awaitable[T]]", self._inner._execute)
        return await execute(work, self._inner._conn)

    async def close(self) -> None:
        await self._inner.close()


class InlineConnection:
    """A connection whose statements run where they are asked for."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return work(self.db)

    async def close(self) -> None:
        self.db.close()


class Together:
    """A connection to which everything that waits goes at once: a trip to its thread costs more than most of what is asked
    there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: list[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]] = []
        self._trips: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self.submit(work)

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        """As `run`, begun at once."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, done))
        if self._trips is None:
            self._trips = asyncio.create_task(self._travel())
        return done

    async def _travel(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._trip(batch)
        finally:
            self._trips = None

    async def _trip(self, batch: list[tuple[Callable[[sqlite3.Connection], Any], "asyncio.Future[Any]"]]) -> None:
        works = [work for work, _ in batch]
        try:
            outcomes: Sequence[object] = await self._connection.run(lambda db: [_outcome(work, db) for work in works])
        except Exception as error:
            outcomes = [error] * len(batch)
        for (_, done), outcome in zip(batch, outcomes, strict=True):
            if done.done():  # its caller was cancelled
                continue
            if isinstance(outcome, Exception):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)

    async def close(self) -> None:
        if self._trips is not None:
            await self._trips
        await self._connection.close()


def _outcome(work: Callable[[sqlite3.Connection], object], db: sqlite3.Connection) -> object:
    try:
        return work(db)
    except Exception as error:
        return error


async def connect_threaded(opener: Opener) -> Connection:
    # opened here and not in the thread: aiosqlite leaves its thread running after an opener that failed
    db = opener()
    return ThreadConnection(await aiosqlite.Connection(lambda: db, 64))


async def connect_inline(opener: Opener) -> Connection:
    return InlineConnection(opener())


def open_writer(path: Path, by_sender: bool = False) -> sqlite3.Connection:
    """The connection that writes; brings the schema up to date, and to what turns `by_sender` need. Raises `SpoolDamaged` or
    `SpoolError`."""
    db = _open(path)
    try:
        schema.check(db, path)
        _settings(db, path)
        schema.migrate(db, schema.MIGRATIONS)
        schema.fit(db, by_sender)
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        db.execute("PRAGMA cache_size = -8192")
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that can't write."""
    db = _open(path)
    try:
        _settings(db, path)
        db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def _open(path: Path) -> sqlite3.Connection:
    # "rw": never makes a file; autocommit: transactions begin and end where they are written
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        timeout=5.0,
        cached_statements=256,
        check_same_thread=False,
    )
    # text that is not UTF-8 is read with escapes, so that one damaged row does not spoil a list
    db.text_factory = methodcaller("decode", "utf-8", "backslashreplace")
    return db


def _settings(db: sqlite3.Connection, path: Path) -> None:
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA journal_size_limit = {JOURNAL_LIMIT}")
    journal = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    synchronous = db.execute("PRAGMA synchronous").fetchone()[0]
    if journal != "wal" or synchronous != 2:
        raise SpoolError(
            f"the spool {path} can't be made durable here (journal_mode {journal}, synchronous {synchronous}); "
            "a network file system is no place for it"
        )


def snapshot(work: Callable[[sqlite3.Connection], T], db: sqlite3.Connection) -> T:
    """Runs reads on one state of the spool. It is given up and not committed: that can't fail and leave it open."""
    db.execute("BEGIN")
    try:
        return complete(work, db)
    finally:
        if db.in_transaction:  # an error may have ended it
            db.execute("ROLLBACK")


def complete(work: Callable[[sqlite3.Connection], T], db: sqlite3.Connection) -> T:
    """Runs `work`, and ends the statements that an error left half-way. They would live as long as the traceback, and as
    long as one does, its connection sees the spool as it was, and can't write (SQLITE_BUSY_SNAPSHOT). What no future can
    hold becomes an error that one can: else all that travel with it would wait for ever."""
    try:
        return work(db)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        if isinstance(error, StopIteration):
            raise RuntimeError("the spool's rows, or its indexes, don't fit each other") from error
        raise


def storage_error(error: BaseException) -> SpoolError:
    """What a failure of SQLite or of the file system is to the rest of the daemon."""
    if isinstance(error, SpoolError):
        return error
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return SpoolFull(f"no space for the spool: {error}")
    return SpoolError(f"the spool failed: {error}")
