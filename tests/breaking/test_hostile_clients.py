"""Clients that are too many, too slow or too much: a real daemon keeps its memory, and its service for others."""

import asyncio
import contextlib
import resource
from pathlib import Path
from socket import SO_RCVBUF, SOL_SOCKET
from typing import Any

import pytest

from tests.e2e.world import World
from tests.support.daemon import Daemon, until
from tests.support.smtp_client import SmtpClient

ATTEMPTS = 10_000
AT_ONCE = 1_000
LIMIT = 500
MIB = 2**20
CROWD = 100
LARGE = 25 * MIB - 1000
CEILING = 300 * MIB


def resident(daemon: Daemon, field: str = "VmRSS") -> int:
    """Octets of the daemon and its spool's process; "VmHWM" is the most there ever was."""
    of_spool = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    pages = [Path(f"/proc/{pid}/status").read_text().partition(f"{field}:")[2].split()[0] for pid in (daemon.pid, *of_spool)]
    return sum(map(int, pages)) * 1024


async def serves(daemon: Daemon) -> bool:
    """SES-27: another client gets its mail through."""
    return bool(await daemon.submit("ann@good.test"))


@pytest.fixture
def many_files() -> None:
    """Sockets enough, as far as the limit of this process can go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * AT_ONCE + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * AT_ONCE, hard), hard))


@pytest.mark.usefixtures("many_files")
async def test_ten_thousand_connections(world: World) -> None:
    """SES-27: in waves that stay open; beyond the limit 421, and memory does not follow."""
    world.configure("submission", max_connections=LIMIT)
    await world.mx("good.test")
    await world.daemon.start()
    greetings = {"220": 0, "421": 0}
    for wave in range(ATTEMPTS // AT_ONCE):
        clients = await asyncio.gather(*(SmtpClient.connect(world.daemon.endpoint) for _ in range(AT_ONCE)))
        for client in clients:
            greetings[client.greeting[:3]] += 1
            assert client.greeting.startswith(("220 ", "421 4.3.2 mail.out.test "))
        if wave == 0:
            start = resident(world.daemon)
            assert sum(client.greeting.startswith("220") for client in clients) == LIMIT
        for client in clients:
            client.writer.close()
        await until(lambda: _sessions_end(world.daemon))
    assert sum(greetings.values()) == ATTEMPTS and greetings["220"] >= LIMIT
    assert resident(world.daemon) - start < 20 * MIB
    assert resident(world.daemon) < CEILING
    assert await serves(world.daemon)


async def _sessions_end(daemon: Daemon) -> bool:
    """Whether one more client is let in."""
    async with await daemon.client() as client:
        return client.greeting.startswith("220")


async def test_slow_clients_hold_up_nobody(world: World) -> None:
    """SES-25, SES-27: a drip in a command, one in a message, one that reads nothing; each ends with its time."""
    world.configure("submission", timeout="2s")
    await world.mx("good.test")
    await world.daemon.start()
    async with await world.daemon.client() as in_message, await world.daemon.client() as in_command:
        await in_message.envelope()
        said = asyncio.create_task(in_command.reply())  # before a later drip meets a closed door
        drips = [asyncio.create_task(_drip(client)) for client in (in_message, in_command)]
        for _ in range(5):
            assert await serves(world.daemon)
        async with await world.daemon.client() as silent:
            assert (await silent.reply()).startswith("421 4.4.2 ")
        for drip in drips:
            drip.cancel()
        assert (await said).startswith("421 4.4.2 ")
    await until(world.daemon.idle)
    assert await serves(world.daemon)


async def _drip(client: SmtpClient) -> None:
    """An octet now and then, of a line that never ends."""
    with contextlib.suppress(ConnectionError):
        while True:
            await client.send(b"x")
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("before", "piece", "reply"),
    [
        ([], b"NOOP xxxxxxxx " * 1000, "500 5.5.2"),
        (["DATA"], b"x" * 16_384, "55"),
        (["DATA"], b"X-Header: " + b"x" * 60 + b"\r\n", "55"),
        (["DATA"], b"X-Folded: x\r\n" + b"\tfolded\r\n" * 1000, "55"),
        (["DATA"], b"\r\n" * 8192, "55"),
        (["DATA"], b"\n.\n" * 4096, "55"),
    ],
    ids=["command", "text line", "header", "folded field", "empty lines", "dots"],
)
async def test_what_never_ends_is_not_kept(world: World, before: list[str], piece: bytes, reply: str) -> None:
    """LIN-11, LIN-15, DAT-06: a hundred megabytes of it."""
    await world.daemon.start()
    async with await world.daemon.client() as client:
        if before:
            await client.envelope()
        start = resident(world.daemon)
        block = piece * (2**20 // len(piece) + 1)
        for _ in range(100):
            await client.send(block)
        assert resident(world.daemon) - start < 40 * MIB
        await client.send(b"\r\n.\r\n" if before else b"\r\n")
        assert (await client.reply()).startswith(reply)
        assert (await client.command("NOOP")).startswith("250 ")


@pytest.mark.parametrize("line", [b"EHLO client.test\r\n", b"MAIL FROM:<>\r\nRSET\r\n"])
async def test_endless_commands_without_reading_are_bounded(world: World, line: bytes) -> None:
    """EXT-07: a client that never reads its replies fills its own buffers, then is not read any more."""
    world.configure("submission", timeout="2s")
    await world.daemon.start()
    client = await world.daemon.client()
    client.writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
    start = resident(world.daemon)
    sending = asyncio.create_task(_send_for_ever(client, line * 4000))
    for _ in range(3):
        assert await _answers(world.daemon)
    assert resident(world.daemon) - start < 20 * MIB
    await until(lambda: sending.done())
    client.writer.transport.abort()
    assert await _answers(world.daemon)


async def _send_for_ever(client: SmtpClient, block: bytes) -> None:
    client.writer.transport.set_write_buffer_limits(high=2**16)
    with contextlib.suppress(ConnectionError):
        while True:
            await client.send(block)


async def _answers(daemon: Daemon) -> bool:
    async with await daemon.client() as client:
        return (await client.command("NOOP")).startswith("250 ")


@pytest.mark.timeout(600)
async def test_a_hundred_clients_with_25_mib_each(world: World, record_property: Any) -> None:
    """Sent in step with each other, the process stays below 300 MB, and each message is taken."""
    world.configure("submission", max_message_size="25MiB")
    await world.daemon.start()
    await world.daemon.ask("hold --all")
    line = b"1234567890123456789012345678901234567890123456789012345678901234567890123456\r\n"
    block = line * (MIB // len(line))
    clients = await asyncio.gather(*(world.daemon.client() for _ in range(CROWD)))
    await asyncio.gather(*(client.envelope() for client in clients))
    for at in range(LARGE // len(block)):
        await asyncio.gather(*(client.send(b"From: <a@b.test>\r\n\r\n" * (at == 0) + block) for client in clients))
    await asyncio.gather(*(client.send(b".\r\n") for client in clients))
    replies = [await _final(client) for client in clients]
    peak = resident(world.daemon, "VmHWM")
    record_property("figure", f"{CROWD} clients at once with {LARGE // MIB} MiB each: at most {peak // MIB} MiB resident")
    assert {reply[:23] for reply in replies} == {"250 2.0.0 Ok: queued as"}
    assert peak < CEILING
    for client in clients:
        client.writer.close()


async def _final(client: SmtpClient) -> str:
    """Commits take their turn: longer than a reply is otherwise waited for."""
    async with asyncio.timeout(400):
        line = await client.reader.readline()
    return line.decode()
