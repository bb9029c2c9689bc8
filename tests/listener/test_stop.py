"""Starting and stopping: the listener's half of B50, SES-24."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from mta.model.door import Door, Scheme
from tests.support.smtp_client import SmtpClient
from tests.support.submission import MemorySpool

Start = Callable[..., Any]
STOPPING = "421 4.3.2 mail.out.test Service is shutting down, closing connection"


async def refused(endpoint: tuple[str, int]) -> bool:
    try:
        _, writer = await asyncio.open_connection(*endpoint)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_b50_ses24_idle_sessions_hear_421_and_nobody_comes_in(start: Start) -> None:
    running = await start()
    endpoint = running.endpoint
    idle, between = await SmtpClient.connect(endpoint), await SmtpClient.connect(endpoint)
    await between.command("EHLO c.test")
    await between.command("MAIL FROM:<a@b.test>")
    await running.listener.stop(10)
    assert running.listener.sessions == 0
    for client in (idle, between):
        assert await client.reply() == STOPPING
        assert await client.at_end()
        client.writer.close()
    assert await refused(endpoint)


async def test_b50_content_on_its_way_may_arrive(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.envelope()
        await client.send(b"Subject: x\r\n")
        stopped = asyncio.create_task(running.listener.stop(10))
        await asyncio.sleep(0)
        await client.send(b"\r\nx\r\n.\r\nNOOP\r\n")
        assert (await client.reply()).startswith("250 2.0.0 Ok: queued as")
        assert await client.reply() == STOPPING
        assert await client.at_end()
        await stopped
    assert len(running.spool.accepted) == 1


async def test_b50_ses24_content_that_is_late_gets_421_before_its_dot(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.envelope()
        await client.send(b"Subject: x\r\n\r\n")
        await running.listener.stop(0.02)
        await client.send(b"x\r\n.\r\n")
        assert await client.reply() == STOPPING
        assert await client.at_end()
    assert running.spool.accepted == []


async def test_ses24_a_commit_that_runs_is_answered_not_denied(start: Start) -> None:
    spool = MemorySpool()
    entered, released = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        entered.set()
        await released.wait()

    spool.before_accept = slow
    running = await start(spool=spool)
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.envelope()
        await client.send(b"\r\nx\r\n.\r\n")
        await entered.wait()
        stopped = asyncio.create_task(running.listener.stop(0.01))
        assert await client.quiet(0.05) == b""
        released.set()
        assert (await client.reply()).startswith("250 2.0.0 Ok: queued as")
        assert await client.reply() == STOPPING
        await stopped


async def test_a_port_in_use_is_an_error_and_leaves_nothing_open(start: Start) -> None:
    running = await start()
    with pytest.raises(OSError):
        await running.listener.start([Door("127.0.0.2", 0), Door(*running.endpoint)])
    assert running.listener.endpoints == ()


async def test_sockets_that_were_opened_for_us_and_ipv6(start: Start) -> None:
    running = await start()
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    endpoint = sock.getsockname()
    await running.listener.start([Door("::1", 0)], [(Scheme.SMTP, sock)])
    assert endpoint in running.listener.endpoints
    async with await SmtpClient.connect(endpoint) as client:
        assert client.greeting.startswith("220")
    ipv6 = next(name for name in running.listener.endpoints if name[0] == "::1")
    async with await SmtpClient.connect(ipv6) as client:
        assert (await client.submit(b"\r\nx\r\n")).startswith("250")
    assert b"([IPv6:::1])" in running.spool.last[1]
