"""What is done from time to time: old mail is forgotten, the service manager hears that the loop lives."""

import asyncio

from mta.app.systemd import Notifier
from mta.config.model import Spool as Retention
from mta.model.events import Trouble
from mta.ports import Clock, Observer
from mta.spool.base import Spool, SpoolError

PURGE_INTERVAL = 300.0
PURGE_BATCH = 500
BREATH = 0.05
"""Seconds between two batches, so that deliveries come in between."""


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


async def feed_watchdog(notifier: Notifier) -> None:
    """A sign of life at half the time within which it is due."""
    while notifier.watchdog:
        notifier.notify("WATCHDOG=1")
        await asyncio.sleep(notifier.watchdog / 2)
