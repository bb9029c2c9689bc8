"""Whose turn is next: the lanes that are due, in one line a class, and the sessions that run.

A lane is a class of mail at one destination. A turn is one claim of a lane and what becomes of it: the end of each is a
new decision. Destinations that share their limits are a group (most are one alone). Rules: a lane stands in its group's line
of its class while something of it is believed to be due and its destination does not rest for that class; a group stands
in the line of a class while it has such lanes, its sessions leave room for the class, and its rate leaves a message.
Whoever is at the head gets the next session and goes to the end for another one. What is kept grows with destinations, not
with messages.

How much is due is not known, only guessed: news (a ring, an instant, a claim behind which more is due) makes a few turns
due, a turn uses one up, and one that finds nothing ends them all, unless there was news since it began. Instants are of a
monotonic clock, in seconds.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mta.model.envelope import MailClass
from mta.policy import concurrency, lanes
from mta.policy.allowances import Allowances
from mta.policy.concurrency import PROBE, WELL, Bounds
from mta.policy.destinations import Limits
from mta.policy.lanes import CLASSES, NO_TURNS, LaneRules, Order
from mta.policy.places import Destination, Group, Site, Turn, empty_lines, zeros
from mta.policy.shares import Cap, Shares

CROWD_REST = 10.0
"""Seconds; the longest rest after which a server that refused several sessions at once is probed by one."""


@dataclass(frozen=True, slots=True)
class Caps:
    """How many sessions there may be in all, and how they, and a group's, are parted among the classes."""

    sessions: int
    rules: LaneRules


