"""The spool's own process: what a person and the service manager see of it when it, or its daemon, is killed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mta.control.errors import Exit
from tests.e2e.test_stop import half_submitted
from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.mx import Hold


def spool_process(daemon: int) -> int:
    (process,) = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    return int(process)


@contextlib.contextmanager
def at_rest(daemon: int) -> Iterator[None]:
    """As with a disk that does not answer."""
    process = spool_process(daemon)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


async def gone(process: int) -> None:
    """Until it has ended; who reaps it is the system's business."""

    def state() -> str:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return "X"

    await until(lambda: state() in "XZ")


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
    assert "the spool's process ended by itself" in daemon.log_text and "SIGKILL" in daemon.log_text
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


async def test_a_disk_that_does_not_answer_holds_up_who_needs_it_and_nobody_else(world: World) -> None:
    daemon = world.daemon
    await daemon.start()
    with at_rest(daemon.pid):
        waiting = [asyncio.create_task(it) for it in (daemon.submit("ann@shop.test"), daemon.counts())]
        async with await daemon.client() as client:
            assert (await client.command("NOOP")).startswith("250")
        assert not any(it.done() for it in waiting)
    await asyncio.gather(*waiting)
    await until(daemon.idle)
    assert len(world.mail_for("ann@shop.test")) == 1
    assert not daemon.warnings


async def test_a_stop_waits_for_the_disk_and_what_was_behind_the_dot_is_answered(world: World) -> None:
    daemon = world.daemon
    await daemon.start()
    with at_rest(daemon.pid):
        client = await half_submitted(daemon, "ann@shop.test")
        await client.send(b"x\r\n.\r\n")
        daemon.send(signal.SIGTERM)
        await daemon.notified("STOPPING=1")
    assert (await client.reply()).startswith("250 2.0.0 Ok: queued as ")
    client.writer.close()
    assert await daemon.exited() == 0
    assert not daemon.logged("trouble", level="error")


async def test_one_that_is_killed_while_the_daemon_waits_for_it_to_end_is_told(world: World) -> None:
    daemon = world.daemon
    await daemon.start()
    with at_rest(daemon.pid):
        daemon.send(signal.SIGTERM)
        await until(lambda: not daemon.control.exists())
        os.kill(spool_process(daemon.pid), signal.SIGKILL)
        await daemon.exited()
    assert "the spool did not stop in order" in daemon.log_text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_both_is_an_orderly_stop(world: World, number: signal.Signals) -> None:
    daemon = world.daemon
    await daemon.start()
    process = spool_process(daemon.pid)
    os.kill(process, number)
    await daemon.submit("ann@shop.test")
    daemon.send(number)
    assert await daemon.exited() == 0
    await gone(process)


async def test_a_hangup_of_both_is_a_reload(world: World) -> None:
    daemon = world.daemon
    await daemon.start()
    os.kill(spool_process(daemon.pid), signal.SIGHUP)
    await daemon.reload()
    assert await daemon.submit("ann@shop.test")


async def test_a_second_daemon_names_the_first_which_is_whom_to_stop(world: World) -> None:
    daemon = world.daemon
    await daemon.start()
    refused = await daemon.cli("serve")
    assert refused.code == Exit.TRY_LATER
    assert f"in use by another daemon (process {daemon.pid}; its spool's is {spool_process(daemon.pid)})" in refused.err


@pytest.mark.parametrize("where", [
    {"submission": {"listen": ["203.0.113.9:2525"]}},
    {"submission": {"tls": {"certificate": "/nowhere", "key": "/nowhere"}}},
    {"submission": {"users_file": "/nowhere"}},
], ids=["port", "certificate", "users"])  # fmt: skip
async def test_a_start_that_fails_leaves_no_process_behind(world: World, where: dict[str, dict[str, object]]) -> None:
    daemon = world.daemon
    record = world.folder / "pid"
    daemon.preamble = f"""
from mta.spool.process.client import SpoolProcess
begin = SpoolProcess._begin
def _begin(self, *sockets):
    pid = begin(self, *sockets)
    open({str(record)!r}, "w").write(str(pid))
    return pid
SpoolProcess._begin = _begin
"""
    for table, values in where.items():
        world.configure(table, **values)
    await daemon.launch()
    assert await daemon.exited() != 0
    await gone(int(record.read_text()))
