"""The stage that calls a person by other means than mail: it reads marks from the spool and hands them to a program and to
a web server.

Rules: what is due is in the spool, and its mark goes out when it was taken, so it is told at least once, and twice only
where a crash, or trouble with the spool, came in between. The first is told at once (since start, or after a quiet
interval), further ones collected. What is not taken is tried again, ever more seldom; when it is a day old it is counted
and shown as untold. Each way has its own marks: none waits for another's success, or for mail.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mta.doorbell import LOOK_INTERVAL, wait_for
from mta.model.envelope import Notice
from mta.model.events import Trouble
from mta.ports.system import Called, Callers, Clock, Observer
from mta.reports.alert_document import alert_document
from mta.spool.base import DueNotice, Spool

FIRST_REST, LONGEST_REST = 10.0, 600.0
"""Seconds until an alert that was not taken is tried again; doubled each time."""
GIVE_UP_AFTER = 86400.0
"""Seconds: what is older is told to nobody once it was tried in vain."""
DOCUMENT_LIMIT = 1000
"""Marks that one document takes; more are left to the next."""


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """`command` (), `webhook` "": there is none, and marks for it stay in the spool. `interval` in seconds."""

    hostname: str
    command: tuple[str, ...] = ()
    webhook: str = ""
    interval: float = 300.0


@dataclass(slots=True)
class _Way:
    """`open_at` is the loop's time from which it may be used again; `rest` the last wait after a failure."""

    notice: Notice
    name: str
    open_at: float = float("-inf")
    rest: float = 0.0


class Alerts:
    """`run` does all the work; `settings` may be replaced while it runs."""

    def __init__(
        self, settings: AlertSettings, spool: Spool, callers: Callers, clock: Clock, observer: Observer
    ) -> None:
        self.settings = settings
        self._spool, self._callers, self._clock, self._observer = spool, callers, clock, observer
        self._ways = (_Way(Notice.ALERT_COMMAND, "command"), _Way(Notice.ALERT_WEBHOOK, "webhook"))

    async def run(self) -> None:
        """Until cancelled."""
        bell = self._spool.doorbell.alerts
        while True:
            bell.clear()
            if ways := [(way, call) for way in self._ways if (call := self._call(way))]:
                await asyncio.gather(*(self._look(way, call) for way, call in ways))
            await wait_for(bell, self._longest_wait())

    def _longest_wait(self) -> float:
        now = asyncio.get_running_loop().time()
        return min([LOOK_INTERVAL, *(it.open_at - now for it in self._ways if it.open_at > now)])

    def _call(self, way: _Way) -> Callable[[bytes], Awaitable[Called]] | None:
        """None where the configuration has no such way."""
        if way.notice is Notice.ALERT_COMMAND:
            return partial(self._callers.run, self.settings.command) if self.settings.command else None
        return partial(self._callers.post, self.settings.webhook) if self.settings.webhook else None

    async def _look(self, way: _Way, call: Callable[[bytes], Awaitable[Called]]) -> None:
        if asyncio.get_running_loop().time() < way.open_at:
            return
        try:
            await self._tell(way, call)
        except Exception as error:  # whatever it was, the marks are still in the spool
            self._put_off(way, f"{type(error).__name__}: {error}")

    async def _tell(self, way: _Way, call: Callable[[bytes], Awaitable[Called]]) -> None:
        notices = await self._spool.notices([way.notice], DOCUMENT_LIMIT, self._clock.now())
        if not notices:
            return
        called = await call(alert_document(self.settings.hostname, self._clock.now(), notices))
        if not called.taken:
            self._put_off(way, called.detail)
            await self._give_up(way, notices)
            return
        await self._spool.told([notice.id for notice in notices], self._clock.now())
        way.rest, way.open_at = 0.0, asyncio.get_running_loop().time() + self.settings.interval
        self._observer(Trouble("info", f"alert {way.name} told of {len(notices)} recipients", called.detail))

    def _put_off(self, way: _Way, detail: str) -> None:
        way.rest = min(way.rest * 2, LONGEST_REST) or FIRST_REST
        way.open_at = asyncio.get_running_loop().time() + way.rest
        self._observer(Trouble("error", f"the alert {way.name} failed; it is tried again in {way.rest:g} s", detail))

    async def _give_up(self, way: _Way, notices: Sequence[DueNotice]) -> None:
        now = self._clock.now()
        old = [notice.id for notice in notices if now - notice.at >= GIVE_UP_AFTER]
        if old:
            await self._spool.report(old, None, None, now)
            self._observer(Trouble("error", f"the alert {way.name} failed for a day: {len(old)} recipients are untold"))
