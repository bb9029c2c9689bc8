"""Who has turns while others wait: destinations, urgent mail, and the shares of the classes behind it. Looks on where the
scheduler meets the spool.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mta.doorbell import Lane
from mta.model.envelope import MailClass
from mta.policy.standings import DestinationStanding
from tests.sim import invariants
from tests.sim.loop import Machine

if TYPE_CHECKING:
    from tests.sim.computer import Computer


class Turns:
    """Who waits while others of the same class are served; looks on where the scheduler meets the spool."""

    def __init__(self, computer: "Computer", machine: Machine, spool: Any) -> None:
        self._computer, self._machine = computer, machine
        self._by_relay = computer.course.scenario.by_relay
        """They have sessions together."""
        self._passed: dict[Lane, Counter[str]] = {}
        self._urgent: dict[str, list[MailClass]] = {}
        """The turns that were had while urgent mail for a destination waited."""
        self._owed: dict[Lane, int] = {}
        """How many turns higher classes had at a destination while mail of this one waited there."""
        self._claim, self._ring = spool.claim, spool.doorbell.ring_delivery
        spool.claim, spool.doorbell.ring_delivery = self._claimed, self._rung

    def count_anew(self) -> None:
        """Turns that were had by other rules prove nothing about these."""
        self._passed = {lane: Counter() for lane in self._passed}
        self._urgent = {destination: [] for destination in self._urgent}
        self._owed = dict.fromkeys(self._owed, 0)

    async def _claimed(
        self, destination: str, limit: int, now: float, classes: Sequence[MailClass] = tuple(MailClass)
    ) -> Any:
        self._begin(destination)
        for mail_class in classes:
            self._passed.pop((destination, mail_class), None)
            self._owed.pop((destination, mail_class), None)
            if mail_class is MailClass.URGENT:
                self._urgent.pop(destination, None)
        found = await self._claim(destination, limit, now, classes)
        if found is not None and self._machine.alive:
            if found.following is not None and found.following <= now:
                self._owed.setdefault((destination, found.mail_class), 0)
            self._pass(destination, found.mail_class)
        if self._machine.alive:
            self._overtake_shares(destination, found and found.mail_class)
        return found

    def _begin(self, destination: str) -> None:
        """A turn begins with its claim, among those that run."""
        daemon, course = self._computer.daemon, self._computer.course
        if daemon is not None and daemon.runs:
            there, in_all = daemon.scheduler.standings()[destination].sessions, daemon.scheduler.sessions
            course.check(invariants.of_turn(destination, there, in_all, course.scenario, course.history))

    def _rung(self, destination: str, at: float, mail_class: MailClass) -> None:
        if at <= self._computer.clock.now():
            self._passed.setdefault((destination, mail_class), Counter())
            self._owed.setdefault((destination, mail_class), 0)
            if mail_class is MailClass.URGENT:
                self._urgent.setdefault(destination, [])
        self._ring(destination, at, mail_class)

    def _pass(self, served: str, mail_class: MailClass) -> None:
        daemon = self._computer.daemon
        if not (self._passed or self._urgent) or daemon is None or not daemon.runs:
            return
        standings = daemon.scheduler.standings()
        relay_at_work = any(standings[it].sessions for it in self._by_relay if it in standings)
        for lane, passed in list(self._passed.items()):
            if lane[0] in standings or (relay_at_work and lane[0] in self._by_relay):  # it rests, or has sessions
                del self._passed[lane]
                continue
            if lane[1] is mail_class:
                passed[served] += 1
                course = self._computer.course
                course.check(invariants.of_turns(lane[0], passed, course.history.lately))
        self._overtake(served, mail_class, standings)

    def _overtake(self, served: str, mail_class: MailClass, standings: Mapping[str, DestinationStanding]) -> None:
        """A turn could have been urgent mail's if it was at its destination, or that has no session at all."""
        course = self._computer.course
        for destination, turns in list(self._urgent.items()):
            standing = standings.get(destination)
            if (standing is not None and standing.rests_for) or destination in self._by_relay:
                del self._urgent[destination]
            elif standing is None or destination == served:
                turns.append(mail_class)
                lower = sum(it is not MailClass.URGENT for it in turns)
                course.check(invariants.of_urgent(destination, lower, len(turns), course.history.lately))

    def _overtake_shares(self, served: str, mail_class: MailClass | None) -> None:
        """After a turn, which found mail of a class, or nothing. What is owed is owed where sessions are free for it, and
        where none of its class is at work there; a rest, in which urgent mail alone is tried, ends it."""
        daemon, course = self._computer.daemon, self._computer.course
        if daemon is None or not daemon.runs or served in self._by_relay:
            return
        all_at_work = daemon.scheduler.sessions >= min(it.max_sessions for it in course.history.now)
        for waiting in MailClass:
            lane = served, waiting
            if lane not in self._owed:
                continue
            place = daemon.scheduler._agenda.destinations[served]
            if place.standing.rests(course.loop.time()):
                del self._owed[lane]
            elif mail_class is not None and mail_class < waiting and not (all_at_work or place.running[waiting]):
                self._owed[lane] += 1
                course.check(invariants.of_shares(lane, self._owed[lane], course.history.lately))
