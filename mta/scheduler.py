"""What is due, fair over destinations, asleep until the next instant.

Rules: the backlog stays in the spool; what is kept here grows with destinations and sessions, not with messages. A due
destination waits in one line; whoever is at its head gets the next free session, and goes to the end for another one.
A destination that rests or has all its sessions is not in the line: the end of the rest, or of a session, puts it back.
Instants of mail are wall time, looked at again every minute at the latest (the clock may step); rests are of the loop's
monotonic clock.
"""

import asyncio
import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from mta.doorbell import wait_for
from mta.model.envelope import MailClass
from mta.model.events import Trouble
from mta.model.outcome import Verdict
from mta.policy import concurrency, schedule
from mta.policy.concurrency import Standing
from mta.policy.schedule import RetryPolicy
from mta.ports import Clock, Deliver, DeliveryOutcome, Observer, Randomness
from mta.spool.base import Spool, SpoolError

LOOK_INTERVAL = 60.0
"""Seconds: the longest sleep, and how often the spool is looked through without a ring."""
SPOOL_REST = 1.0
"""Seconds without new claims after the spool failed."""
STALE_LIMIT = 1000
"""Replaced instants that are kept until they have come; they wait for hours where a busy destination has deferred mail."""
PAGE = 1000
"""Destinations read from the spool at a time."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    max_sessions: int
    max_sessions_per_destination: int
    classes: dict[MailClass, RetryPolicy]


@dataclass(slots=True)
class _Destination:
    standing: Standing
    sessions: int = 0
    last_reply: str = ""
    due_after_rest: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class DestinationStanding:
    """What `status` shows of a destination; `rests_for` in seconds, 0 when it does not rest."""

    sessions: int
    rests_for: float
    last_reply: str


class Scheduler:
    """Starts and ends sessions; `delivery` does the work."""

    def __init__(
        self,
        settings: SchedulerSettings,
        spool: Spool,
        clock: Clock,
        chance: Randomness,
        observer: Observer,
        delivery: Deliver,
    ) -> None:
        self.settings = settings
        self._spool, self._clock, self._chance, self._observer = spool, clock, chance, observer
        self._delivery = delivery
        self._destinations: dict[str, _Destination] = {}
        self._line: OrderedDict[str, None] = OrderedDict()
        self._later: list[tuple[float, str]] = []
        self._awaited: dict[str, float] = {}
        self._resting: list[tuple[float, str]] = []
        self._sessions = 0
        self._paused_until = 0.0
        self._looked_at = float("-inf")
        self._stopping = False

    # ------------------------------------------------ what the daemon sees
    async def run(self) -> None:
        """Until `stop`. Never raises for what the spool or a delivery does."""
        while not self._stopping:
            await self._look()
            self._take_rings()
            self._line_up()
            self._start_sessions()
            await wait_for(self._spool.doorbell.deliveries, self._sleep())

    def stop(self) -> None:
        """No new claims from now on; sessions end with the claim they have."""
        self._stopping = True
        self._wake()

    def standings(self) -> dict[str, DestinationStanding]:
        """The destinations with sessions or in a rest."""
        now = self._time()
        return {
            name: DestinationStanding(it.sessions, max(0.0, it.standing.rests_until - now), it.last_reply)
            for name, it in self._destinations.items()
            if it.sessions or it.standing.rests(now)
        }

    @property
    def sessions(self) -> int:
        return self._sessions

    def wake_destination(self, destination: str) -> None:
        """Ends a rest: a person wants it tried now."""
        if known := self._destinations.get(destination):
            known.standing = concurrency.Standing(allowed=1, failures=known.standing.failures)
        self._offer(destination)
        self._wake()

    # ------------------------------------------------ what is due
    async def _look(self) -> None:
        """Reads every waiting destination from the spool, at the start and every `LOOK_INTERVAL`."""
        if self._time() < self._looked_at + LOOK_INTERVAL:
            return
        self._forget_idle()
        after = ""
        try:
            while page := await self._spool.destinations(after, PAGE):
                for destination, at in page:
                    self._await_instant(destination, at)
                after = page[-1][0]
            self._looked_at = self._time()
        except SpoolError as error:
            self._pause(error)

    def _forget_idle(self) -> None:
        """Forgets the destinations for which nothing waits."""
        for name, it in list(self._destinations.items()):
            waits = name in self._line or name in self._awaited or it.due_after_rest
            if not (waits or it.sessions or it.standing.rests(self._time())):
                del self._destinations[name]

    def _take_rings(self) -> None:
        for destination, at in self._spool.doorbell.take_due().items():
            self._await_instant(destination, at)

    def _await_instant(self, destination: str, at: float) -> None:
        if at < self._awaited.get(destination, float("inf")):
            self._awaited[destination] = at
            heapq.heappush(self._later, (at, destination))
        if len(self._later) > 2 * len(self._awaited) + STALE_LIMIT:  # mostly instants that an earlier one has replaced
            self._later = [(at, name) for name, at in self._awaited.items()]
            heapq.heapify(self._later)

    def _line_up(self) -> None:
        now = self._clock.now()
        while self._later and self._later[0][0] <= now:
            at, destination = heapq.heappop(self._later)
            if self._awaited.get(destination) == at:
                del self._awaited[destination]
                self._offer(destination)
        while self._resting and self._resting[0][0] <= self._time():
            destination = heapq.heappop(self._resting)[1]
            known = self._known(destination)
            known.due_after_rest = False
            self._offer(destination)

    def _offer(self, destination: str) -> None:
        """Something may be due: into the line, unless it is there, rests, or has sessions that will find it."""
        known = self._known(destination)
        if known.standing.rests(self._time()):
            if not known.due_after_rest:
                known.due_after_rest = True
                heapq.heappush(self._resting, (known.standing.rests_until, destination))
        elif known.sessions < self._allowed(known):
            self._line[destination] = None

    def _sleep(self) -> float:
        """Seconds until something may change by itself."""
        now = self._time()
        if self._line and self._sessions < self.settings.max_sessions and now >= self._paused_until:
            return 0.0  # the pause ended between `_start_sessions` and here
        waits = [LOOK_INTERVAL]
        if self._later:
            waits.append(self._later[0][0] - self._clock.now())
        if self._resting:
            waits.append(self._resting[0][0] - now)
        if now < self._paused_until:
            waits.append(self._paused_until - now)
        return max(0.0, min(waits))

    # ------------------------------------------------ sessions
    def _start_sessions(self) -> None:
        if self._time() < self._paused_until or self._stopping:
            return
        while self._line and self._sessions < self.settings.max_sessions:
            destination, _ = self._line.popitem(last=False)
            known = self._known(destination)
            if known.standing.rests(self._time()):
                self._offer(destination)
            elif known.sessions < self._allowed(known):
                self._start(destination, known)

    def _allowed(self, known: _Destination) -> int:
        return min(known.standing.allowed, self.settings.max_sessions_per_destination)

    def _known(self, destination: str) -> _Destination:
        known = self._destinations.get(destination)
        if known is None:
            known = _Destination(Standing(self.settings.max_sessions_per_destination))
            self._destinations[destination] = known
        return known

    def _start(self, destination: str, known: _Destination) -> None:
        known.sessions += 1
        self._sessions += 1
        task = asyncio.create_task(self._session(destination, known), name=f"deliver {destination}")
        known.tasks.add(task)
        task.add_done_callback(known.tasks.discard)

    async def _session(self, destination: str, known: _Destination) -> None:
        """One session's worth of deliveries, until nothing is due, the destination rests or another's turn has come."""
        idle = False
        try:
            idle = await self._deliver_one(destination, known)
            while not idle and self._may_go_on(known):
                idle = await self._deliver_one(destination, known)
        finally:
            known.sessions -= 1
            self._sessions -= 1
            if not idle:
                self._offer(destination)
            self._wake()
        if idle and not known.sessions:
            await self._until_due(destination, known)

    async def _deliver_one(self, destination: str, known: _Destination) -> bool:
        """Whether nothing was due."""
        try:
            outcome = await self._delivery.deliver(destination, lambda: self._more(destination))
        except SpoolError as error:
            self._pause(error)
            return False
        except Exception as error:  # ours to mend; no other destination may suffer from it
            self._observer(Trouble("error", f"a delivery to {destination} failed inside", repr(error)))
            known.standing = concurrency.after_trouble(known.standing, self._time(), schedule.REST_LIMIT)
            return False
        if outcome.trouble is not None:
            await self._rest(destination, known, outcome, outcome.trouble)
        elif not outcome.idle:
            known.standing = concurrency.after_progress(known.standing, self.settings.max_sessions_per_destination)
        return outcome.idle

    def _may_go_on(self, known: _Destination) -> bool:
        now = self._time()
        if self._stopping or now < self._paused_until or known.standing.rests(now):
            return False
        if known.sessions > self._allowed(known):
            return False
        return len(self._line) <= self.settings.max_sessions - self._sessions

    def _more(self, destination: str) -> None:
        """A claim was had at `destination`: another session may find more."""
        self._offer(destination)
        self._wake()

    async def _rest(self, destination: str, known: _Destination, outcome: DeliveryOutcome, verdict: Verdict) -> None:
        known.last_reply = str(verdict.reply)
        policy = self.settings.classes[outcome.mail_class]
        rest = outcome.rest
        if rest is None:
            rest = schedule.rest(policy, known.standing.failures + 1, self._chance.random())
        known.standing = concurrency.after_trouble(known.standing, self._time(), rest)
        try:
            await self._delivery.tell_overdue(destination, verdict)
        except SpoolError as error:
            self._pause(error)

    async def _until_due(self, destination: str, known: _Destination) -> None:
        """The last session found nothing: sleep until something is due, or forget the destination."""
        try:
            at = await self._spool.next_due(destination)
        except SpoolError as error:
            self._pause(error)
            return
        if at is not None:
            self._await_instant(destination, at)
            self._wake()
        elif not known.sessions and not known.standing.failures and destination not in self._line:
            self._destinations.pop(destination, None)

    # ------------------------------------------------ small things
    def _pause(self, error: SpoolError) -> None:
        if self._time() >= self._paused_until:
            self._observer(Trouble("error", "the spool failed; deliveries pause", str(error)))
        self._paused_until = self._time() + SPOOL_REST

    def _wake(self) -> None:
        self._spool.doorbell.deliveries.set()

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()
