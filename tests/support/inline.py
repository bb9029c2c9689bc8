"""sqlite3 without a thread: the same SQL, run where it is called, for a virtual-time loop and for the contract suite."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from mta.spool.connection import Opener

T = TypeVar("T")


class InlineConnection:
    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return work(self.db)

    async def close(self) -> None:
        self.db.close()


async def connect_inline(opener: Opener) -> InlineConnection:
    return InlineConnection(opener())
