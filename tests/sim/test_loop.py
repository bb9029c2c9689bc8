"""Virtual time, and that nothing real is waited for."""

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.sim.conftest import Lab
from tests.sim.loop import Deadlock, WouldBlock

DAYS = 30 * 86400.0


# ---------------------------------------------------------------- time
def test_days_pass_without_waiting(lab: Lab) -> None:
    before, started = lab.loop.time(), time.monotonic()
    lab.run(asyncio.sleep(DAYS))
    assert lab.loop.time() - before == pytest.approx(DAYS)
    assert time.monotonic() - started < 5


def test_callbacks_run_in_the_order_of_their_instants_and_of_their_making(lab: Lab) -> None:
    ran: list[tuple[float, int]] = []
    made = [(float(number * 7 % 5), number) for number in range(100)]
    for delay, number in made:
        lab.loop.call_at(2000.0 + delay, ran.append, (delay, number))
    lab.loop.call_soon(ran.append, (-1.0, 0))
    lab.run(asyncio.sleep(2000))
    assert ran == [(-1.0, 0), *sorted(made)]


def test_time_goes_on_even_where_it_is_too_small_for_wall_time(lab: Lab) -> None:
    async def wait() -> set[float]:
        seen = set()
        for _ in range(5):
            await asyncio.sleep(1e-12)
            seen.add(1_800_000_000.0 + lab.loop.time())
        return seen

    assert len(lab.run(wait())) == 5


def test_a_cancelled_timer_neither_runs_nor_moves_time(lab: Lab) -> None:
    ran: list[str] = []
    lab.loop.call_later(10, ran.append, "too early").cancel()
    lab.loop.call_later(20, ran.append, "too late")
    before = lab.loop.time()
    lab.run(asyncio.sleep(15))
    assert (ran, lab.loop.time() - before) == ([], pytest.approx(15))


def test_timeouts_end_in_virtual_time(lab: Lab) -> None:
    async def wait() -> None:
        async with asyncio.timeout(DAYS):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        lab.run(wait())


def test_a_wait_for_what_never_comes_is_said(lab: Lab) -> None:
    with pytest.raises(Deadlock, match="nothing is scheduled"):
        lab.run(asyncio.Event().wait())


# ---------------------------------------------------------------- what would block
def connects() -> None:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


CALLS: dict[str, Callable[[], object]] = {
    "time.sleep": lambda: time.sleep(0),
    "threading.Thread.start": lambda: threading.Thread(target=print).start(),
    "subprocess.Popen": lambda: subprocess.Popen(["true"]),
    "os.system": lambda: os.system("true"),
    "socket.connect": connects,
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 25),
    "socket.gethostbyname": lambda: socket.gethostbyname("localhost"),
}
AWAITED: dict[str, Callable[[asyncio.AbstractEventLoop], Any]] = {
    "getaddrinfo('localhost')": lambda loop: loop.getaddrinfo("localhost", 25),
    "getaddrinfo('dead.beef')": lambda loop: loop.getaddrinfo("dead.beef", 25),
    "run_in_executor": lambda _: asyncio.to_thread(print),
    "subprocess_exec": lambda _: asyncio.create_subprocess_exec("true"),
    "subprocess_shell": lambda _: asyncio.create_subprocess_shell("true"),
    "add_reader": lambda loop: loop.add_reader(0, print),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_call_that_would_block_names_itself_and_is_remembered(lab: Lab, call: str, swallowed: bool) -> None:
    async def work() -> None:
        with contextlib.suppress(Exception) if swallowed else pytest.raises(WouldBlock, match=call):
            CALLS[call]()

    lab.run(work())
    assert len(lab.loop.blocked) == 1
    assert lab.loop.blocked[0].startswith(call)


@pytest.mark.parametrize("call", AWAITED)
def test_an_awaited_call_that_would_block_names_itself_and_is_remembered(lab: Lab, call: str) -> None:
    async def work() -> None:
        await AWAITED[call](lab.loop)

    with pytest.raises(WouldBlock):
        lab.run(work())
    assert len(lab.loop.blocked) == 1
    assert call in lab.loop.blocked[0]


def test_an_address_needs_no_name_service(lab: Lab) -> None:
    for address in ("192.0.2.1", "2001:db8::1"):
        assert lab.run(lab.loop.getaddrinfo(address, 25))[0][4][:2] == (address, 25)
    assert lab.loop.blocked == []


def test_outside_of_a_simulation_everything_may_wait(lab: Lab) -> None:
    time.sleep(0)
    assert subprocess.run(["true"], check=False).returncode == 0
    assert lab.loop.blocked == []


# ---------------------------------------------------------------- machines
def test_what_a_machine_has_scheduled_never_runs_after_its_crash(lab: Lab) -> None:
    machine, ran = lab.machine(), []

    async def work() -> None:
        lab.loop.call_later(5, ran.append, "a timer")
        lab.loop.call_soon(lab.loop.call_soon, ran.append, "soon, from what was soon")
        try:
            await asyncio.sleep(3)
            ran.append("a task")
        finally:
            ran.append("its end")

    async def watch() -> None:
        task = lab.spawn(machine, work())
        task.add_done_callback(ran.append)
        await asyncio.sleep(0)
        machine.crash()
        await asyncio.sleep(60)
        assert not task.done()
        assert machine.tasks() == [task]

    lab.run(watch())
    assert ran == []


def test_a_dead_machines_future_wakes_nobody_there(lab: Lab) -> None:
    machine, ran = lab.machine(), []

    async def watch() -> None:
        promised = lab.loop.create_future()

        async def wait() -> None:
            ran.append(await promised)

        lab.spawn(machine, wait())
        await asyncio.sleep(1)
        machine.crash()
        promised.set_result("too late")
        await asyncio.sleep(1)

    lab.run(watch())
    assert ran == []


@pytest.mark.parametrize("count", [1, 3])
def test_a_crash_at_a_step_comes_before_it(lab: Lab, count: int) -> None:
    machine, ran = lab.machine(), []

    async def watch() -> None:
        machine.armed = ("step", count)
        for number in range(5):
            lab.on(machine, lab.loop.call_soon, ran.append, number)
        await asyncio.sleep(1)

    lab.run(watch())
    assert ran == list(range(count - 1))
    assert not machine.alive


def test_other_machines_and_the_world_live_on(lab: Lab) -> None:
    one, other, ran = lab.machine(), lab.machine(), []

    async def watch() -> None:
        for machine in (one, other):
            lab.on(machine, lab.loop.call_later, 1, ran.append, machine)
        one.crash()
        await asyncio.sleep(2)

    lab.run(watch())
    assert ran == [other]
    assert other.alive


def test_tasks_that_end_are_forgotten(lab: Lab) -> None:
    machine = lab.machine()

    async def watch() -> None:
        await lab.spawn(machine, asyncio.sleep(1))
        assert not machine.tasks()

    lab.run(watch())
