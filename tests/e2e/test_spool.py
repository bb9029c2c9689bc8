"""The spool in a daemon's life: area L of the field cases, and B49."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.world import World
from tests.support.daemon import Ended, mta, run, until

NOBODY = 65534
AS_NOBODY = f"""
import os
from mta.spool.process.client import SpoolProcess
start = SpoolProcess.__init__
def as_nobody(self, *arguments):
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
    start(self, *arguments)
SpoolProcess.__init__ = as_nobody
"""
"""Behind the imports, since Python or the checkout may be readable for root alone."""


async def test_b44_persons_programs_and_deliveries_never_meet_a_lock(world: World) -> None:
    """A loop of lists, 50 submissions at once, 20 sessions, for some seconds: nobody is turned away."""
    mx = await world.mx("good.test")
    world.configure("delivery", max_sessions=20)
    daemon = world.daemon
    await daemon.start()
    loop = asyncio.get_running_loop()
    end = loop.time() + 4

    async def look() -> None:
        while loop.time() < end:
            assert "error" not in await daemon.json("queue")
            assert (await daemon.cli("queue")).code == 0

    async def submit(number: int) -> int:
        count = 0
        while loop.time() < end:
            await daemon.submit(f"s{number}m{count}@good.test")
            count += 1
        return count

    *counts, _ = await asyncio.gather(*(submit(number) for number in range(50)), look())
    await until(daemon.idle)
    arrived = [path for message in mx.messages for path in message.forward_paths]
    assert len(arrived) == len(set(arrived)) == sum(counts)
    assert not daemon.logged("trouble", level="error") and "locked" not in daemon.log_text


async def test_b44_a_lock_that_another_program_keeps_is_451_and_passes(running: World) -> None:
    daemon = running.daemon
    await daemon.submit("first@shop.test")
    await until(daemon.idle)
    with running.spool() as spool:
        spool.execute("BEGIN IMMEDIATE")
        reply = await daemon.reply("ann@shop.test")
        spool.execute("ROLLBACK")
    assert reply.startswith("451 4.3.0 ")
    await daemon.submit("ann@shop.test")
    await until(daemon.idle)
    assert len(running.mail_for("ann@shop.test")) == 1


async def test_b44_a_result_is_recorded_although_the_spool_fails_for_a_while(running: World) -> None:
    """It is sent once; the process remembers until the spool takes it."""
    mx, daemon = await running.mx("good.test"), running.daemon
    with running.failing("recipients", "NEW.status = 'sent'", "UPDATE"):
        queue_id = await daemon.submit("ann@good.test")
        await until(lambda: daemon.logged("trouble", level="error"))
    await until(lambda: daemon.has(queue_id, "sent"))
    assert len(mx.messages) == 1
    assert len(daemon.logged("trouble", level="error")) == 1


async def _with_umask(umask: str, *command: str) -> Ended:
    return await run("sh", "-c", f'umask {umask}; exec "$@"', "sh", *command)


@pytest.mark.root
@pytest.mark.parametrize("umask", ["022", "077"])
async def test_b46_a_command_of_roots_leaves_nothing_in_a_stopped_daemons_way(world: World, umask: str) -> None:
    daemon = world.daemon
    daemon.preamble = AS_NOBODY
    for path in (world.folder, *world.folder.iterdir()):
        shutil.chown(path, NOBODY, NOBODY)
    await daemon.start()
    await daemon.submit(f"ann@[{world.home.address}]")
    await until(daemon.idle)
    await daemon.stop()
    before = _owners(world.folder)
    for words in (("status",), ("queue", "--json"), ("retry", "--all")):
        ended = await _with_umask(umask, *mta(), *words, "--config", str(daemon.file))
        assert ended.code == 69 and "is it running" in ended.err
    assert _owners(world.folder) == before
    await daemon.start()
    await daemon.submit(f"bob@[{world.home.address}]")
    await until(daemon.idle)
    assert len(world.home.messages) == 2


@pytest.mark.root
async def test_b46_a_file_that_is_not_the_daemons_is_named_at_the_start(world: World) -> None:
    daemon = world.daemon
    for path in (world.folder, *world.folder.iterdir()):
        shutil.chown(path, NOBODY, NOBODY)
    await daemon.start()
    await daemon.stop()
    daemon.preamble = AS_NOBODY
    await daemon.launch()
    assert await daemon.exited() != 0
    (line,) = [line for line in daemon.log_text.splitlines() if line.startswith("mta: ")]
    assert str(world.folder / "spool.db") in line and "writable" in line


def _owners(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_uid, path.stat().st_mode) for path in folder.iterdir() if path.name != "log"}


DAMAGES = (
    "DELETE FROM content WHERE id >> 20 = ?",
    "UPDATE content SET chunk = NULL WHERE id >> 20 = ?",
    "UPDATE recipients SET address = '' WHERE id >> 20 = ?",
    "UPDATE messages SET class = 'x' WHERE id = ?",
    "UPDATE messages SET reverse_path = X'FF00' WHERE id = ?",
    "UPDATE messages SET octets = NULL, accepted_at = 'never' WHERE id = ?",
)


async def test_b49_damaged_rows_are_set_apart_and_shown_and_the_good_ones_go(running: World) -> None:
    mx, daemon = await running.mx("good.test"), running.daemon
    await daemon.ask("hold --all")
    bad = [await daemon.submit(f"bad{number}@good.test") for number in range(len(DAMAGES))]
    good = [await daemon.submit(f"ok{number}@good.test") for number in range(10)]
    await daemon.stop()
    with running.spool() as spool:
        for queue_id, damage in zip(bad, DAMAGES, strict=True):
            (row,) = spool.execute("SELECT id FROM messages WHERE queue_id = ?", (queue_id,)).fetchone()
            spool.execute(damage, (row,))
    await daemon.start()
    await daemon.ask("release --all")
    for queue_id in good:
        await until(lambda queue_id=queue_id: daemon.has(queue_id, "sent"))
    await until(lambda: _damaged(running, len(bad)))
    assert {path for it in mx.messages if it.code for path in it.forward_paths} == {f"ok{n}@good.test" for n in range(10)}
    await daemon.restart()
    assert {it["queue_id"] for it in (await daemon.json("dead"))["messages"]} == set(bad)
    for queue_id in bad:
        assert (await daemon.show(queue_id))["damaged"]
    for command in ("status", "queue", "dead"):
        assert (await daemon.cli(command)).code == 0
    assert not running.bounces()


async def _damaged(world: World, count: int) -> bool:
    return (await world.daemon.json("status"))["damaged"] == count


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _from_the_future(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[60:64] = (99).to_bytes(4, "big")  # user_version
    path.write_bytes(data)


@pytest.mark.parametrize("spoil", [_garbage, _empty, _from_the_future])
async def test_b49_an_unreadable_spool_is_refused_and_left_alone(running: World, spoil: Callable[[Path], None]) -> None:
    daemon, path = running.daemon, running.folder / "spool.db"
    await daemon.stop()
    spoil(path)
    before = path.read_bytes()
    await daemon.launch()
    assert await daemon.exited() not in (0, None)
    (line,) = [line for line in daemon.log_text.splitlines() if line.startswith("mta: ")]
    assert str(path) in line and "left as it" in line
    assert path.read_bytes() == before
