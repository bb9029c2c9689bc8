"""STARTTLS and implicit TLS, on both event loops: EXT-11, EXT-12, EXT-13, HDR-10, B04."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from mta.listener import entrance, tls
from mta.model.door import Door, Scheme
from mta.model.events import Accepted, Fact, Refused
from tests.support.daemon import until
from tests.support.smtp_client import SmtpClient
from tests.support.submission import Bench
from tests.support.tls import NAME, client_context, server_context

Start = Callable[..., Any]


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    return request.param()


@pytest.fixture
async def running(start: Start, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Bench]:
    """Whatever clients do, the event loop has nothing to say."""
    yield await start(tls=server_context())
    assert not caplog.records


async def starttls(client: SmtpClient) -> None:
    assert (await client.command("STARTTLS")).startswith("220 2.0.0 ")
    await client.writer.start_tls(client_context(), server_hostname=NAME)


async def secure_door(running: Bench) -> tuple[str, int]:
    await running.listener.start([Door("127.0.0.1", 0, Scheme.TLS)])
    return next((door.host, door.port) for door in running.listener.doors if door.scheme is Scheme.TLS)


async def connect_inside(endpoint: tuple[str, int]) -> SmtpClient:
    streams = await asyncio.open_connection(*endpoint, ssl=client_context(), server_hostname=NAME)
    client = SmtpClient(*streams)
    client.greeting = await client.reply()
    return client


def closed(running: Bench) -> list[str]:
    """Why clients were closed without a reply."""
    return [fact.reply for fact in running.facts if isinstance(fact, Refused) and fact.reason == "connection"]


def troubles(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if not isinstance(fact, Accepted | Refused)]


# ---------------------------------------------------------------- STARTTLS
async def test_ext11_hdr10_mail_goes_through_starttls(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        assert "250-STARTTLS" in (await client.command("EHLO client.test")).replace("250 STARTTLS", "250-STARTTLS")
        await starttls(client)
        assert "STARTTLS" not in await client.command("EHLO client.test")
        assert (await client.command("STARTTLS")).startswith("503 5.5.1")
        assert (await client.submit(b"Subject: a\r\n\r\n" + b"x" * 70 + b"\r\n")).startswith("250 2.0.0")
        assert (await client.command("QUIT")).startswith("221")
        assert await client.at_end()
    assert b"with ESMTPS id" in running.spool.last[1]
    assert not troubles(running.facts)


async def test_a_large_message_and_pipelined_commands_go_through_tls(running: Bench) -> None:
    body = b"".join(b"%070d\r\n" % line for line in range(20_000))
    async with await SmtpClient.connect(running.endpoint) as client:
        await starttls(client)
        await client.send(b"EHLO c.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n")
        assert [reply[:3] for reply in await client.replies(4)] == ["250", "250", "250", "354"]
        await client.send(b"Subject: a\r\n\r\n" + body + b".\r\n")
        assert (await client.reply()).startswith("250")
    assert running.spool.last[1].endswith(body)


async def test_ext11_it_is_refused_with_an_argument_and_within_a_transaction(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command("STARTTLS now")).startswith("501 5.5.4")
        await client.command("EHLO client.test")
        await client.command("MAIL FROM:<a@b.test>")
        assert (await client.command("STARTTLS")).startswith("503 5.5.1")
        assert (await client.command("RCPT TO:<c@d.test>")).startswith("250")
        await client.command("RSET")
        await starttls(client)
        assert (await client.command("NOOP")).startswith("250")


async def test_ext11_without_a_certificate_it_is_not_there(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert "STARTTLS" not in await client.command("EHLO client.test")
        assert (await client.command("STARTTLS")).startswith("502 5.5.1")


async def test_ext12_after_the_handshake_nobody_is_known(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        await starttls(client)
        assert (await client.command("MAIL FROM:<a@b.test>")).startswith("503 5.5.1")
        assert (await client.command("RCPT TO:<a@b.test>")).startswith("503 5.5.1")


@pytest.mark.parametrize("behind", [b"MAIL FROM:<evil@example.com>\r\n", b"M", b"\r\n"])
async def test_b04_ext12_what_rides_along_is_refused_and_never_done(running: Bench, behind: bytes) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        await client.send(b"STARTTLS\r\n" + behind)
        assert (await client.reply()).startswith("501 5.5.2")
        assert await client.at_end()


async def test_b04_what_comes_in_clear_before_the_handshake_is_never_done(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command("STARTTLS")).startswith("220")
        await client.send(b"EHLO evil.test\r\nMAIL FROM:<evil@example.com>\r\n")
        left = await client.reader.read()
        assert b"250" not in left and b"503" not in left
    await until(lambda: running.listener.sessions == 0)
    assert closed(running) and "TLS handshake failed" in closed(running)[0]
    assert not troubles(running.facts)


@pytest.mark.parametrize("how", ["close", "reset", "half_close"])
async def test_a_client_that_goes_in_the_handshake_is_one_line(running: Bench, how: str) -> None:
    client = await SmtpClient.connect(running.endpoint)
    assert (await client.command("STARTTLS")).startswith("220")
    {"close": client.writer.close, "reset": client.reset, "half_close": client.half_close}[how]()
    await until(lambda: running.listener.sessions == 0)
    assert len(closed(running)) == 1
    assert not troubles(running.facts)
    client.writer.close()


async def test_a_client_that_goes_as_soon_as_it_has_said_starttls_is_not_waited_for(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.send(b"STARTTLS\r\n")
        client.half_close()
        async with asyncio.timeout(5):
            await client.reader.read()
    await until(lambda: running.listener.sessions == 0)
    assert not troubles(running.facts)


async def test_a_client_that_breaks_off_as_soon_as_it_has_said_starttls_is_not_waited_for(running: Bench) -> None:
    """It has no connection any more, and holds nobody's place, nor a stop."""
    client = await SmtpClient.connect(running.endpoint)
    await client.send(b"STARTTLS\r\n")
    client.reset()
    async with asyncio.timeout(5):
        await until(lambda: bool(closed(running)))
        await until(lambda: running.listener.sessions == 0)
    assert len(closed(running)) == 1
    assert not troubles(running.facts)


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_client_that_goes_inside_tls_is_no_trouble(running: Bench, how: str) -> None:
    client = await SmtpClient.connect(running.endpoint)
    await starttls(client)
    await client.envelope()
    await client.send(b"Subject: half a mess")
    {"close": client.writer.close, "abort": client.writer.transport.abort}[how]()
    await until(lambda: running.listener.sessions == 0)
    assert not running.spool.accepted
    assert not troubles(running.facts)


