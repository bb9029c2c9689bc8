"""What everybody in a run shares: the time, the trace, and the first promise that was broken."""

import asyncio
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any, TypeVar

from tests.sim import invariants
from tests.sim.history import History
from tests.sim.invariants import Violation
from tests.sim.loop import SimLoop
from tests.sim.scenario import DiskTrouble, Scenario

F = TypeVar("F")

START = 1000.0
"""The loop's time at the beginning."""


class Course:
    def __init__(self, scenario: Scenario, loop: SimLoop) -> None:
        self.scenario, self.loop = scenario, loop
        self.history = History(scenario.settings, lambda: self.now)
        self.trace: list[str] = []
        self.violation: Violation | None = None
        self.over = asyncio.Event()
        self._by_kind: dict[type, list[tuple[Any, float]]] = {}
        for fault in scenario.faults:
            until = getattr(fault, "until", None)
            self._by_kind.setdefault(type(fault), []).append((fault, inf if until is None else until))

    @property
    def now(self) -> float:
        """Seconds from the start."""
        return self.loop.now - START

    def tell(self, text: str) -> None:
        self.trace.append(f"{self.now:.6f} {text}")

    def check(self, violations: Iterable[Violation]) -> None:
        """The first broken promise ends the run."""
        if self.violation is None and (found := invariants.first(violations)) is not None:
            self.violation = found
            self.tell(f"VIOLATION {found}")
            self.over.set()

    async def until(self, at: float) -> None:
        if at > self.now:
            await asyncio.sleep(at - self.now)

    def lasting(self, kind: type[F]) -> Iterator[F]:
        """The faults of this kind that hold now."""
        now = self.now
        for fault, until in self._by_kind.get(kind, ()):
            if fault.at > now:
                return  # they are in order
            if now < until:
                yield fault

    @property
    def disk_was_bad(self) -> bool:
        """Now, or so shortly before that it is still being told."""
        now = self.now
        return any(it.at <= now < until + 900 for it, until in self._by_kind.get(DiskTrouble, ()))
