"""The search for a claim: what is found damaged on the way is set apart, what is found for nobody goes back (B49, B58)."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial

from mta.spool import due, intake, outcome
from mta.spool.base import Claim, SpoolError
from mta.spool.batch import GroupCommit
from mta.spool.claims import Claims
from mta.spool.connection import storage_error

Found = Claim | due.Flaw | None
Read = Callable[[Callable[[sqlite3.Connection], Found]], "asyncio.Future[Found]"]
"""Runs a search on one state of the spool."""


class Searches:
    def __init__(self, claims: Claims, commits: GroupCommit, read: Read) -> None:
        self._claims, self._commits, self._read = claims, commits, read

    async def take(self, search: due.Search, condition: str, limit: int, now: float) -> Claim | None:
        """Claims what `search` finds and what goes with it (`due.take`)."""

        def look(db: sqlite3.Connection) -> Found:
            return due.take(db, self._claims, search, condition, limit, now)

        while isinstance(found := await self._claimed(look, now), due.Flaw):
            await self._set_apart(found, now)
        return found

    async def _claimed(self, look: Callable[[sqlite3.Connection], Found], now: float) -> Found:
        looking = self._read(look)
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            looking.add_done_callback(partial(self._let_go, now))
            raise
        except (sqlite3.Error, OSError) as error:
            raise storage_error(error) from error

    def _let_go(self, now: float, looking: "asyncio.Future[Found]") -> None:
        """What was claimed for a caller that is gone goes back (B58)."""
        if not looking.cancelled() and looking.exception() is None and isinstance(found := looking.result(), Claim):
            with contextlib.suppress(SpoolError):  # closed: claims end with it
                self._commits.run(lambda db, effects: outcome.release(db, effects, self._claims, found), now)

    async def _set_apart(self, flaw: due.Flaw, now: float) -> None:
        await self._commits.run(lambda db, effects: intake.quarantine(db, effects, flaw.message, flaw.reason), now)