async def test_octets_that_are_no_tls_end_the_session_without_trouble(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        beneath = client.writer.transport
        await starttls(client)
        await client.envelope()
        beneath.write(b"Subject: in clear\r\n\r\nx\r\n.\r\n")
        with contextlib.suppress(OSError):
            await client.reader.read()
    await until(lambda: running.listener.sessions == 0)
    assert not running.spool.accepted
    assert not troubles(running.facts)


async def test_a_handshake_that_does_not_end_is_ended(running: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it lasts it counts as a session."""
    monkeypatch.setattr(tls, "HANDSHAKE_TIMEOUT", 0.2)
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command("STARTTLS")).startswith("220")
        assert running.listener.sessions == 1
        assert await client.at_end()
    await until(lambda: running.listener.sessions == 0)
    assert "TLS handshake failed" in closed(running)[0]


async def test_tls_before_1_2_is_refused(running: Bench) -> None:
    context = client_context()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command("STARTTLS")).startswith("220")
        with pytest.raises(OSError):
            await client.writer.start_tls(context, server_hostname=NAME)
    await until(lambda: running.listener.sessions == 0)


async def test_a_stop_in_the_handshake_waits_for_nobody(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command("STARTTLS")).startswith("220")
        async with asyncio.timeout(5):
            await running.listener.stop(20)
        assert await client.at_end()


# ---------------------------------------------------------------- required
async def test_ext13_where_tls_is_required_only_five_commands_are_heard_before(start: Start) -> None:
    running = await start(tls=server_context(), tls_required=True)
    async with await SmtpClient.connect(running.endpoint) as client:
        for line in ("MAIL FROM:<a@b.test>", "RCPT TO:<c@d.test>", "DATA", "RSET", "VRFY x", "HELP", "EXPN x"):
            assert (await client.command(line)).startswith("530 5.7.0"), line
        assert (await client.command("NOOP")).startswith("250")
        assert (await client.command("HELO client.test")).startswith("250")
        assert (await client.command("EHLO client.test")).startswith("250")
        await starttls(client)
        assert (await client.submit(b"\r\nx\r\n")).startswith("250 2.0.0")
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command("QUIT")).startswith("221")


# ---------------------------------------------------------------- implicit TLS
async def test_ext13_hdr10_implicit_tls(running: Bench) -> None:
    endpoint = await secure_door(running)
    assert endpoint in running.listener.endpoints
    async with await connect_inside(endpoint) as client:
        assert client.greeting.startswith("220")
        assert "STARTTLS" not in await client.command("EHLO client.test")
        assert (await client.command("STARTTLS")).startswith("503 5.5.1")
        assert (await client.submit(b"\r\nx\r\n")).startswith("250 2.0.0")
        assert (await client.command("QUIT")).startswith("221")
        assert await client.at_end()
    assert b"with ESMTPS id" in running.spool.last[1] and b"([127.0.0.1])" in running.spool.last[1]
    assert not troubles(running.facts)


async def test_clear_text_at_the_tls_door_is_closed_with_one_line(running: Bench) -> None:
    endpoint = await secure_door(running)
    async with await SmtpClient.connect(endpoint, greeted=False) as client:
        await client.send(b"EHLO client.test\r\n")
        await client.reader.read()
    await until(lambda: running.listener.sessions == 0)
    assert len(closed(running)) == 1 and "TLS handshake failed" in closed(running)[0]
    assert not troubles(running.facts)


async def test_slow_handshakes_are_sessions(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count for max_connections, and end."""
    running = await start(tls=server_context(), max_connections=2)
    endpoint = await secure_door(running)
    clients = [await SmtpClient.connect(endpoint, greeted=False) for _ in range(2)]
    await until(lambda: running.listener.sessions == 2)
    async with await SmtpClient.connect(endpoint, greeted=False) as third:
        assert await third.at_end()
    async with await SmtpClient.connect(running.endpoint) as third:
        assert third.greeting.startswith("421 4.3.2")
    for client in clients:
        client.writer.close()
    await until(lambda: running.listener.sessions == 0)
    monkeypatch.setattr(entrance, "PATIENCE", 0.1)
    async with await SmtpClient.connect(endpoint, greeted=False) as slow:
        assert await slow.at_end()
    assert "nothing came in time" in closed(running)[-1]


async def test_a_stop_closes_who_has_not_come_in_and_tells_who_has(running: Bench) -> None:
    endpoint = await secure_door(running)
    async with await SmtpClient.connect(endpoint, greeted=False) as outside, await connect_inside(endpoint) as inside:
        await until(lambda: running.listener.sessions == 2)
        async with asyncio.timeout(5):
            await running.listener.stop(20)
        assert await outside.at_end()
        assert (await inside.reply()).startswith("421 4.3.2")


async def test_who_may_not_submit_hears_it_inside_tls(start: Start) -> None:
    running = await start(tls=server_context(), allow=())
    async with await connect_inside(await secure_door(running)) as client:
        assert client.greeting.startswith("554 5.7.1")
