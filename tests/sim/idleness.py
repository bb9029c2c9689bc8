"""Who waits for nothing: mail that is due, deadlines that have passed and senders that are to be told, while nothing stands
in the way. The daemon looks by itself after a while (`mta.doorbell.LOOK_INTERVAL`), so that a ring that was lost is only
late: nobody would see it otherwise.

Rules: what the spool has is asked between two of the daemon's transactions, without its knowing. What seems to wait for
nothing is looked at once more: it may have been free for no longer than the instant.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from mta.app.daemon import Daemon
from mta.spool import deadlines, due
from mta.spool.claims import Claims
from mta.spool.marks import BOUNCES
from tests.sim import invariants
from tests.sim.course import Course
from tests.sim.invariants import Waiting
from tests.sim.loop import Machine
from tests.sim.scenario import ClockStep

AGAIN = 30.0
"""Seconds until the second look."""
PATIENCE = 300.0
"""Seconds of being due, and of being up, before anything is held against a daemon, and for which a clock that was set may
not be believed."""
GIVING_UP = 3600.0
"""Seconds within which that ends for which no attempt is left."""
_GIVEN_UP = """SELECT r.destination, min(m.expires_at) FROM recipients r JOIN messages m ON m.id = r.id >> 20
    WHERE r.waiting AND r.status = 'pending' AND r.next_at IS NOT NULL GROUP BY r.destination"""


class Idleness:
    """Of one run of the daemon, `machine`. `ask` runs a question on its spool; `clock` is its wall clock."""

    def __init__(
        self, course: Course, machine: Machine, daemon: Daemon, ask: Callable[[Any], Any], clock: Callable[[], float]
    ) -> None:
        self._course, self._machine, self._daemon, self._ask, self._clock = course, machine, daemon, ask, clock
        self._since = course.now
        self._looks_again = False

    def look(self) -> None:
        if not self._looks_again and (waiting := self._waiting()):
            self._looks_again = True
            self._course.loop.call_later(AGAIN, self._look_again, waiting)

    def _look_again(self, before: frozenset[Waiting]) -> None:
        self._looks_again = False
        self._course.check(invariants.of_idleness(before & self._waiting()))

    def _waiting(self) -> frozenset[Waiting]:
        """What seems to wait for nothing."""
        daemon, course = self._daemon, self._course
        if not (self._machine.alive and daemon.runs):  # another run may be at the spool by now
            return frozenset()
        if course.disk_was_bad or course.now < self._since + PATIENCE:
            return frozenset()
        if any(isinstance(it, ClockStep) and 0 <= course.now - it.at < PATIENCE for it in course.scenario.faults):
            return frozenset()
        return frozenset(self._ask(lambda db: [*self._mail(db), *self._untold(db)]) or ())

    def _mail(self, db: sqlite3.Connection) -> Iterator[Waiting]:
        held = {name for (name,) in db.execute("SELECT destination FROM standing_holds")}
        if "*" in held:
            return
        long_ago = self._clock() - PATIENCE
        for destination, instants in due.destinations(db, "", 1000, self._clock()):
            if destination in held or not self._may_begin(destination):
                continue
            for mail_class, at in instants.items():
                if at < long_ago:
                    yield Waiting("what is due begins", f"{mail_class.label} mail for {destination}", at)
        if self._daemon.scheduler.sessions:  # what is on its way is in their hands
            return
        passed = deadlines.next_deadline(db, Claims())
        if passed is not None and passed < long_ago:
            yield Waiting("what has passed its deadline ends", "somebody's mail", passed)
        for destination, at in db.execute(_GIVEN_UP):
            if at < self._clock() - GIVING_UP and destination not in held:
                yield Waiting("what has passed its give-up ends", f"somebody's mail for {destination}", at)

    def _may_begin(self, destination: str) -> bool:
        """Whether neither a rest nor a rate nor a cap stands in the way: less than half of the sessions are more than any
        reserve leaves."""
        scheduler, course = self._daemon.scheduler, self._course
        standing = scheduler.standings().get(destination)
        if standing is not None and (standing.rests_for or standing.next_in is not None or standing.sessions):
            return False
        if destination in course.scenario.by_relay:  # their sessions are the relay's
            return not scheduler.sessions
        return 2 * scheduler.sessions < min(it.max_sessions for it in course.history.lately)

    def _untold(self, db: sqlite3.Connection) -> Iterator[Waiting]:
        for kind, at in db.execute("SELECT kind, min(at) FROM notices GROUP BY kind"):
            if kind in BOUNCES and at < self._clock() - PATIENCE:  # what is for the postmaster is collected
                yield Waiting("a sender is told at once", kind, at)
