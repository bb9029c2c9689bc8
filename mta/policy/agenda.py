"""Whose turn is next: the lanes that are due, in one line a class, and the sessions that run.

A lane is a class of mail at one destination. A turn is one claim of a lane and what becomes of it: the end of each is a
new decision. Rules: a lane stands in the line of its class while something of it is believed to be due, its destination
does not rest for that class, and the destination's sessions leave room for it; whoever is at the head gets the next
session and goes to the end for another one. What is kept grows with destinations, not with messages.

How much is due is not known, only guessed: news (a ring, an instant, a claim behind which more is due) makes a few turns
due, a turn uses one up, and one that finds nothing ends them all, unless there was news since it began. Instants are of a
monotonic clock, in seconds.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mta.model.envelope import MailClass
from mta.policy import concurrency, lanes
from mta.policy.concurrency import Standing
from mta.policy.lanes import CLASSES, NO_TURNS, LaneRules, Order, Turns


def _zeros() -> list[int]:
    return [0] * len(CLASSES)


@dataclass(frozen=True, slots=True)
class Caps:
    """How many sessions there may be, in all and at one destination, and how they are parted among the classes."""

    sessions: int
    per_destination: int
    rules: LaneRules


@dataclass(slots=True)
class Destination:
    """`due`: turns that are believed to find something, by class; `news`: how often there was some."""

    standing: Standing
    running: list[int] = field(default_factory=_zeros)
    due: list[int] = field(default_factory=_zeros)
    news: list[int] = field(default_factory=_zeros)
    turns: Turns = NO_TURNS
    last_reply: str = ""

    @property
    def busy(self) -> bool:
        return any(self.due) or any(self.running)

    def waiting(self, now: float) -> list[bool]:
        return [self.due[it] > 0 and not self.standing.rests(now, it) for it in CLASSES]


@dataclass(frozen=True, slots=True)
class Turn:
    """One that has begun. `news` is the lane's count at that moment."""

    destination: str
    mail_class: MailClass
    news: int


