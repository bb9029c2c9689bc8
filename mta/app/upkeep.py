"""What is done from time to time: old mail is forgotten, what was left halfway goes on, a clock that went back is seen, the
service manager hears that the loop lives."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mta.app.systemd import Notifier
from mta.config.model import Spool as Retention
from mta.delivery.worker import Delivery
from mta.model.events import Trouble
from mta.ports.system import Clock, Observer
from mta.spool.base import Purged, Reconciled, Spool, SpoolError

PURGE_INTERVAL, LONGEST_PURGE_INTERVAL = 300.0, 3600.0
PURGE_SHARE = 24
"""Content stays for that part of its retention longer than it has to, within these bounds (seconds)."""
PURGE_BATCH = 500
BREATH = 0.05
"""Seconds between two batches, so that deliveries come in between."""
RECONCILE_INTERVAL = 600.0
CLOCK_INTERVAL = 60.0
STEP = 1.0
"""Seconds by which the wall clock has to leave the loop's, so that what waits for an instant is looked at again."""
STEP_BACK = 60.0
"""Seconds by which the clock may go back without a consequence."""


async def purge_for_ever(spool: Spool, retention: Retention, clock: Clock, observer: Observer) -> None:
    interval = min(max(retention.content_retention / PURGE_SHARE, PURGE_INTERVAL), LONGEST_PURGE_INTERVAL)
    while True:
        try:
            await purge(spool, retention, clock)
        except SpoolError as error:
            observer(Trouble("warning", "old messages could not be purged; trying again later", str(error)))
        await asyncio.sleep(interval)


async def purge(spool: Spool, retention: Retention, clock: Clock) -> None:
    """Forgets what has been finished for longer than `retention`, and gives back what space that leaves."""
    while True:
        now = clock.now()
        purged = await spool.purge(now - retention.content_retention, now - retention.retention, PURGE_BATCH, now)
        if purged == Purged():
            return
        await asyncio.sleep(BREATH)


async def reconcile_for_ever(spool: Spool, delivery: Delivery, clock: Clock, observer: Observer) -> None:
    """What nobody works on goes on: it should not be there, so it is told."""
    while True:
        await asyncio.sleep(RECONCILE_INTERVAL)
        try:
            found = await spool.reconcile(delivery.claims, delivery.settings.doubts, clock.now())
        except SpoolError as error:
            observer(Trouble("warning", "the spool could not be reconciled; trying again later", str(error)))
            continue
        if found != Reconciled():
            detail = f"deliveries: {found.claims}; recipients in doubt by it: {found.in_doubt}"
            observer(Trouble("warning", "deliveries ended without a result: their recipients go on", detail))


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds: the longest wait between two attempts, of whatever class; how long a doubt rests before it is sent again."""

    longest: float
    doubt_rest: float


class _Lead:
    """By how much the wall clock leads the loop's, looked at every `CLOCK_INTERVAL`: by a timer without a task, since
    nothing else here is awake so often."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._loop = clock, asyncio.get_running_loop()
        self._lead = clock.now() - self._loop.time()

    async def step(self) -> float:
        """The seconds of the next step, negative where the clock goes back; one since the last call counts."""
        stepped: asyncio.Future[float] = self._loop.create_future()
        self._timer = self._loop.call_later(CLOCK_INTERVAL, self._look, stepped)
        try:
            return await stepped
        finally:
            self._timer.cancel()

    def _look(self, stepped: "asyncio.Future[float]") -> None:
        before, self._lead = self._lead, self._clock.now() - self._loop.time()
        if abs(self._lead - before) > STEP:
            stepped.set_result(self._lead - before)
        else:
            self._timer = self._loop.call_later(CLOCK_INTERVAL, self._look, stepped)


async def watch_clock(spool: Spool, clock: Clock, waits: Callable[[], Waits], observer: Observer) -> None:
    """Whoever sleeps to an instant of the wall clock is woken where it steps. Where it goes back, what was deferred before
    would wait for so much longer: it is due now instead. So is, at the start, what would wait for longer than anything
    does: the clock went back meanwhile. What is scheduled waits for its instant. `waits` are those of the moment."""
    lead = _Lead(clock)
    if found := await _bring_forward(spool, clock, waits().longest, waits().doubt_rest, observer):
        why = "the clock was wrong when it was deferred, or retries have been made more frequent since"
        observer(Trouble("warning", f"mail to {found} destinations waited for longer than any retry; it is due now", why))
    while True:
        step = await lead.step()
        spool.doorbell.deliveries.set()
        spool.doorbell.ring_deadlines()
        if step < -STEP_BACK:
            observer(Trouble("warning", f"the clock went back by {-step:.0f} s: all deferred mail is due now"))
            await _bring_forward(spool, clock, 0.0, waits().doubt_rest, observer)


async def _bring_forward(spool: Spool, clock: Clock, beyond: float, doubt_rest: float, observer: Observer) -> int:
    """As the spool's verb. Trouble with the spool is waited out."""
    while True:
        try:
            return await spool.bring_forward(beyond, doubt_rest, clock.now())
        except SpoolError as error:
            observer(Trouble("warning", "deferred mail could not be made due; trying again later", str(error)))
        await asyncio.sleep(CLOCK_INTERVAL)


async def feed_watchdog(notifier: Notifier) -> None:
    """A sign of life at half the time within which it is due."""
    while notifier.watchdog:
        notifier.notify("WATCHDOG=1")
        await asyncio.sleep(notifier.watchdog / 2)
