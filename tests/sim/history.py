"""Which settings the daemon had, and from when on: a reload changes them, and so does a start after another configuration.

Rules: these are the daemon's, not the file's: it may be down when that changes, or not yet up. Instants are seconds from
the start.
"""

from collections.abc import Callable, Sequence
from math import inf

from tests.sim.scenario import Settings

LONGEST = 3600.0
"""Seconds that no session lasts, and within which a server's limit is learned."""


class History:
    def __init__(self, first: Settings, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._taken = [(0.0, first)]

    def take(self, settings: Settings) -> None:
        if settings != self._taken[-1][1]:
            self._taken.append((self._clock(), settings))

    @property
    def now(self) -> Sequence[Settings]:
        """Those of this instant; both where a reload falls into it."""
        return self.during(self._clock(), inf)

    @property
    def lately(self) -> Sequence[Settings]:
        """Those of the last hour: what began under one of them may end under another."""
        return self.during(self._clock() - LONGEST, inf)

    def during(self, since: float, until: float) -> Sequence[Settings]:
        ends = [*(at for at, _ in self._taken[1:]), inf]
        return [it for (at, it), end in zip(self._taken, ends, strict=True) if at <= until and end >= since]
