"""What everybody in a run shares: the time, the trace, and the first promise that was broken."""

import asyncio
from collections.abc import Iterable, Iterator

from tests.sim import invariants
from tests.sim.invariants import Violation
from tests.sim.scenario import DiskTrouble, Fault, Scenario

START = 1000.0
"""The loop's time at the beginning."""
EPOCH = 1_800_000_000.0
"""Wall time at the beginning."""


class Course:
    def __init__(self, scenario: Scenario, loop: asyncio.AbstractEventLoop) -> None:
        self.scenario, self.loop = scenario, loop
        self.trace: list[str] = []
        self.violation: Violation | None = None
        self.over = asyncio.Event()
        self._disk_troubles = [it for it in scenario.faults if isinstance(it, DiskTrouble)]

    @property
    def now(self) -> float:
        """Seconds from the start."""
        return self.loop.time() - START

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

    def lasting(self, *kinds: type) -> Iterator[Fault]:
        """The faults of these kinds that hold now."""
        now = self.now
        for fault in self.scenario.faults:
            if fault.at > now:
                return  # they are in order
            if isinstance(fault, kinds):
                until = getattr(fault, "until", None)
                if until is None or now < until:
                    yield fault

    @property
    def disk_was_bad(self) -> bool:
        """Now, or so shortly before that it is still being told."""
        now = self.now
        return any(it.at <= now < it.until + 900 for it in self._disk_troubles)
