"""How soon the next attempt comes: a server that puts mail off is asked again when the schedule says so, not before.

Rules: what is known is what one run of the daemon says of its own messages: of the last attempts before a crash nothing may
have been said. Nothing is held against what a person, a deadline, a doubt or a clock that was set brought forward, nor
against what a bad disk recorded late.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mta.model.events import Accepted, Fact, Settled
from mta.policy.schedule import DEFAULTS, GREYLIST_WAIT, RetryPolicy, interval
from tests.sim.course import Course
from tests.sim.invariants import Violation
from tests.sim.scenario import ClockStep, DiskTrouble, Order

SOON = 900.0
"""Seconds within which what a disk, or a person, has changed still shows."""
TELLING = 60.0
"""Seconds between a message's own instant and what the daemon tells of it."""
ROUNDING = 1.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """`is_first_word`: whether nothing was said of this number before, so that it was made now."""

    number: int
    at: float
    outcome: str
    category: str
    is_first_word: bool


class Pace:
    """Of one run."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._messages: dict[str, tuple[RetryPolicy, float]] = {}
        """By queue id: the schedule, and the instant of giving up."""
        self._last: dict[tuple[str, str], Attempt] = {}
        self._clock_is_set = any(isinstance(it, ClockStep) for it in course.scenario.faults)

    def __call__(self, fact: Fact) -> Iterator[Violation]:
        now = self._course.now
        if isinstance(fact, Accepted) and fact.kind == "mail" and fact.deliver_by is None:
            policy = DEFAULTS[fact.mail_class]
            self._messages[fact.queue_id] = policy, now + policy.give_up_after
        elif isinstance(fact, Settled) and fact.queue_id in self._messages:
            name = fact.queue_id, fact.recipient
            before = self._last.get(name)
            last = before.number if before is not None else 0
            if fact.attempt > last:  # else it was told of without an attempt
                self._last[name] = Attempt(fact.attempt, now, fact.outcome, fact.category, fact.attempt == last + 1)
                if before is not None and before.outcome == "deferred" and before.is_first_word:
                    yield from self._between(fact, before, now)

    def _between(self, fact: Settled, before: Attempt, now: float) -> Iterator[Violation]:
        policy, gives_up_at = self._messages[fact.queue_id]
        if self._clock_is_set or now >= gives_up_at - TELLING or self._was_changed(before.at, now):
            return
        least = interval(policy, before.number, 0.0)
        if before.category == "greylisting":
            least = min(least, GREYLIST_WAIT)
        if now - before.at < least - ROUNDING:
            what = f"{fact.recipient} ({fact.queue_id}): attempt {fact.attempt} {now - before.at:.1f} s after the last"
            yield Violation("an attempt comes as its schedule has it", what)

    def _was_changed(self, since: float, until: float) -> bool:
        """Whether a person, or the disk, may be the reason."""
        for fault in self._course.scenario.faults:
            match fault:
                case Order() if since - SOON <= fault.at <= until and not fault.words.startswith(("status", "show")):
                    return True
                case DiskTrouble() if fault.at <= until and since < fault.until + SOON:
                    return True
        return False
