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
from mta.policy.candidates import Candidate

K = TypeVar("K")
T = TypeVar("T")

Endpoint = tuple[str, int]
"""An address and a port."""

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
    """By address and port, not by name: names move, and where one port is closed another may be open (a relay's beside the
    mail server's, where a provider blocks 25), or have a TLS that works."""

    def __init__(self) -> None:
        self._dead: OrderedDict[Endpoint, Dead] = OrderedDict()
        self._clear: OrderedDict[Endpoint, float] = OrderedDict()

    def dead(self, endpoint: Endpoint) -> Dead | None:
        """The memory of `endpoint`, while it is to be left alone."""
        known = self._dead.get(endpoint)
        return known if known is not None and self._now() < known.until else None

    def living_first(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return sorted(candidates, key=lambda it: self.dead(it.endpoint) is not None)

    def resting(self, endpoint: Endpoint, heeds: float) -> tuple[Verdict, float] | None:
        """What befell an endpoint that is to be left alone, and for how many seconds more; `heeds` is how long a rest is
        heeded at most."""
        known = self.dead(endpoint)
        left = min(known.until, known.since + heeds) - self._now() if known is not None else 0.0
        return (known.verdict, left) if known is not None and left > 0 else None

    def failures(self, endpoint: Endpoint) -> int:
        known = self._dead.get(endpoint)
        return known.failures if known is not None else 0

    def blame(self, endpoint: Endpoint, verdict: Verdict, rest: float) -> None:
        """`endpoint` could not be reached and is left alone for `rest` seconds; a failure within a rest prolongs none."""
        now, known = self._now(), self.dead(endpoint)
        if known is not None:
            self._dead[endpoint] = replace(known, since=now)
        else:
            _put(self._dead, endpoint, Dead(now, now + rest, self.failures(endpoint) + 1, verdict))

    def absolve(self, endpoint: Endpoint) -> None:
        self._dead.pop(endpoint, None)

    def revive(self) -> None:
        """A person knows better: every host may be alive again. Each that is not costs one more timeout."""
        self._dead.clear()

    def speaks_clear(self, endpoint: Endpoint) -> bool:
        """Whether its TLS failed lately."""
        return self._now() < self._clear.get(endpoint, 0.0)

    def remember_clear(self, endpoint: Endpoint) -> None:
        _put(self._clear, endpoint, self._now() + CLEAR_TEXT_MEMORY)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _put(memory: OrderedDict[K, T], key: K, value: T) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > HOST_LIMIT:
        memory.popitem(last=False)