class Agenda:
    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self.destinations: dict[str, Destination] = {}
        self.running = _zeros()
        self._turns = NO_TURNS
        self._lines: tuple[OrderedDict[str, None], ...] = tuple(OrderedDict() for _ in CLASSES)
        self._rests: list[tuple[float, str]] = []

    def reconfigure(self, caps: Caps, now: float) -> None:
        self._caps = caps
        for name in self.destinations:
            self._line_up(name, now)

    # ------------------------------------------------ what is due
    def news(self, destination: str, mail_class: MailClass, now: float) -> None:
        """Something may be due."""
        it = self._known(destination)
        self._add(it, mail_class, max(it.due[mail_class], 1))
        self._line_up(destination, now)

    def more(self, turn: Turn, now: float) -> None:
        """Behind what `turn` has claimed more is due: for one more session, and for when this one has ended."""
        it = self._known(turn.destination)
        self._add(it, turn.mail_class, min(it.due[turn.mail_class] + 2, max(1, self._cap(it))))
        self._line_up(turn.destination, now)

    def no_more(self, turn: Turn, now: float) -> None:
        """`turn` was told by the spool that nothing else is due: so it is, unless there was news since it began."""
        it = self._known(turn.destination)
        if it.news[turn.mail_class] == turn.news:
            it.due[turn.mail_class] = 0
            self._line_up(turn.destination, now)

    def _add(self, it: Destination, mail_class: MailClass, due: int) -> None:
        it.due[mail_class] = due
        it.news[mail_class] += 1

    # ------------------------------------------------ turns
    def may_begin(self) -> bool:
        return bool(self._order().classes)

    def begin(self, now: float) -> Turn | None:
        """The next turn, counted as running; None where none may begin."""
        while (order := self._order()).classes:
            first = order.classes[0]
            destination = next(iter(self._lines[first]))
            own = self._own_order(self.destinations[destination], now)
            if first in own.classes:
                self._lines[first].move_to_end(destination)
                return self._begin(destination, _chosen(first, order, own), now)
            self._line_up(destination, now)  # out of the line: something changed without our being told
        return None

    def _begin(self, destination: str, mail_class: MailClass, now: float) -> Turn:
        it, rules = self.destinations[destination], self._caps.rules
        it.turns = lanes.after_turn(rules, it.turns, mail_class, it.waiting(now))
        self._turns = lanes.after_turn(rules, self._turns, mail_class, [bool(line) for line in self._lines])
        it.due[mail_class] -= 1
        it.running[mail_class] += 1
        self.running[mail_class] += 1
        self._lines[mail_class].pop(destination, None)
        self._line_up(destination, now)
        return Turn(destination, mail_class, it.news[mail_class])

    def end(self, turn: Turn, now: float) -> None:
        self.destinations[turn.destination].running[turn.mail_class] -= 1
        self.running[turn.mail_class] -= 1
        self._line_up(turn.destination, now)

    def quiet(self, turn: Turn) -> bool:
        """Whether the lane of a turn that has ended neither runs nor is due."""
        it = self.destinations.get(turn.destination)
        return it is None or not (it.due[turn.mail_class] or it.running[turn.mail_class])

    # ------------------------------------------------ how destinations stand
    def progress(self, destination: str, now: float) -> None:
        it = self._known(destination)
        before, it.standing = it.standing, concurrency.after_progress(it.standing, self._caps.per_destination)
        if it.standing is not before:
            self._line_up(destination, now)

    def trouble(self, destination: str, now: float, rest: float) -> None:
        it = self._known(destination)
        before, it.standing = it.standing, concurrency.after_trouble(it.standing, now, rest)
        heapq.heappush(self._rests, (it.standing.urgent_until, destination))
        if it.standing.rests_until != before.rests_until:
            heapq.heappush(self._rests, (it.standing.rests_until, destination))
        self._line_up(destination, now)

    def wake(self, destination: str, now: float) -> None:
        """Ends a rest: a person wants it tried now."""
        if it := self.destinations.get(destination):
            it.standing = concurrency.probed(it.standing)
        for mail_class in CLASSES:
            self.news(destination, mail_class, now)

    @property
    def next_rest_end(self) -> float | None:
        return self._rests[0][0] if self._rests else None

    def end_rests(self, now: float) -> None:
        """Lines up those whose rest is over."""
        while self._rests and self._rests[0][0] <= now:
            self._line_up(heapq.heappop(self._rests)[1], now)

    # ------------------------------------------------ forgetting
    def forget(self, destination: str) -> None:
        """Forgets a destination where nothing is due and nothing is wrong."""
        it = self.destinations.get(destination)
        if it and not (it.busy or it.standing.failures):
            del self.destinations[destination]

    def forget_idle(self, awaited: Callable[[str], bool], now: float) -> None:
        """Forgets those for which nothing is due, or awaited, and that do not rest."""
        for name, it in list(self.destinations.items()):
            if not (it.busy or it.standing.rests(now) or awaited(name)):
                del self.destinations[name]

    # ------------------------------------------------ small things
    def _known(self, destination: str) -> Destination:
        it = self.destinations.get(destination)
        if it is None:
            it = self.destinations[destination] = Destination(concurrency.fresh(self._caps.per_destination))
        return it

    def _cap(self, it: Destination) -> int:
        return min(it.standing.allowed, self._caps.per_destination)

    def _order(self) -> Order:
        waiting = [bool(line) for line in self._lines]
        return lanes.order(self._caps.rules, self._caps.sessions, self.running, waiting, self._turns)

    def _own_order(self, it: Destination, now: float) -> Order:
        return lanes.order(self._caps.rules, self._cap(it), it.running, it.waiting(now), it.turns)

    def _line_up(self, destination: str, now: float) -> None:
        """Into, or out of, the line of each class."""
        it = self.destinations.get(destination)
        own: Iterable[MailClass] = self._own_order(it, now).classes if it else ()
        for mail_class in CLASSES:
            if mail_class not in own:
                self._lines[mail_class].pop(destination, None)
            elif destination not in self._lines[mail_class]:
                self._lines[mail_class][destination] = None


def _chosen(first: MailClass, order: Order, own: Order) -> MailClass:
    """`first` is whose turn it is globally. What is owed to it is not another one's, or its debt would give one destination
    turn after turn; else the destination's own order decides among what the global one allows."""
    if first in order.owed or first in own.owed:
        return first
    return next(it for it in own.classes if it in order.classes)
