"""An event loop whose clock jumps to the next timer when nothing else is to do: hours pass in milliseconds.

For code without threads and real sockets. A wait for something that can never come is a failure, not a hang.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise AssertionError("the test waits for something that can't come: nothing is scheduled")
        self.now += max(timeout, 1e-6)  # wall time has no finer grain
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jumping.now


class VirtualClock:
    """Wall time that goes with the virtual loop; `step` is how far it was set off."""

    def __init__(self, epoch: float = 1_800_000_000.0) -> None:
        self.epoch, self.step = epoch, 0.0

    def now(self) -> float:
        return self.epoch + self.step + asyncio.get_running_loop().time() - 1000.0


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs to the end in virtual time; tasks that are left are cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


async def until(condition: Any, limit: float = 3600.0, step: float = 0.05) -> None:
    """Virtual seconds pass until `condition()` is true; fails after `limit` of them."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    while not condition():
        assert loop.time() < end, f"not within {limit} virtual seconds"
        await asyncio.sleep(step)
