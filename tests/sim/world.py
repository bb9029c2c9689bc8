"""One run of a scenario: the daemon as it is, on a machine that crashes, between programs, servers and persons.

Rules: the world is everything but the daemon, and runs in a context of its own, so that the machine's end is not its
own. What happens is in the trace, in the order in which it happens; the same scenario has the same trace.
"""

import asyncio
import contextlib
import gc
import hashlib
import logging
import os
import random
import shutil
import sys
import tempfile
import warnings
from asyncio.sslproto import SSLProtocol
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mta.spool.base import SpoolError
from tests.sim import invariants, persons, programs
from tests.sim.computer import Computer
from tests.sim.course import START, Course
from tests.sim.disk import close_freed
from tests.sim.internet import Internet
from tests.sim.invariants import Violation
from tests.sim.ledger import Ledger
from tests.sim.loop import SimLoop, Task
from tests.sim.network import Network
from tests.sim.scenario import DAY, ClockStep, Crash, DiskTrouble, Fault, Order, Reload, Restart, Scenario

CLEARINGS = 5
MEMORY = "/dev/shm"
TLS_BUFFER = 16 * 1024
"""Octets that TLS reads at once, as many as a record has. asyncio's sixteen times as many, for each connection, would be
most of what a run touches of memory."""
LOOK = 300.0
"""Seconds between two looks at what grows and what waits."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a scenario went. `trace` ends with the violation, if there is one."""

    violation: Violation | None
    trace: list[str]
    digest: str
    crashes: int
    copies: int


class World:
    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.network = Network(random.Random(f"{scenario.seed}/network"))
        self.loop = SimLoop(self.network, START)
        self.network.loop = self.loop
        self.loop.set_exception_handler(self._exception)
        self.course = Course(scenario, self.loop)
        self.ledger = Ledger()
        self.computer = Computer(self.course, self.network, folder)
        self.internet = Internet(self.course, self.network, self.ledger, self.computer.spool_path)
        self.network.route = self.internet.route
        self._others: list[asyncio.Task[None]] = []

    def _exception(self, _loop: object, context: dict[str, Any]) -> None:
        """Nobody took an exception. What a dead machine's tasks do when they are cleared away is nothing, nor is what a bad
        disk answers to one that ends."""
        task = context.get("task") or context.get("future")
        machine = task.machine if isinstance(task, Task) else None
        of_the_disk = isinstance(context.get("exception"), SpoolError) and self.course.disk_was_bad
        if (machine is None or machine.alive) and not of_the_disk and not self.course.over.is_set():
            what = f"{context.get('message')}: {context.get('exception')!r} in {task!r}"
            self.course.check([Violation("nothing fails inside", what)])

    # ------------------------------------------------ the course of events
    async def run(self) -> None:
        course, scenario = self.course, self.scenario
        self.computer.start()
        for work in (self._submissions(), self._faults(), self._looks()):
            self._spawn(work)
        self.loop.call_at(START + scenario.heals_at, self._heal)
        self.loop.call_at(START + scenario.days * DAY, course.over.set)
        await course.over.wait()
        for task in self._others:
            task.cancel()
        if course.violation is None:
            await self._last_look()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._others.append(self.loop.create_task(work))

    async def _submissions(self) -> None:
        for email in self.scenario.emails:
            await self.course.until(email.at)
            self._spawn(programs.run(email, self.ledger, self.course.tell))

    async def _faults(self) -> None:
        for fault in self.scenario.faults:
            await self.course.until(fault.at)
            self.course.tell(f"fault {fault}")
            self._befall(fault)

    def _befall(self, fault: Fault) -> None:
        """Those that only last are asked for by whom they concern."""
        match fault:
            case Crash():
                self.computer.arm(fault)
            case Restart():
                self.computer.stop(fault.down)
            case Reload():
                self.computer.reload(fault.settings)
            case DiskTrouble():
                self.computer.suffer(fault)
            case ClockStep():
                self.computer.clock.offset += fault.by
            case Order():
                self._spawn(persons.give(fault, self.computer.config.control.socket, self.ledger, self.course))

    def _heal(self) -> None:
        self.course.tell("all that can heal has healed")
        self.computer.disarm()

    async def _looks(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            self.computer.look()

    async def _last_look(self) -> None:
        """The daemon ends in order; then the books are compared."""
        computer, course = self.computer, self.course
        computer.stop(0)
        while computer.daemon is not None:
            await asyncio.sleep(1.0)
        course.check(invariants.at_rest_in(computer.spool_path))
        end = invariants.at_the_end(computer.spool_path, self.ledger, self.scenario, course.history, computer.clock.now())
        course.check(end)
        if self.loop.blocked:
            course.check([Violation("nothing waits for the real world", ", ".join(self.loop.blocked))])


def play(scenario: Scenario) -> Run:
    """Runs a scenario to its end, or to the first broken promise."""
    folder = Path(tempfile.mkdtemp(prefix="mta-sim-", dir=_memory()))
    freed: list[int] = []
    with _undisturbed(scenario.seed), patch.object(SSLProtocol, "max_size", TLS_BUFFER), _clean_end(folder, freed):
        world = World(scenario, folder)
        try:
            asyncio.set_event_loop(world.loop)
            world.loop.run_until_complete(world.run())
            return _run(world)
        finally:
            world.course.over.set()
            world.internet.close()
            world.computer.disk.lose()
            freed += world.computer.disk.freed
            _clear(world.loop)
            del world


def _memory() -> str | None:
    """A file system without a disk below it, where there is one: no promise here rests on a real disk."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None


def _run(world: World) -> Run:
    trace = world.course.trace
    digest = hashlib.sha256("\n".join(trace).encode()).hexdigest()[:16]
    copies = sum(map(len, world.ledger.copies.values()))
    return Run(world.course.violation, trace, digest, world.computer.crashes, copies)


def _clear(loop: SimLoop) -> None:
    asyncio.set_event_loop(None)
    loop._ready.clear()
    loop._scheduled.clear()
    loop.set_exception_handler(lambda *_: None)
    loop.close()


@contextlib.contextmanager
def _undisturbed(seed: int) -> Iterator[None]:
    """When a cycle is collected is no part of a scenario, nor what a library draws or logs."""
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before is not looked at when the run is cleared away
    logging.disable()
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
        logging.disable(logging.NOTSET)
        gc.unfreeze()
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _clean_end(folder: Path, freed: list[int]) -> Iterator[None]:
    """What abandoned coroutines say while they are cleared away says nothing."""
    try:
        yield
    finally:
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(CLEARINGS):  # what a clearing ends may leave something for the next one
                if not gc.collect():
                    break
        sys.unraisablehook = hook
        close_freed(freed)
        shutil.rmtree(folder, ignore_errors=True)
