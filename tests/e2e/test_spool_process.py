"""The spool's own process: what a person and the service manager see of it when it, or its daemon, is killed."""

import os
import signal
from pathlib import Path

from mta.control.errors import Exit
from tests.e2e.world import World
from tests.support.mx import Hold


def spool_process(daemon: int) -> int:
    (process,) = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    return int(process)


async def test_it_is_told_apart_from_the_daemon(world: World) -> None:
    await world.daemon.start()
    process = spool_process(world.daemon.pid)
    assert Path(f"/proc/{process}/comm").read_text() == "mta-spool\n"


async def test_it_keeps_nothing_that_was_opened_for_the_daemon(world: World) -> None:
    await world.daemon.start()
    process = spool_process(world.daemon.pid)
    inodes = {os.stat(f"/proc/{process}/fd/{number}").st_ino for number in os.listdir(f"/proc/{process}/fd")}
    listening = {
        int(line.split()[9]) for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    }
    assert not inodes & listening


async def test_the_daemon_ends_with_it_so_that_both_are_started_anew(world: World) -> None:
    daemon = world.daemon
    await daemon.start()
    os.kill(spool_process(daemon.pid), signal.SIGKILL)
    assert await daemon.exited() == Exit.INTERNAL
    assert "the spool's process" in daemon.log_text
    assert "Traceback" not in daemon.log_text
    await daemon.start()
    assert await daemon.submit("ann@shop.test")


async def test_what_was_behind_the_dot_when_it_was_killed_is_in_doubt(world: World) -> None:
    reply = Hold("250 2.0.0 Ok: queued as LATE")
    await world.mx("far.test", script={"FINAL": [reply]})
    world.configure("delivery", in_doubt="hold")
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@far.test")
    await reply.reached.wait()
    os.kill(spool_process(daemon.pid), signal.SIGKILL)
    await daemon.exited()
    await daemon.start()
    assert (await daemon.show(queue_id))["recipients"][0]["status"] == "in_doubt"


async def test_it_ends_with_a_daemon_that_is_killed_and_the_next_one_starts_at_once(world: World) -> None:
    daemon = world.daemon
    for _ in range(5):
        await daemon.start()
        await daemon.stop(signal.SIGKILL)
    await daemon.start()
    assert await daemon.submit("ann@shop.test")
