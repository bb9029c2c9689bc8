"""The allowances of all whose messages are limited by a rate, and when each may have more.

Rules: who asks is told at once whether a message is left; what is to be fetched is gathered, for the spool to be asked
together. One that is full is forgotten: whoever is not known has a full one. Instants are of a monotonic clock, in seconds.
"""

import heapq
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from mta.policy.allowance import Allowance, full_allowance, recalled
from mta.policy.rates import Rate

_EARLIER = 1e-3
"""Seconds: an instant that is computed anew is not the same to the last digit, and no reason to be woken twice."""


@dataclass(frozen=True, slots=True)
class Books:
    """What is to be kept: `text`, for `lasts` seconds."""

    text: str
    lasts: float


class Allowances:
    """By the name of those that share one."""

    def __init__(self) -> None:
        self.refills: list[tuple[float, str]] = []
        """A heap: when enough for a fetch will be there."""
        self._known: dict[str, Allowance] = {}
        self._kept: dict[str, tuple[str, float, float]] = {}
        self.thirsty: set[str] = set()
        """The names of those for which something is to be fetched."""
        self._awaited: dict[str, float] = {}

    def kept(self, name: str, text: str, since: float, until: float) -> None:
        """What was kept before this start, `since` when and `until` when it says anything."""
        self._kept[name] = text, since, until

    def of(self, name: str, rate: Rate | None, now: float) -> Allowance | None:
        """None where no rate holds."""
        if rate is None:
            self._known.pop(name, None)
            return None
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._recalled(name, rate, now)
        elif known.rate != rate:
            known.change(rate, now)
        return known

    def _recalled(self, name: str, rate: Rate, now: float) -> Allowance:
        text, since, until = self._kept.pop(name, ("", 0.0, 0.0))
        try:
            return recalled(text, now - since, rate, now) if now < until else full_allowance(rate, now)
        except ValueError:
            return full_allowance(rate, now)

    def leaves(self, name: str, now: float, *, wanted: bool) -> bool:
        """Whether a message may be sent now. `wanted`: there is one, so more is fetched in time."""
        known = self._known[name]
        if wanted and known.wants():
            at = known.next_at(now)
            if at <= now:
                self.thirsty.add(name)
            elif at < self._awaited.get(name, inf) - _EARLIER:
                self._awaited[name] = at
                heapq.heappush(self.refills, (at, name))
        return known.ready > 0

    def next_at(self, name: str, now: float) -> float | None:
        """When the next message may be sent, where one can't be now."""
        known = self._known.get(name)
        return known.next_at(now) if known is not None and known.ready <= 0 else None

    def refilled(self, now: float) -> list[str]:
        """Those that have waited for it until now."""
        names = []
        while self.refills and self.refills[0][0] <= now:
            at, name = heapq.heappop(self.refills)
            if self._awaited.get(name) == at:
                del self._awaited[name]
                names.append(name)
        return names

    # ------------------------------------------------ the books
    def ask(self, now: float) -> Mapping[str, Books]:
        """Takes what is wanted off the books; these are to be kept, then `grant`; or `withdraw`."""
        names, self.thirsty = self.thirsty, set()
        asking = {name: self._known[name] for name in names if name in self._known and self._known[name].wants()}
        return {name: _books(it.ask(now), it) for name, it in asking.items()}

    def grant(self, names: Iterable[str]) -> None:
        for it in self._of(names):
            it.grant()

    def withdraw(self, names: Iterable[str]) -> None:
        """They are not: they are wanted as before."""
        for it in self._of(names):
            it.withdraw()
        self.thirsty.update(names)

    def put_back(self, now: float) -> Mapping[str, Books]:
        """Everything that is unused, at the end: these are to be kept."""
        unused = {name: it for name, it in self._known.items() if it.ready > 0 and not it.asked}
        return {name: _books(it.put_back(now), it) for name, it in unused.items()}

    def forget_full(self, in_use: Container[str], now: float) -> None:
        self._known = {name: it for name, it in self._known.items() if name in in_use or not it.full(now)}
        self._kept = {name: it for name, it in self._kept.items() if now < it[2]}

    def _of(self, names: Iterable[str]) -> list[Allowance]:
        return [self._known[name] for name in names if name in self._known]


def _books(level: float, allowance: Allowance) -> Books:
    return Books(repr(level), allowance.full_after())
