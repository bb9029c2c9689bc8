"""How much somebody may do in a time: token buckets in bounded memory, the clock given.

Rules: a bucket that nobody knows is full; one that is full, or the longest unused of too many, is forgotten. A clock that is
set back stops nobody: what has passed since is then counted as nothing, and no longer.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from mta.model.units import format_duration

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Rate:
    """`amount` in `period` seconds on the average, `burst` at once; all are above 0."""

    amount: int
    period: float
    burst: int

    def __str__(self) -> str:
        """As the configuration has it, without the burst."""
        return f"{self.amount}/{format_duration(self.period)}"


class Buckets:
    """For at most `limit` keys. `now` is seconds, from whatever beginning, of one clock for each key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._levels: dict[Hashable, tuple[float, float]] = {}
        """What is left and as of when; the key that was used last stands last."""

    def __len__(self) -> int:
        return len(self._levels)

    def level(self, key: Hashable, rate: Rate, now: float) -> float:
        """What may be taken."""
        level, at = self._levels.get(key, (float(rate.burst), now))
        return min(level + max(now - at, 0.0) * rate.amount / rate.period, float(rate.burst))

    def take(self, key: Hashable, rate: Rate, now: float) -> bool:
        """Whether there was one more."""
        level = self.level(key, rate, now)
        there_is = level >= 1 - _ROUNDING
        self._set(key, level - there_is, now)
        return there_is

    def give_back(self, key: Hashable, rate: Rate, now: float) -> None:
        """One that was taken."""
        level = self.level(key, rate, now) + 1
        if level >= rate.burst:
            self._levels.pop(key, None)
        else:
            self._set(key, level, now)

    def _set(self, key: Hashable, level: float, now: float) -> None:
        self._levels.pop(key, None)
        self._levels[key] = (level, now)
        if len(self._levels) > self._limit:
            del self._levels[next(iter(self._levels))]
