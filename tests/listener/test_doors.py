"""Unix sockets, proxies, and sockets that were opened for us: HDR-09, SES-29."""

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mta.listener import entrance
from mta.model.door import Door, Scheme
from mta.model.events import Accepted, Refused
from mta.unix_socket import SocketTaken
from tests.support.daemon import until
from tests.support.smtp_client import SmtpClient
from tests.support.submission import Bench
from tests.support.tls import NAME, client_context, server_context

Start = Callable[..., Any]
LOOPBACK = (ip_network("127.0.0.0/8"),)
ANN = b"PROXY TCP4 192.0.2.7 127.0.0.1 1234 25\r\n"
ANN_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x00\x19"
HEALTH_CHECK = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    return request.param()


def refusals(running: Bench) -> list[tuple[str, str]]:
    return [(fact.client, fact.reply) for fact in running.facts if isinstance(fact, Refused)]


# ---------------------------------------------------------------- unix sockets
async def over_unix(path: Path) -> SmtpClient:
    client = SmtpClient(*await asyncio.open_unix_connection(str(path)))
    client.greeting = await client.reply()
    return client


async def test_hdr09_whoever_reaches_the_unix_socket_may_submit(start: Start, tmp_path: Path) -> None:
    running = await start(allow=(), tls=server_context(), tls_required=True)
    door = Door(scheme=Scheme.UNIX, path=tmp_path / "run" / "submit.sock")
    await running.listener.start([door], socket_mode=0o640)
    assert door in running.listener.doors
    assert stat.S_IMODE(door.path.stat().st_mode) == 0o640
    assert len(running.listener.endpoints) == 1, "no address, no port"
    async with await over_unix(door.path) as client:
        assert "STARTTLS" not in await client.command("EHLO client.test")
        assert (await client.submit(b"\r\nx\r\n")).startswith("250 2.0.0")
    assert running.spool.last[1].startswith(b"Received: from client.test (unix socket)\r\n\tby mail.out.test with ESMTP id")
    (accepted,) = (fact for fact in running.facts if isinstance(fact, Accepted))
    assert accepted.client == f"unix:uid={os.getuid()}"


async def test_a_stale_unix_socket_is_replaced_a_live_one_and_a_file_never(start: Start, tmp_path: Path) -> None:
    running = await start()
    path = tmp_path / "submit.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    door = Door(scheme=Scheme.UNIX, path=path)
    await running.listener.start([door])
    other = await start()
    with pytest.raises(SocketTaken, match="another daemon listens there"):
        await other.listener.start([Door("127.0.0.1", 0), door])
    assert other.listener.endpoints == ()
    await running.listener.stop(0)
    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(SocketTaken, match="is no socket"):
        await running.listener.start([door])
    assert path.read_text() == "precious"


# ---------------------------------------------------------------- systemd
async def test_sockets_opened_for_us_are_doors_of_each_kind(start: Start, tmp_path: Path) -> None:
    running = await start(tls=server_context())
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(tmp_path / "s"))
    unix.listen()
    tcp = socket.create_server(("127.0.0.1", 0))
    for sock in (unix, tcp):
        sock.setblocking(False)
    endpoint = tcp.getsockname()
    await running.listener.start([], [(Scheme.UNIX, unix), (Scheme.TLS, tcp)])
    assert {f"unix:{tmp_path / 's'}", f"tls://127.0.0.1:{endpoint[1]}"} < set(map(str, running.listener.doors))
    async with await over_unix(tmp_path / "s") as client:
        assert client.greeting.startswith("220")
    streams = await asyncio.open_connection(*endpoint, ssl=client_context(), server_hostname=NAME)
    async with SmtpClient(*streams) as client:
        assert (await client.reply()).startswith("220")
    await running.listener.stop(0)
    assert (tmp_path / "s").exists(), "it is systemd's"


# ---------------------------------------------------------------- the PROXY protocol
@pytest.mark.parametrize("header", [ANN, ANN_2], ids=["version 1", "version 2"])
@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_the_client_is_whom_the_proxy_names(start: Start, header: bytes, step: int) -> None:
    """Not the proxy, wherever the header is cut; what comes with it is heard."""
    running = await start(proxies=LOOPBACK, allow=(ip_network("192.0.2.0/24"),))
    async with await SmtpClient.connect(running.endpoint, greeted=False) as client:
        octets = header + b"EHLO client.test\r\n"
        for at in range(0, len(octets), step):
            await client.send(octets[at : at + step])
            await asyncio.sleep(0)
        assert (await client.reply()).startswith("220")
        assert (await client.reply()).startswith("250")
        assert (await client.submit(b"\r\nx\r\n")).startswith("250 2.0.0")
    assert b"([192.0.2.7])" in running.spool.last[1]
    (accepted,) = (fact for fact in running.facts if isinstance(fact, Accepted))
    assert accepted.client == "192.0.2.7"


