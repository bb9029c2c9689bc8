"""The power is cut (B48): what was not synced is gone. What was acknowledged is there, and a recorded "sent" is not
forgotten, so not sent again."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator

import pytest

from tests.crash.disk import Disk
from tests.e2e.world import World
from tests.spool.house import House
from tests.spool.invariants import check
from tests.support.daemon import until
from tests.support.mx import Hold

CUTS, SUBMITTERS = 5, 4


async def cut(world: World, disk: Disk) -> None:
    """Off, and on again."""
    await world.daemon.stop(signal.SIGKILL)
    disk.lose_power()
    await world.daemon.start()


@pytest.fixture
async def running(world: World, disk: Disk) -> AsyncIterator[World]:
    """From the birth of its spool on with this disk."""
    await world.daemon.start()
    yield world
    await world.daemon.stop()
    check(House(disk.folder))


async def test_b48_cut_right_after_the_250_the_message_is_there(running: World, disk: Disk) -> None:
    """The first one of a new spool too, whose files have just got their names."""
    daemon, mx = running.daemon, await running.mx("x.test")
    await daemon.ask("hold --all")
    names = ["first@x.test", "second@x.test", "third@x.test"]
    for name in names:
        queue_id = await daemon.submit(name)
        await cut(running, disk)
        assert await daemon.recipient(queue_id)
    assert not mx.messages, "the standing order was durable too"
    await daemon.ask("release --all")
    await until(daemon.idle)
    assert sorted(message.forward_paths[0] for message in mx.messages) == names


async def test_b48_cut_after_the_result_is_shown_it_stands(running: World, disk: Disk) -> None:
    """A delivery, and a failure whose DSN has gone out."""
    daemon, mx = running.daemon, await running.mx("x.test")
    bad = await running.mx("bad.test", script={"RCPT": "550 5.1.1 no"})
    sent, failed = await daemon.submit("ann@x.test"), await daemon.submit("bob@bad.test")
    await until(lambda: daemon.has(sent, "sent"))
    await until(lambda: daemon.has(failed, "failed"))
    await until(lambda: len(running.home.messages) == 2)  # the DSN and the report
    await until(daemon.idle)
    await cut(running, disk)
    assert await daemon.has(sent, "sent") and await daemon.has(failed, "failed")
    await until(daemon.idle)
    await daemon.submit("late@x.test")
    await until(daemon.idle)
    assert [message.forward_paths[0] for message in mx.messages] == ["ann@x.test", "late@x.test"]
    assert len(running.home.messages) == 2 and len(bad.connections) == 1


async def test_b48_b57_cut_between_the_dot_and_its_reply_the_doubt_is_known(running: World, disk: Disk) -> None:
    stuck = Hold("250 2.0.0 ok")
    daemon, mx = running.daemon, await running.mx("x.test", script={"FINAL": [stuck]})
    queue_id = await daemon.submit("ann@x.test")
    await stuck.reached.wait()
    await cut(running, disk)
    assert (await daemon.has(queue_id, "in_doubt") or {}).get("doubts") == 1
    await daemon.submit("late@x.test")
    await until(lambda: len(mx.messages) == 2)
    assert [message.forward_paths[0] for message in mx.messages] == ["ann@x.test", "late@x.test"]


async def test_b48_b58_cut_again_and_again_under_load(running: World, disk: Disk) -> None:
    """All that was acknowledged is sent or, held, in doubt; none arrives twice."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    daemon, mx = running.daemon, await running.mx("x.test")
    acknowledged: dict[str, str] = {}

    async def submit(name: str) -> None:
        number = 0
        while True:
            address = f"{name}.{number}@x.test"
            try:
                acknowledged[address] = await daemon.submit(address)
            except OSError:
                return
            number += 1

    for turn in range(CUTS):
        wanted = len(acknowledged) + chance.randrange(5, 40)
        submitters = [asyncio.create_task(submit(f"{turn}.{n}")) for n in range(SUBMITTERS)]
        await until(lambda wanted=wanted: len(acknowledged) >= wanted)
        shown = [queue_id for queue_id in chance.sample([*acknowledged.values()], 5) if await daemon.has(queue_id, "sent")]
        await cut_under(running, disk, submitters)
        for queue_id in shown:
            assert await daemon.has(queue_id, "sent")
    await until(lambda: settled(running))
    copies = [message.forward_paths[0] for message in mx.messages]
    assert len(copies) == len(set(copies))
    for address, queue_id in acknowledged.items():
        status = (await daemon.recipient(queue_id))["status"]
        assert status == "in_doubt" or (status == "sent" and address in copies)


async def cut_under(world: World, disk: Disk, submitters: list[asyncio.Task[None]]) -> None:
    await world.daemon.stop(signal.SIGKILL)
    await asyncio.gather(*submitters)
    disk.lose_power()
    await world.daemon.start()


async def settled(world: World) -> bool:
    counts = await world.daemon.counts()
    return not counts["pending"] and not counts["sending"]
