"""What is due, fair over classes and destinations, asleep until the next instant.

Rules: the backlog stays in the spool; what is kept here grows with destinations and sessions, not with messages. The end
of every turn, which is one claim and what becomes of it, decides whose turn is next (`policy.agenda` has the rules). When a
lane's next mail is due is told by each claim; the spool is asked for it only where a turn found nothing. Instants of mail
are wall time, looked at again with every ring (one comes when the clock has stepped); rests are of the loop's monotonic
clock. What is learned of destinations, and what is left of their rates, is kept in the spool (`ledger`).
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from mta.doorbell import LOOK_INTERVAL, Lane, wait_for
from mta.ledger import Ledger
from mta.model.envelope import MailClass
from mta.model.events import Trouble
from mta.model.outcome import Verdict
from mta.policy import schedule
from mta.policy.agenda import Agenda, Caps
from mta.policy.destinations import Destinations
from mta.policy.instants import Instants
from mta.policy.lanes import LaneRules
from mta.policy.places import Turn
from mta.policy.schedule import RetryPolicy
from mta.policy.shares import Shares
from mta.policy.standings import DestinationStanding, standings
from mta.ports.scheduling import Deliver, DeliveryOutcome
from mta.ports.system import Clock, Observer, Randomness
from mta.spool.base import Spool, SpoolError

SPOOL_REST = 1.0
"""Seconds without new claims after the spool failed."""
ASK_AGAIN = 0.05
"""Seconds until a lane is claimed from again in which a turn found nothing although something seems to be due."""
PAGE = 1000
"""Destinations read from the spool at a time."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    max_sessions: int
    max_sessions_per_destination: int
    classes: dict[MailClass, RetryPolicy]
    lanes: LaneRules = field(default_factory=LaneRules)
    destinations: Destinations = field(default_factory=Destinations)

    @property
    def caps(self) -> Caps:
        return Caps(self.max_sessions, self.lanes)