async def test_ses29_an_address_that_may_not_submit_hears_it_through_the_proxy(start: Start) -> None:
    running = await start(proxies=LOOPBACK)
    for header in (ANN, b"PROXY UNKNOWN\r\n"):
        async with await SmtpClient.connect(running.endpoint, greeted=False) as client:
            await client.send(header)
            assert (await client.reply()).startswith("554 5.7.1")
    async with await SmtpClient.connect(running.endpoint, greeted=False) as client:
        await client.send(HEALTH_CHECK)
        assert (await client.reply()).startswith("220")
    assert [client for client, _ in refusals(running)] == ["192.0.2.7", "unknown"]


@pytest.mark.parametrize("said", [b"EHLO client.test\r\n", b"PROXY TCP4 x y 1 2\r\n", b"PROXY " + b"x" * 300])
async def test_a_proxy_that_says_something_else_is_closed_with_one_line(start: Start, said: bytes) -> None:
    running = await start(proxies=LOOPBACK)
    async with await SmtpClient.connect(running.endpoint, greeted=False) as client:
        await client.send(said)
        assert await client.at_end()
    await until(lambda: running.listener.sessions == 0)
    ((who, why),) = refusals(running)
    assert who == "127.0.0.1" and "PROXY header" in why


async def test_a_proxy_that_says_nothing_is_closed_and_counts_until_then(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "PATIENCE", 0.2)
    running = await start(proxies=LOOPBACK)
    async with await SmtpClient.connect(running.endpoint, greeted=False) as client:
        await until(lambda: running.listener.sessions == 1)
        assert await client.at_end()
    assert refusals(running) == [("127.0.0.1", "nothing came in time")]


async def test_nobody_else_may_say_proxy(start: Start) -> None:
    running = await start(proxies=(ip_network("10.0.0.0/8"),))
    async with await SmtpClient.connect(running.endpoint) as client:
        assert client.greeting.startswith("220")
        assert (await client.command(ANN[:-2])).startswith("500 5.5.2")


async def test_behind_a_proxy_starttls_and_implicit_tls_work(start: Start) -> None:
    running = await start(proxies=LOOPBACK, allow=(ip_network("192.0.2.0/24"),), tls=server_context())
    async with await SmtpClient.connect(running.endpoint, greeted=False) as client:
        await client.send(ANN)
        assert (await client.reply()).startswith("220")
        assert (await client.command("STARTTLS")).startswith("220")
        await client.writer.start_tls(client_context(), server_hostname=NAME)
        assert (await client.submit(b"\r\nx\r\n")).startswith("250 2.0.0")
    assert b"([192.0.2.7])" in running.spool.last[1] and b"with ESMTPS" in running.spool.last[1]


async def test_a_header_and_the_start_of_the_handshake_may_come_in_one_segment(start: Start) -> None:
    running = await start(proxies=LOOPBACK, allow=(ip_network("192.0.2.0/24"),), tls=server_context())
    await running.listener.start([Door("127.0.0.1", 0, Scheme.TLS)])
    port = running.listener.doors[-1].port
    for header in (ANN, ANN_2):
        greeting = await asyncio.to_thread(_greeting_inside, port, header)
        assert greeting.startswith(b"220 ")


def _greeting_inside(port: int, header: bytes) -> bytes:
    """By a client whose first segment has the PROXY header and its hello of TLS."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    inside = client_context().wrap_bio(received, sent, server_hostname=NAME)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as tcp:
        before = header
        for work in (inside.do_handshake, lambda: inside.read(100)):
            while True:
                try:
                    found = work()
                    break
                except ssl.SSLWantReadError:
                    tcp.sendall(before + sent.read())
                    before = b""
                    received.write(tcp.recv(65536))
        return bytes(found or b"")


async def test_one_too_many_behind_a_proxy_is_closed(start: Start) -> None:
    running = await start(proxies=LOOPBACK, max_connections=1)
    async with await SmtpClient.connect(running.endpoint, greeted=False):
        await until(lambda: running.listener.sessions == 1)
        async with await SmtpClient.connect(running.endpoint, greeted=False) as second:
            assert await second.at_end()
    await until(lambda: running.listener.sessions == 0)
    assert ("127.0.0.1", "too many connections") in refusals(running)
