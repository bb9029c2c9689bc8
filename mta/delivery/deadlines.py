"""The stage that keeps deadlines: at its instant, a recipient that has not left is ended, or its sender is told (RFC 2852
section 4.1).

Rules: what has passed is in the spool, never only here; no claim for sending has it any more, whatever becomes of this
stage. Instants are wall time, looked at again with every ring (one comes when the clock has stepped). A wall clock that
leaps forward may leap back: until it has stood for two minutes, nothing is ended, and nothing that has passed by it is
sent.
"""

import asyncio
from typing import Protocol

from mta.doorbell import LOOK_INTERVAL, wait_for
from mta.model.events import Trouble
from mta.ports.system import Clock, Observer
from mta.spool.base import Claim, Spool

LEAP, LEAP_REST = 60.0, 120.0
"""Seconds that the wall clock gains at once, and for which it is not believed then."""
BUSY_INTERVAL = 1.0
"""Seconds: how often it looks while what has passed is in other hands, and hides the next deadline behind it."""
CLAIM_LIMIT = 100
"""Recipients claimed at a time."""
TOGETHER = 50
"""Claims that are ended at once, so that they share the spool's commits."""
FIRST_REST, LONGEST_REST = 1.0, 60.0
"""Seconds of rest after trouble with the spool; doubled each time."""


class Expire(Protocol):
    async def expire(self, claim: Claim) -> None:
        """Ends, or tells of, recipients whose deadline has passed."""
        ...


class _Watch:
    """Whether the wall clock is to be believed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall, self._time = clock.now(), _time()
        self._doubted_until = float("-inf")

    def look(self) -> float:
        """For how many seconds it is not to be believed yet; 0 if it is."""
        wall, now = self._clock.now(), _time()
        gained = (wall - self._wall) - (now - self._time)
        self._wall, self._time = wall, now
        if gained > LEAP:
            self._doubted_until = now + LEAP_REST
        elif gained < -LEAP:
            self._doubted_until = now
        return max(0.0, self._doubted_until - now)


class Deadlines:
    """`run` does all the work."""

    def __init__(self, delivery: Expire, spool: Spool, clock: Clock, observer: Observer) -> None:
        self._delivery, self._spool, self._clock, self._observer = delivery, spool, clock, observer
        self._rest = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        bell = self._spool.doorbell.deadlines
        watch = _Watch(self._clock)
        while True:
            bell.clear()
            try:
                wait = watch.look() or await self._keep()
            except Exception as error:  # whatever it was, what has passed is still in the spool
                await asyncio.sleep(self._rest_after(error))
            else:
                self._rest = 0.0
                await wait_for(bell, min(wait, LOOK_INTERVAL))

    async def _keep(self) -> float:
        """Ends all that has passed; the seconds until the next deadline."""
        wait = await self._until_next()
        if wait > 0:  # mostly so: one question for a look
            return wait
        while await self._end_one():
            ended = await asyncio.gather(*(self._end_one() for _ in range(TOGETHER)), return_exceptions=True)
            for failure in ended:
                if isinstance(failure, BaseException):
                    raise failure
        return await self._until_next() or BUSY_INTERVAL

    async def _until_next(self) -> float:
        """The seconds until the next deadline, 0 where one has passed."""
        now = self._clock.now()
        following = await self._spool.next_deadline()
        return LOOK_INTERVAL if following is None else max(0.0, following - now)

    async def _end_one(self) -> bool:
        claim = await self._spool.claim_expired(CLAIM_LIMIT, self._clock.now())
        if claim is not None:
            await self._delivery.expire(claim)
        return claim is not None

    def _rest_after(self, error: Exception) -> float:
        """Loud once: only the first failure of a row is told."""
        if not self._rest:
            what = "what has passed its deadline can't be ended; it is not sent, and is tried again until it can"
            self._observer(Trouble("error", what, f"{type(error).__name__}: {error}"))
        self._rest = min(self._rest * 2, LONGEST_REST) or FIRST_REST
        return self._rest


def _time() -> float:
    return asyncio.get_running_loop().time()
