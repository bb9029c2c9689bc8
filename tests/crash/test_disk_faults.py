"""A disk that fails at the n-th write or sync, for each n of a message's life (area L of the field cases, B47).

One daemon lives through all of them: it is told nothing and not restarted, and every message arrives once.
"""

import errno
import os
import signal

import pytest

from tests.crash.disk import Disk
from tests.e2e.world import World
from tests.spool.house import House
from tests.spool.invariants import check
from tests.support.daemon import until
from tests.support.mx import ScriptedMx

REPLIES = {errno.EIO: ("451 4.3.0 ",), errno.ENOSPC: ("452 4.3.1 ", "451 4.3.0 ")}
"""What a client may hear beside 250. A sync that finds no space is an I/O error to SQLite."""
SPILLED = 1_200_000
"""Octets of a body that goes through a file."""


class Lives:
    """Messages through a disk, one after the other."""

    def __init__(self, world: World, disk: Disk, mx: ScriptedMx) -> None:
        self.world, self.disk, self.mx, self.body = world, disk, mx, b"hello\r\n"
        self.accepted: dict[str, str] = {}
        self.refused: list[str] = []

    async def one(self, address: str, legal: tuple[str, ...] = ()) -> None:
        """Submitted until it is taken, then until it is sent; what is refused is not there."""
        daemon = self.world.daemon
        while not (reply := await self._submitted(address)).startswith("250 2.0.0 Ok: queued as "):
            assert reply.startswith(legal), reply
            self.refused.append(reply)
            assert "error" in await daemon.json(f"show {address}"), "refused, and yet stored"
        self.accepted[address] = reply.split()[-1]
        await until(lambda: daemon.has(address, "sent"))

    async def _submitted(self, address: str) -> str:
        return await self.world.daemon.reply(address, body=self.body, headers=[f"Idempotency-Key: {address}"])

    async def length(self) -> int:
        """Writes and syncs of a whole life, at the least."""
        before = self.disk.calls
        await self.one("first@x.test")
        return self.disk.calls - before

    async def verify(self) -> None:
        """All accepted were sent, once, without a doubt, and it says so after a crash too."""
        daemon = self.world.daemon
        self.disk.mend()
        await daemon.restart(signal.SIGKILL)
        for address, queue_id in self.accepted.items():
            shown = await daemon.show(address)
            recipient = shown["recipients"][0]
            assert (shown["queue_id"], recipient["status"], recipient["doubts"]) == (queue_id, "sent", 0)
        arrived = [message.forward_paths[0] for message in self.mx.messages]
        assert sorted(arrived) == sorted(self.accepted)
        await daemon.stop()
        check(House(self.disk.folder))


@pytest.fixture
async def them(world: World, disk: Disk) -> Lives:
    mx = await world.mx("x.test")
    await world.daemon.start()
    return Lives(world, disk, mx)


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("error", REPLIES, ids=os.strerror)
async def test_b47_the_disk_fails_at_each_call_of_a_life(them: Lives, error: int, count: int) -> None:
    """`count` calls in a row, so that what is tried again fails again."""
    length = await them.length()
    for n in range(length):
        them.disk.fail(n, count, error)
        await them.one(f"n{n}@x.test", REPLIES[error])
    assert length > 30
    assert them.disk.failed > 0.8 * length  # a life's last calls may come when the next one is looked at
    assert them.refused and them.world.daemon.logged("trouble", level="error")
    await them.verify()


async def test_b47_the_disk_fails_while_a_large_message_is_written(them: Lives) -> None:
    """Every 29th call of about a thousand: the spilled content, its way into the spool, the results."""
    line = b"x" * 70 + b"\r\n"
    them.body = line * (SPILLED // len(line))
    length = await them.length()
    for n in range(0, length, 29):
        them.disk.fail(n, 3, errno.ENOSPC)
        await them.one(f"n{n}@x.test", REPLIES[errno.ENOSPC])
    assert length > 600
    assert len(them.refused) > 10
    await them.verify()


async def test_b47_a_result_that_can_not_be_recorded_is_tried_until_it_sticks(them: Lives) -> None:
    """The disk fails from the remote server's 250 on, until it is mended."""
    broken: list[int] = []

    def break_disk(_: str) -> str:
        them.disk.fail(0, 10**9)
        broken.append(1)
        return "250 2.0.0 Ok: queued as MX123"

    them.mx.script["FINAL"] = [break_disk]
    daemon = them.world.daemon
    queue_id = await daemon.submit("ann@x.test", headers=["Idempotency-Key: ann@x.test"])
    await until(lambda: broken and them.disk.failed > 20)
    assert (await daemon.reply("bob@x.test")).startswith("451 4.3.0 ")
    assert await daemon.has(queue_id, "sending")
    assert len(daemon.logged("trouble", level="error")) >= 1
    them.disk.mend()
    await until(lambda: daemon.has(queue_id, "sent"))
    them.accepted["ann@x.test"] = queue_id
    await them.verify()
