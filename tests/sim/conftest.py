"""A world without a daemon: the simulation's loop and network, for the tests of its parts."""

import asyncio
import contextvars
import gc
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from tests.sim.loop import MACHINE, Machine, SimLoop
from tests.sim.network import End, Network

T = TypeVar("T")


class Lab:
    def __init__(self) -> None:
        self.network = Network(random.Random(7))
        self.loop = self.network.loop = SimLoop(self.network)
        self.failures: list[dict[str, Any]] = []
        """What callbacks and tasks raised."""
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.unaware: list[End] = []
        """After a power cut: the other ends."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def machine(self, *, silently: bool = False) -> Machine:
        def crashed(machine: Machine) -> None:
            self.unaware += self.network.lose(machine, silently=silently)

        return Machine("machine", crashed)

    def on(self, machine: Machine, deed: Callable[..., T], *args: Any) -> T:
        """Calls it in the machine's context."""
        context = contextvars.copy_context()
        context.run(MACHINE.set, machine)
        return context.run(deed, *args)

    def spawn(self, machine: Machine, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.on(machine, self.loop.create_task, work)


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    assert not lab.failures
    for task in asyncio.all_tasks(lab.loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined] # those of dead machines never end
    lab.loop._ready.clear()
    lab.loop._scheduled.clear()
    lab.loop.close()
    lab.network.ends.clear()
    gc.collect()
