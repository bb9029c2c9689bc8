"""Where the tests' spools live: opened, reopened, looked into from outside."""

import contextlib
import sqlite3
from pathlib import Path

from mta.doorbell import Doorbell
from mta.spool.base import DoubtPolicy, Recovered
from mta.spool.connection import Connect, connect_threaded
from mta.spool.sqlite import SqliteSpool, open_sqlite
from tests.spool.making import NOW


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
        spool, self.recovered = await open_sqlite(
            path or self.path,
            doubts=DoubtPolicy(retry_after is not None, retry_after or 0),
            now=now,
            doorbell=Doorbell(),
            connect=self.connect,
            by_sender=by_sender,
        )
        self.spools.append(spool)
        return spool

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
