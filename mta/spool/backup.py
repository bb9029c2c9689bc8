"""A copy of the spool while it is at work (SQLite's backup API), which opens as a spool.

Rules: the copy is one state of the spool, that of its beginning: it has every verb that returned before. The state is held
by a read transaction, since a copy that follows the writer begins anew at each commit and never ends under load. A copy
comes up held: what was sent after it was made waits in it, and would be sent again before anybody could look. It is made
beside, readable to its owner alone, and has its name only when all of it is on disk. Nothing that is there is overwritten.
"""

import asyncio
import contextlib
import os
import sqlite3
import threading
from functools import partial
from pathlib import Path

from mta.spool.base import SpoolError, SpoolRefusal
from mta.spool.connection import Connect, open_reader, snapshot
from mta.spool.ownership import beside
from mta.spool.schema import sync_folder

STEP_PAGES = 256
"""Pages copied at a time: 1 MiB."""
BREATH = 0.005
"""Seconds between two steps, in which the disk is the deliveries' alone."""
_OWN = ("-wal", "-shm", "-journal", ".new", ".lock")
"""What is added to the spool's name for files of its own."""


class Backups:
    """Of the spool at `spool`: one at a time, each over a connection of its own, which `connect` makes."""

    def __init__(self, spool: Path, connect: Connect) -> None:
        self._spool, self._connect = spool, connect
        self._stopped = threading.Event()
        self._at_work: asyncio.Task[int] | None = None

    async def make(self, target: Path) -> int:
        """The copy's size in octets. Raises as `copy`. A cancelled caller does not end it."""
        if self._at_work is not None and not self._at_work.done():
            raise SpoolRefusal("another backup is at work")
        self._at_work = asyncio.create_task(self._copy(target))
        return await asyncio.shield(self._at_work)

    async def stop(self) -> None:
        """Breaks off the one that is at work; there are none any more."""
        self._stopped.set()
        if self._at_work is not None:
            await asyncio.gather(self._at_work, return_exceptions=True)

    async def _copy(self, target: Path) -> int:
        connection = await self._connect(partial(open_reader, self._spool))
        try:
            return await connection.run(partial(copy, self._spool, target, self._stopped))
        finally:
            await connection.close()


def copy(spool: Path, target: Path, stopped: threading.Event, db: sqlite3.Connection) -> int:
    """Copies the spool at `spool`, which `db` reads, to `target`, until it is `stopped`. The copy's size in octets. Raises
    `SpoolRefusal` for what is there, OSError for what `target`'s folder does not take, sqlite3.Error, `SpoolError`."""
    young = beside(target, ".new")
    _check_free(spool, target, young)
    os.close(os.open(young, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        snapshot(lambda source: _fill(young, source, stopped), db)
        size = young.stat().st_size
        _check_absent(target)  # it took a while
        young.rename(target)
    except BaseException:
        young.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
    return size


def _fill(young: Path, source: sqlite3.Connection, stopped: threading.Event) -> None:
    def breathe(_status: int, _remaining: int, _total: int) -> None:
        if stopped.wait(BREATH):
            raise SpoolError("the backup was broken off")

    source.execute("SELECT 1 FROM messages LIMIT 1").fetchone()  # BEGIN alone holds no state
    with contextlib.closing(sqlite3.connect(young, isolation_level=None)) as into:
        into.execute("PRAGMA synchronous = FULL")
        into.execute("PRAGMA journal_mode = OFF")  # what is broken off is thrown away whole
        source.backup(into, pages=STEP_PAGES, progress=breathe)
        into.execute("INSERT OR IGNORE INTO standing_holds (destination) VALUES ('*')")


def _check_free(spool: Path, target: Path, young: Path) -> None:
    """Raises `SpoolRefusal` where something would be overwritten, or the spool take the copy for its own."""
    _check_absent(target)
    if os.path.lexists(young):
        raise SpoolRefusal(f"{young} is there: another backup at work, or the rest of one that was broken off; remove it")
    names = [beside(spool, suffix).name for suffix in _OWN]
    if target.name in names and target.parent.resolve() == spool.parent.resolve():
        raise SpoolRefusal(f"{target} is a name that the spool keeps for itself")


def _check_absent(target: Path) -> None:
    if os.path.lexists(target):
        raise SpoolRefusal(f"{target} is there already: name a new file")