class Agenda:
    def __init__(self, caps: Caps, shares: Shares | None = None) -> None:
        self._caps, self._shares = caps, shares or Shares()
        self.destinations: dict[str, Destination] = {}
        self.groups: dict[str, Group] = {}
        self.allowances = Allowances()
        self.running = zeros()
        self._turns = NO_TURNS
        self._lines = empty_lines()
        self._rests: list[tuple[float, str]] = []

    def reconfigure(self, caps: Caps, now: float) -> None:
        """Others may share limits now, and these may be others."""
        self._caps = caps
        for name, it in self.destinations.items():
            self._regroup(name, now)
            self._limit(it.group, self._shares.limits(name), now)
        for name in self.destinations:
            self._line_up(name, now)

    # ------------------------------------------------ what is due
    def news(self, destination: str, mail_class: MailClass, now: float) -> None:
        """Something may be due."""
        it = self._known(destination, now)
        it.due[mail_class] = max(it.due[mail_class], 1)
        it.news[mail_class] += 1
        self._line_up(destination, now)

    def more(self, turn: Turn, now: float) -> bool:
        """Behind what `turn` has claimed more is due: for one more session, and for when this one has ended. Whether another
        turn may begin by it: not where the lane stood in line before."""
        it, mail_class = self.destinations[turn.destination], turn.mail_class
        it.due[mail_class] = min(it.due[mail_class] + 2, max(1, self._most(it.group)))
        it.news[mail_class] += 1
        if turn.destination in it.group.lines[mail_class]:
            return False
        self._line_up(turn.destination, now)
        return True

    def no_more(self, turn: Turn, now: float) -> None:
        """`turn` was told by the spool that nothing else is due: so it is, unless there was news since it began."""
        it = self.destinations[turn.destination]
        if it.news[turn.mail_class] == turn.news:
            it.due[turn.mail_class] = 0
            self._line_up(turn.destination, now)

    # ------------------------------------------------ turns
    def may_begin(self) -> bool:
        return bool(self._order().classes)

    def begin(self, now: float) -> Turn | None:
        """The next turn, counted as running; None where none may begin."""
        while any(self._lines) and (order := self._order()).classes:
            first = order.classes[0]
            group = self.groups[next(iter(self._lines[first]))]
            own = self._own_order(group, now)
            if first in own.classes:
                self._lines[first].move_to_end(group.name)
                turn = self._begin(group, _chosen(first, order, own), now)
                if turn is not None:
                    return turn
            self._line_up_group(group, now)  # out of the line: something changed without our being told
        return None

    def _begin(self, group: Group, mail_class: MailClass, now: float) -> Turn | None:
        """Of the destination that waits longest there."""
        destination = next(iter(group.lines[mail_class]))
        it = self.destinations[destination]
        if not it.waits(mail_class, now):
            self._line_up(destination, now)
            return None
        rules = self._caps.rules
        group.turns = lanes.after_turn(rules, group.turns, mail_class, group.lines)
        self._turns = lanes.after_turn(rules, self._turns, mail_class, self._lines)
        it.due[mail_class] -= 1
        for running in (it.running, group.running, self.running):
            running[mail_class] += 1
        it.site.running += 1
        if group.allowance is not None:
            group.allowance.use(now)
        group.lines[mail_class].pop(destination)
        self._lines[mail_class].pop(group.name, None)
        self._line_up(destination, now)
        return Turn(destination, mail_class, it.news[mail_class], group, it.site, group.allowance)

    def end(self, turn: Turn, now: float, contents: int = 1) -> None:
        """`contents`: how many messages it has sent of the one that it was allowed."""
        it, group, mail_class = self.destinations[turn.destination], turn.group, turn.mail_class
        for running in (it.running, group.running, self.running):
            running[mail_class] -= 1
        turn.site.running -= 1
        if turn.allowance is not None:
            turn.allowance.used(contents)
        self._regroup(turn.destination, now)
        self._line_up(turn.destination, now)
        if group is not it.group:
            self._line_up_group(group, now)

    def is_due(self, turn: Turn) -> bool:
        """Whether more is believed to be due in the lane of a turn that has ended."""
        it = self.destinations.get(turn.destination)
        return it is not None and it.due[turn.mail_class] > 0

    # ------------------------------------------------ how destinations stand
    def progress(self, destination: str, now: float, hop: str = "") -> None:
        """A session got through to the destination, whatever it said of the recipients; one of `hop` (as in `Sessions`)."""
        it = self._known(destination, now)
        wanted = any(it.group.lines)
        learned = self._shares.ceilings.got_through(self._name(it, hop), now, wanted=wanted)
        window = concurrency.wider(it.site.window, self._bounds(it.group), wanted=wanted)
        if learned or window is not it.site.window or it.standing is not WELL:
            it.standing, it.site.window = WELL, window
            self._line_up(destination, now)

    def trouble(self, destination: str, now: float, rest: float, hop: str = "") -> None:
        """The destination as a whole could not be used, at `hop` last: one session less, and a rest if nobody gets
        through."""
        it = self._known(destination, now)
        names = {it.group.name, self._name(it, hop)}
        if any(map(self._shares.ceilings.suspects, names)) and not it.standing.failures:
            rest = min(rest, CROWD_REST)  # all that came at once were too many: one alone may not be
        before, it.standing = it.standing, concurrency.after_trouble(it.standing, sum(it.running), now, rest)
        it.site.window = concurrency.narrower(it.site.window)
        if it.standing.failures and it.site.running <= sum(it.running):  # nobody else is at these servers
            it.site.window = PROBE
            self._were_down(names)
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
    def next_change(self) -> float | None:
        """When a rest ends, or a rate may leave a message again."""
        rests, refills = self._rests, self.allowances.refills
        if rests and refills:
            return min(rests[0][0], refills[0][0])
        first = rests or refills
        return first[0][0] if first else None

    def end_rests(self, now: float) -> None:
        """Lines up those whose rest is over, and those whose rate leaves a message again."""
        while self._rests and self._rests[0][0] <= now:
            self._line_up(heapq.heappop(self._rests)[1], now)
        for name in self.allowances.refilled(now):
            if name in self.groups:
                self._line_up_group(self.groups[name], now)

    def granted(self, names: Iterable[str], now: float) -> None:
        """What they asked for was taken off the books (`allowances.ask`)."""
        self.allowances.grant(names)
        for name in names:
            if name in self.groups:
                self._line_up_group(self.groups[name], now)

    # ------------------------------------------------ forgetting
    def forget(self, destination: str) -> None:
        """Forgets a destination where nothing is due and nothing is wrong."""
        it = self.destinations.get(destination)
        if it and not it.busy and it.standing == WELL and it.site.window == concurrency.fresh(self._bounds(it.group)):
            self._drop(destination)

    def forget_idle(self, awaited: Callable[[str], bool], now: float) -> None:
        """Forgets those for which nothing is due, or awaited, and that do not rest."""
        for name, it in list(self.destinations.items()):
            if not (it.busy or it.standing.rests(now) or awaited(name)):
                self._drop(name)
        self.allowances.forget_full(self.groups, now)
        for name in self._shares.ceilings.forget_old(now):
            if name in self.groups:
                self._line_up_group(self.groups[name], now)

    def _drop(self, destination: str) -> None:
        it = self.destinations.pop(destination)
        self._were_down({destination})  # its own servers, where a relay comes before them
        for line in it.group.lines:
            line.pop(destination, None)
        self._leave(it.group)

    def _leave(self, group: Group) -> None:
        group.members -= 1
        if not group.members:
            del self.groups[group.name]
            self._were_down({group.name})
            for line in self._lines:
                line.pop(group.name, None)

    def _were_down(self, names: Iterable[str]) -> None:
        for name in names:
            self._shares.ceilings.was_down(name)

    # ------------------------------------------------ who shares with whom
    def cap(self, destination: str) -> Cap:
        """The most sessions of all that share with `destination`, which is known."""
        group = self.destinations[destination].group
        return self._shares.cap(group.name, group.limits)

    def next_message_in(self, destination: str, now: float) -> float | None:
        """Seconds until the rate leaves a message to a destination that waits for it; None: it need not wait."""
        group = self.destinations[destination].group
        at = self.allowances.next_at(group.name, now) if any(group.lines) else None
        return max(0.0, at - now) if at is not None else None

    def _name(self, it: Destination, hop: str) -> str:
        """Under which it is learned how many sessions `hop` bears."""
        return self._shares.name(hop, directly=True) if hop else it.group.name

    def _known(self, destination: str, now: float) -> Destination:
        it = self.destinations.get(destination)
        if it is None:
            group = self._join(destination, now)
            it = self.destinations[destination] = Destination(group, group.site or self._fresh(group))
        return it

    def _join(self, destination: str, now: float) -> Group:
        name = self._shares.name(destination)
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name, self._shares.limits(destination))
            group.site = self._fresh(group) if group.limits.one_site else None
            self._limit(group, group.limits, now)
        group.members += 1
        return group

    def _fresh(self, group: Group) -> Site:
        return Site(concurrency.fresh(self._bounds(group)))

    def _regroup(self, destination: str, now: float) -> None:
        """It may have been learned, or configured, meanwhile with whom it shares."""
        it = self.destinations[destination]
        if self._shares.name(destination) == it.group.name:
            return
        for line in it.group.lines:
            line.pop(destination, None)
        old = it.group
        it.group = self._join(destination, now)
        it.site = it.group.site or self._fresh(it.group)
        self._leave(old)
        self._line_up_group(old, now)

    def _limit(self, group: Group, limits: Limits, now: float) -> None:
        """What is configured for it now."""
        group.limits = limits
        group.allowance = self.allowances.of(group.name, limits.rate, now)

    # ------------------------------------------------ lines
    def _bounds(self, group: Group) -> Bounds:
        return self._shares.bounds(group.name, group.limits)

    def _most(self, group: Group) -> int:
        """Sessions that may run there now."""
        cap = self._shares.most(group.name, group.limits)
        return cap if group.site is None else min(cap, group.site.window.allowed)

    def _order(self) -> Order:
        return lanes.order(self._caps.rules, self._caps.sessions, self.running, self._lines, self._turns)

    def _own_order(self, group: Group, now: float) -> Order:
        if group.allowance is not None and not self.allowances.leaves(group.name, now, wanted=any(group.lines)):
            return lanes.NOBODY
        return lanes.order(self._caps.rules, self._most(group), group.running, group.lines, group.turns)

    def _line_up(self, destination: str, now: float) -> None:
        """Into, or out of, the line of each class in its group."""
        it = self.destinations.get(destination)
        if it is None:
            return
        for mail_class, line in zip(CLASSES, it.group.lines, strict=True):
            if it.due[mail_class] and it.waits(mail_class, now):
                line.setdefault(destination)
            else:
                line.pop(destination, None)
        self._line_up_group(it.group, now)

    def _line_up_group(self, group: Group, now: float) -> None:
        if self.groups.get(group.name) is not group:
            return
        own = self._own_order(group, now).classes if any(group.lines) else ()
        for mail_class, line in zip(CLASSES, self._lines, strict=True):
            if mail_class in own:
                line.setdefault(group.name)
            else:
                line.pop(group.name, None)


def _chosen(first: MailClass, order: Order, own: Order) -> MailClass:
    """`first`, which may begin by `own` too, is whose turn it is globally. What is owed to it is not another one's, or its
    debt would give one destination turn after turn; else the destination's own order decides among what the global one
    allows."""
    if first is own.classes[0] or first in order.owed or first in own.owed:
        return first
    return next(it for it in own.classes if it in order.classes)
