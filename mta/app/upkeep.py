"""What is done from time to time: old mail is forgotten, what was left halfway goes on, a clock that went back is seen, the
service manager hears that the loop lives."""

import asyncio

from mta.app.systemd import Notifier
from mta.config.model import Spool as Retention
from mta.delivery.worker import Delivery
from mta.model.events import Trouble
from mta.model.lifecycle import Event
from mta.ports import Clock, Observer
from mta.spool.base import Reconciled, Selection, Spool, SpoolError

PURGE_INTERVAL = 300.0
PURGE_BATCH = 500
BREATH = 0.05
"""Seconds between two batches, so that deliveries come in between."""
RECONCILE_INTERVAL = 60.0
CLOCK_INTERVAL = 10.0
STEP = 1.0
"""Seconds by which the wall clock has to leave the loop's, so that what waits for an instant is looked at again."""
STEP_BACK = 60.0
"""Seconds by which the clock may go back without a consequence."""


async def purge_for_ever(spool: Spool, retention: Retention, clock: Clock, observer: Observer) -> None:
    while True:
        try:
            await purge(spool, retention, clock)
        except SpoolError as error:
            observer(Trouble("warning", "old messages could not be purged; trying again later", str(error)))
        await asyncio.sleep(PURGE_INTERVAL)


async def purge(spool: Spool, retention: Retention, clock: Clock) -> None:
    """Forgets what has been finished for longer than `retention`."""
    while True:
        now = clock.now()
        purged = await spool.purge(now - retention.content_retention, now - retention.retention, PURGE_BATCH, now)
        if not (purged.contents or purged.messages):
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


async def watch_clock(spool: Spool, clock: Clock, observer: Observer) -> None:
    """Whoever sleeps to an instant of the wall clock is woken where it steps. Where it goes back, what was deferred before
    would wait for so much longer: it is due now instead. What is scheduled waits for its instant."""
    loop = asyncio.get_running_loop()
    lead = clock.now() - loop.time()
    while True:
        await asyncio.sleep(CLOCK_INTERVAL)
        present = clock.now() - loop.time()
        if abs(present - lead) > STEP:
            spool.doorbell.deliveries.set()
            spool.doorbell.ring_deadlines()
        if lead - present > STEP_BACK and not await _deferred_is_due(spool, lead - present, clock, observer):
            continue
        lead = present


async def _deferred_is_due(spool: Spool, step: float, clock: Clock, observer: Observer) -> bool:
    """Whether it could be done."""
    observer(Trouble("warning", f"the clock went back by {step:.0f} s: all deferred mail is due now"))
    try:
        await spool.order(Event.RETRY, Selection(), clock.now())
    except SpoolError as error:
        observer(Trouble("warning", "deferred mail could not be made due; trying again later", str(error)))
        return False
    return True


async def feed_watchdog(notifier: Notifier) -> None:
    """A sign of life at half the time within which it is due."""
    while notifier.watchdog:
        notifier.notify("WATCHDOG=1")
        await asyncio.sleep(notifier.watchdog / 2)
