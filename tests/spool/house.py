"""Where the tests' spools live: opened, reopened, looked into from outside."""

import asyncio
import contextlib
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

from mta.doorbell import Doorbell
from mta.spool.base import DoubtPolicy, Recovered, Spool
from mta.spool.connection import Connect, connect_threaded
from mta.spool.process.client import SpoolProcess, open_in_process
from mta.spool.sqlite import SqliteSpool, open_sqlite
from tests.spool.making import NOW

_SERVE = """
import asyncio, socket, sys
from mta.spool.process.server import serve
serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]), asyncio.new_event_loop)
"""


class House:
    """One spool file and the daemon's hold on it."""

    def __init__(self, folder: Path, connect: Connect = connect_threaded) -> None:
        self.path = folder / "spool.db"
        self.connect = connect
        self.recovered = Recovered()
        self.spools: list[SqliteSpool] = []

    async def open(
        self, *, retry_after: float | None = 600, now: float = NOW, path: Path | None = None, by_sender: bool = False
    ) -> SqliteSpool:
        doubts = DoubtPolicy(retry_after is not None, retry_after or 0)
        spool, self.recovered = await self._open(path or self.path, doubts, now, by_sender)
        self.spools.append(spool)
        return spool

    async def _open(self, path: Path, doubts: DoubtPolicy, now: float, by_sender: bool) -> tuple[Spool, Recovered]:
        return await open_sqlite(
            path, doubts=doubts, now=now, doorbell=Doorbell(), connect=self.connect, by_sender=by_sender
        )

    async def close(self) -> None:
        for spool in self.spools:
            await spool.close()
        self.spools.clear()

    async def reopen(self, *, retry_after: float | None = 600, now: float = NOW) -> SqliteSpool:
        """As a new daemon after an orderly stop: what was claimed is free."""
        await self.close()
        return await self.open(retry_after=retry_after, now=now)

    def ask(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        """Looks into the file beside the spool; what `sql` changes is there for the spool (damage)."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            return db.execute(sql, values).fetchall()


class SpawnedProcess(SpoolProcess):
    """Not a copy of this one, which has threads, and connections of SQLite's."""

    def _begin(self, calls: socket.socket, files: socket.socket) -> int:
        descriptors = calls.fileno(), files.fileno()
        self.program = subprocess.Popen([sys.executable, "-c", _SERVE, *map(str, descriptors)], pass_fds=descriptors)
        return self.program.pid


class RemoteHouse(House):
    """A spool in a process of its own."""

    async def _open(self, path: Path, doubts: DoubtPolicy, now: float, by_sender: bool) -> tuple[Spool, Recovered]:
        return await open_in_process(
            SpawnedProcess(asyncio.new_event_loop), path, doubts=doubts, now=now, doorbell=Doorbell(), by_sender=by_sender
        )
