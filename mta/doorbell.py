"""The doorbell: the spool rings it after a commit, a stage waits at it. It carries hints, never facts: a stage looks in
the spool, and looks there from time to time without a ring too.
"""

import asyncio

from mta.model.envelope import MailClass

LOOK_INTERVAL = 900.0
"""Seconds: how often a stage looks into the spool without a ring. An instant of wall time is slept to, and whoever watches
the clock rings where it steps."""

Lane = tuple[str, MailClass]
"""A destination and a class of mail."""


class Doorbell:
    """Bells: work for deliveries (which lane, due when), deadlines to be kept, and, for each who tells them, notices to be
    told."""

    def __init__(self) -> None:
        self._due: dict[Lane, float] = {}
        self.deliveries = asyncio.Event()
        self.deadlines = asyncio.Event()
        self.notices = asyncio.Event()
        self.alerts = asyncio.Event()

    def ring_delivery(self, destination: str, at: float, mail_class: MailClass) -> None:
        """Something of this class for `destination` is due at `at` (seconds since the epoch)."""
        lane = (destination, mail_class)
        known = self._due.get(lane)
        if known is None or at < known:
            self._due[lane] = at
        self.deliveries.set()

    def ring_deadlines(self) -> None:
        """There may be an earlier deadline than before."""
        self.deadlines.set()

    def ring_notices(self) -> None:
        self.notices.set()
        self.alerts.set()

    def take_due(self) -> dict[Lane, float]:
        """The lanes rung since the last call, each with the earliest instant."""
        due, self._due = self._due, {}
        self.deliveries.clear()
        return due


async def wait_for(event: asyncio.Event, timeout: float) -> None:
    """Until `event` is set, which it is after `timeout` seconds at the latest; does not clear it."""
    alarm = asyncio.get_running_loop().call_later(max(timeout, 0), event.set)
    try:
        await event.wait()
    finally:
        alarm.cancel()
