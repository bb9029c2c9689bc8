"""What is remembered of remote hosts between attempts (RFC 5321 section 4.5.4.1: unreachability per host).

Rules: in memory alone, forgotten by age, bounded; a memory delays, it never decides about a message. What is in a hurry
heeds a rest for a moment only, and only where no living host is left. Instants are of the loop's monotonic clock.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mta.model.outcome import Verdict
from mta.policy.routing import Candidate

T = TypeVar("T")

CLEAR_TEXT_MEMORY = 3600.0
"""Seconds for which STARTTLS is not tried again with a host whose TLS failed."""
HOST_LIMIT = 10_000
"""Hosts remembered, per kind of memory; the oldest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Dead:
    """A host that could not be reached, last at `since`: not tried before `until`."""

    since: float
    until: float
    failures: int
    verdict: Verdict


class HostMemory:
    """By address, not by name: names move, addresses are dead."""

    def __init__(self) -> None:
        self._dead: OrderedDict[str, Dead] = OrderedDict()
        self._clear: OrderedDict[str, float] = OrderedDict()

    def dead(self, address: str) -> Dead | None:
        """The memory of `address`, while it is to be left alone."""
        known = self._dead.get(address)
        return known if known is not None and self._now() < known.until else None

    def living_first(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return sorted(candidates, key=lambda it: self.dead(it.address) is not None)

    def resting(self, address: str, heeds: float) -> tuple[Verdict, float] | None:
        """What befell an address that is to be left alone, and for how many seconds more; `heeds` is how long a rest is
        heeded at most."""
        known = self.dead(address)
        left = min(known.until, known.since + heeds) - self._now() if known is not None else 0.0
        return (known.verdict, left) if known is not None and left > 0 else None

    def failures(self, address: str) -> int:
        known = self._dead.get(address)
        return known.failures if known is not None else 0

    def blame(self, address: str, verdict: Verdict, rest: float) -> None:
        """`address` could not be reached and is left alone for `rest` seconds; a failure within a rest prolongs none."""
        now, known = self._now(), self.dead(address)
        if known is not None:
            self._dead[address] = replace(known, since=now)
        else:
            _put(self._dead, address, Dead(now, now + rest, self.failures(address) + 1, verdict))

    def absolve(self, address: str) -> None:
        self._dead.pop(address, None)

    def revive(self) -> None:
        """A person knows better: every host may be alive again. Each that is not costs one more timeout."""
        self._dead.clear()

    def speaks_clear(self, address: str) -> bool:
        """Whether its TLS failed lately."""
        return self._now() < self._clear.get(address, 0.0)

    def remember_clear(self, address: str) -> None:
        _put(self._clear, address, self._now() + CLEAR_TEXT_MEMORY)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _put(memory: OrderedDict[str, T], address: str, value: T) -> None:
    memory[address] = value
    memory.move_to_end(address)
    while len(memory) > HOST_LIMIT:
        memory.popitem(last=False)
