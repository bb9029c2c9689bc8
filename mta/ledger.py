"""What the scheduler keeps in the spool beside mail: how many sessions servers bear, what is left of each rate.

Rules: it is read once, before the first turn. A rate's tokens are used after they were taken off the books durably, never
before; a ceiling is kept as soon as it can be. Nothing here waits for mail, and no mail for it but what a rate limits.
"""

from collections.abc import Mapping

from mta.policy.agenda import Agenda
from mta.policy.allowances import Books
from mta.policy.ceilings import DAY, Ceiling, Ceilings
from mta.ports.system import Clock
from mta.spool.base import Memory, Remembered, Spool

PAGE = 1000
"""Memories read from the spool at a time."""


class Ledger:
    """`time` is of the loop's monotonic clock, in seconds; what is kept has wall time."""

    def __init__(self, spool: Spool, clock: Clock, agenda: Agenda, ceilings: Ceilings) -> None:
        self._spool, self._clock = spool, clock
        self._agenda, self._ceilings = agenda, ceilings
        self.recalled = False

    @property
    def due(self) -> bool:
        """Whether something is to be kept."""
        return bool(self._agenda.allowances.thirsty or self._ceilings.changed)

    # ------------------------------------------------ reading
    async def recall(self, time: float) -> None:
        """Raises `SpoolError`."""
        now = self._clock.now()
        for it in await self._all(Memory.LIMIT, now):
            since, until = self._span(it, now, time)
            try:
                self._ceilings.recalled(it.name, it.value, since, min(until, time + DAY))
            except ValueError:
                continue  # not ours: as if it were not there
        for it in await self._all(Memory.RATE, now):
            self._agenda.allowances.kept(it.name, it.value, *self._span(it, now, time))
        self.recalled = True

    async def _all(self, kind: Memory, now: float) -> list[Remembered]:
        found: list[Remembered] = []
        while page := await self._spool.memories(kind, found[-1].name if found else "", PAGE, now):
            found += page
        return found

    def _span(self, it: Remembered, now: float, time: float) -> tuple[float, float]:
        """Since when and until when it holds, in monotonic time. What is from the future was kept just now."""
        ends = it.expires_at if it.expires_at is not None else now
        return time - max(0.0, now - it.at), time + max(0.0, ends - now)

    # ------------------------------------------------ writing
    async def keep(self, time: float) -> None:
        """Raises `SpoolError`: then it is due again."""
        await self._keep_ceilings(time)
        asked = self._agenda.allowances.ask(time)
        try:
            await self._keep_rates(asked)
        except BaseException:
            self._agenda.allowances.withdraw(asked)
            raise
        self._agenda.granted(asked, time)

    async def close(self, time: float) -> None:
        """What was taken off the books in vain goes back. Raises `SpoolError`."""
        await self._keep_rates(self._agenda.allowances.put_back(time))

    async def _keep_rates(self, books: Mapping[str, Books]) -> None:
        """All in one write: one that is kept for longer than it says anything does no harm."""
        if not books:
            return
        now = self._clock.now()
        ends = now + max(it.lasts for it in books.values())
        await self._spool.remember(Memory.RATE, {name: it.text for name, it in books.items()}, ends, now)

    async def _keep_ceilings(self, time: float) -> None:
        left = self._ceilings.take_changes()
        try:
            for name in list(left):
                await self._keep_ceiling(name, left[name], time)
                del left[name]
        finally:
            self._ceilings.not_kept(left)

    async def _keep_ceiling(self, name: str, ceiling: Ceiling | None, time: float) -> None:
        now = self._clock.now()
        if ceiling is None:
            await self._spool.forget(Memory.LIMIT, [name], now)
        else:
            await self._spool.remember(Memory.LIMIT, {name: ceiling.to_text()}, now + ceiling.until - time, now)