class Scheduler:
    """Starts turns; `delivery` does the work."""

    def __init__(
        self,
        settings: SchedulerSettings,
        spool: Spool,
        clock: Clock,
        chance: Randomness,
        observer: Observer,
        delivery: Deliver,
        shares: Shares | None = None,
    ) -> None:
        """`shares` as all parts of the daemon have it."""
        self._settings = settings
        self._shares = shares or Shares(settings.destinations, settings.max_sessions_per_destination)
        self._spool, self._clock, self._chance, self._observer = spool, clock, chance, observer
        self._delivery = delivery
        self._time = asyncio.get_running_loop().time
        self._agenda = Agenda(settings.caps, self._shares)
        self._ledger = Ledger(spool, clock, self._agenda, self._shares.ceilings)
        self._keeping = False
        self._later = Instants[Lane]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling: set[str] = set()
        self._paused_until = 0.0
        self._asleep_until = 0.0
        self._looked_at = float("-inf")
        self._stopping = False

    # ------------------------------------------------ what the daemon sees
    async def run(self) -> None:
        """Until `stop`. Never raises for what the spool or a delivery does."""
        while not self._stopping:
            await self._look()
            self._take_rings()
            self._take_instants()
            self._start_turns()
            await wait_for(self._spool.doorbell.deliveries, self._fall_asleep())
        await self._close()

    def stop(self) -> None:
        """No new claims from now on; turns end with the claim they have."""
        self._stopping = True
        self._wake()

    def reconfigure(self, settings: SchedulerSettings) -> None:
        """Counts from the next turn on: what runs is not ended."""
        self._settings = settings
        self._shares.reconfigure(settings.destinations, settings.max_sessions_per_destination)
        self._agenda.reconfigure(settings.caps, self._time())
        self._wake()

    def standings(self) -> dict[str, DestinationStanding]:
        """The destinations with sessions, in a rest, or held back by what was learned or by a rate."""
        return standings(self._agenda, self._time())

    @property
    def sessions(self) -> int:
        return sum(self._agenda.running)

    def wake_destination(self, destination: str) -> None:
        """Ends a rest: a person wants it tried now."""
        self._agenda.wake(destination, self._time())
        self._wake()

    # ------------------------------------------------ what is due
    async def _look(self) -> None:
        """Reads every waiting lane from the spool, at the start and every `LOOK_INTERVAL`."""
        if self._time() < self._looked_at + LOOK_INTERVAL:
            return
        self._agenda.forget_idle(lambda name: any((name, it) in self._later for it in MailClass), self._time())
        after = ""
        try:
            if not self._ledger.recalled:
                await self._ledger.recall(self._time())
            while page := await self._spool.destinations(after, PAGE, self._clock.now()):
                for destination, instants in page:
                    for mail_class, at in instants.items():
                        self._later.add((destination, mail_class), at)
                after = page[-1][0]
            self._looked_at = self._time()
        except SpoolError as error:
            self._pause(error)

    def _take_rings(self) -> None:
        for lane, at in self._spool.doorbell.take_due().items():
            self._later.add(lane, at)

    def _take_instants(self) -> None:
        for destination, mail_class in self._later.past(self._clock.now()):
            self._agenda.news(destination, mail_class, self._time())
        self._agenda.end_rests(self._time())

    def _fall_asleep(self) -> float:
        """For how many seconds: who finds an earlier reason meanwhile wakes us."""
        sleep = self._sleep()
        self._asleep_until = self._time() + sleep
        return sleep

    def _sleep(self) -> float:
        """Seconds until something may change by itself."""
        now = self._time()
        if now >= self._paused_until and self._agenda.may_begin():
            return 0.0  # the pause ended between `_start_turns` and here
        waits = [LOOK_INTERVAL]
        if self._later.earliest is not None:
            waits.append(self._later.earliest - self._clock.now())
        if self._agenda.next_change is not None:
            waits.append(self._agenda.next_change - now)
        if now < self._paused_until:
            waits.append(self._paused_until - now)
        return max(0.0, min(waits))

    # ------------------------------------------------ turns
    def _start_turns(self, *, own: bool = False) -> Turn | None:
        """All that may begin, each in a task; but the first is the caller's `own`, who has just ended one."""
        now, first = self._time(), None
        while not self._stopping and now >= self._paused_until and (turn := self._agenda.begin(now)) is not None:
            if own and first is None:
                first = turn
                continue
            task = asyncio.create_task(self._turns(turn), name="deliver")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if (change := self._agenda.next_change) is not None and change < self._asleep_until:
            self._asleep_until = change
            self._wake()
        if self._ledger.due:
            self._keep_books()
        return first

    async def _turns(self, turn: Turn | None) -> None:
        """One, and behind it whichever is next: a task for each would cost more than a look at the agenda. What fails for a
        reason that is not the destination's has no outcome."""
        while turn is not None:
            last, turn, outcome = turn, None, None
            try:
                outcome = await self._delivery.deliver(last.destination, last.mail_class, partial(self._claimed, last))
            except SpoolError as error:
                self._pause(error)
            except Exception as error:  # ours to mend; no other destination may suffer from it
                self._observer(Trouble("error", f"a delivery to {last.destination} failed inside", repr(error)))
                self._agenda.trouble(last.destination, self._time(), schedule.REST_LIMIT)
                self._wake()
            finally:
                self._end(last, outcome)
                turn = self._start_turns(own=outcome is not None and not (outcome.trouble or outcome.idle))
        if outcome is None:
            return
        if outcome.trouble is not None and self._rests(last.destination):
            await self._tell_overdue(last.destination, outcome.trouble)
        elif outcome.idle and not self._agenda.is_due(last):
            await self._until_due(last)

    def _claimed(self, turn: Turn, following: float | None) -> None:
        """A claim was had: another session may find more now, or an instant is to be awaited."""
        if following is not None and following <= self._clock.now():
            if self._agenda.more(turn, self._time()):
                self._start_turns()
            return
        self._agenda.no_more(turn, self._time())
        if following is not None:
            self._await((turn.destination, turn.mail_class), following)

    def _end(self, turn: Turn, outcome: DeliveryOutcome | None) -> None:
        """Counts it out, and the messages that a rate counts."""
        now, contents = self._time(), 0 if outcome is None or outcome.idle else outcome.contents
        if outcome is not None and outcome.crowded is not None:
            self._shares.crowded(outcome.crowded)
        if outcome is None:
            self._agenda.news(turn.destination, turn.mail_class, now)
        elif outcome.trouble is not None:
            self._rest(turn.destination, outcome, outcome.trouble)
        elif outcome.idle:
            self._agenda.no_more(turn, now)
        else:
            self._agenda.progress(turn.destination, now, outcome.hop)
        self._agenda.end(turn, now, contents)
        self._agenda.forget(turn.destination)

    def _rest(self, destination: str, outcome: DeliveryOutcome, verdict: Verdict) -> None:
        it = self._agenda.destinations[destination]
        it.last_reply = str(verdict.reply)
        policy = self._settings.classes[max(outcome.mail_class, MailClass.NORMAL)]
        rest = outcome.rest
        if rest is None:
            rest = schedule.rest(policy, it.standing.failures + 1, self._chance.random())
        self._agenda.trouble(destination, self._time(), rest, outcome.hop)
        self._wake()

    def _rests(self, destination: str) -> bool:
        it = self._agenda.destinations.get(destination)
        return it is not None and it.standing.rests(self._time())

    async def _tell_overdue(self, destination: str, verdict: Verdict) -> None:
        """Once at a time for a destination: urgent mail finds the same trouble every second."""
        if destination in self._telling:
            return
        self._telling.add(destination)
        try:
            await self._delivery.tell_overdue(destination, verdict)
        except SpoolError as error:
            self._pause(error)
        finally:
            self._telling.discard(destination)

    async def _until_due(self, turn: Turn) -> None:
        """A turn found nothing: the instant that its lane was awaited by is used up, whoever else is at work there."""
        at: float | None = 0.0
        try:
            at = await self._spool.next_due(turn.destination, self._clock.now(), (turn.mail_class,))
        except SpoolError as error:
            self._pause(error)
        if at is not None:
            self._await((turn.destination, turn.mail_class), max(at, self._clock.now() + ASK_AGAIN))

    # ------------------------------------------------ what is kept
    def _keep_books(self) -> None:
        if self._keeping or self._stopping or self._time() < self._paused_until:
            return
        self._keeping = True
        task = asyncio.create_task(self._keep(), name="keep limits")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self) -> None:
        try:
            await self._ledger.keep(self._time())
        except SpoolError as error:
            self._pause(error)
        finally:
            self._keeping = False
        self._start_turns()

    async def _close(self) -> None:
        try:
            await self._ledger.close(self._time())
        except SpoolError as error:
            self._observer(Trouble("warning", "what is left of the rates could not be kept", str(error)))

    # ------------------------------------------------ small things
    def _await(self, lane: Lane, at: float) -> None:
        earliest = self._later.earliest
        self._later.add(lane, at)
        if self._later.earliest != earliest:
            self._wake()

    def _pause(self, error: SpoolError) -> None:
        if self._time() >= self._paused_until:
            self._observer(Trouble("error", "the spool failed; deliveries pause", str(error)))
        self._paused_until = self._time() + SPOOL_REST
        self._wake()

    def _wake(self) -> None:
        self._spool.doorbell.deliveries.set()
