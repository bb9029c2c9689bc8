"""Clients that may not submit, or not yet: they take neither the places of those who may, nor each other's (SES-27)."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from ipaddress import ip_network
from typing import Any

import pytest

from mta.listener.protocol import STRANGER_LIFE, STRANGER_TIMEOUT
from mta.model.door import Door, Scheme
from tests.listener.test_auth import GOOD, Line, Site, plain
from tests.support.daemon import until as until_real
from tests.support.memory_transport import MemoryTransport
from tests.support.smtp_client import SmtpClient
from tests.support.submission import Bench
from tests.support.tls import server_context
from tests.support.virtual import run_virtual, until

Start = Callable[..., Any]
TOO_MANY = b"421 4.3.2 mail.out.test Too many connections"


def greetings(lines: list[Line]) -> list[bytes]:
    return [bytes(line.transport.written[:3]) for line in lines]


# ---------------------------------------------------------------- places
def test_half_of_the_places_are_for_those_who_may_submit() -> None:
    async def run() -> None:
        site = Site(max_connections=8, allow=(ip_network("10.0.0.0/8"),))
        strangers = [site.client(f"192.0.2.{number}") for number in range(1, 6)]
        await asyncio.sleep(0.1)
        assert greetings(strangers) == [b"220"] * 4 + [b"421"]
        assert strangers[-1].transport.written.startswith(TOO_MANY) and strangers[-1].transport.closed.is_set()
        trusted = [site.client("10.0.0.1") for _ in range(4)]
        await asyncio.sleep(0.1)
        assert greetings(trusted) == [b"220"] * 4

    run_virtual(run())


def test_who_has_logged_in_is_no_stranger_any_more() -> None:
    async def run() -> None:
        site = Site(max_connections=8)
        strangers = [site.client(f"192.0.2.{number}") for number in range(1, 5)]
        assert (await strangers[0].ask(plain(GOOD)))[0].startswith("235")
        late = [site.client("192.0.2.9"), site.client("192.0.2.10")]
        await asyncio.sleep(0.1)
        assert greetings(late) == [b"220", b"421"]

    run_virtual(run())


def test_one_address_takes_a_quarter_of_the_places() -> None:
    """An IPv6 client's is its /64; one who has logged in counts no more."""

    async def run() -> None:
        site = Site(max_connections=12)
        first = [site.client("2001:db8::1"), site.client("2001:db8::2"), site.client("2001:db8::3")]
        await asyncio.sleep(0.1)
        late = [site.client("2001:db8::4"), site.client("2001:db8:0:1::1"), site.client("192.0.2.1")]
        await asyncio.sleep(0.1)
        assert greetings([*first, *late]) == [b"220"] * 3 + [b"421", b"220", b"220"]
        assert (await first[0].ask(plain(GOOD)))[0].startswith("235")
        again = [site.client("2001:db8::4"), site.client("2001:db8::5")]
        await asyncio.sleep(0.1)
        assert greetings(again) == [b"220", b"421"]

    run_virtual(run())


def test_few_places_leave_one_for_a_stranger() -> None:
    async def run() -> None:
        site = Site(max_connections=2)
        lines = [site.client(), site.client("192.0.2.2")]
        await asyncio.sleep(0.1)
        assert greetings(lines) == [b"220", b"421"]

    run_virtual(run())


async def silent(endpoint: tuple[str, int], address: str) -> SmtpClient:
    """One that connects from `address` and says nothing."""
    return SmtpClient(*await asyncio.open_connection(*endpoint, local_addr=(address, 0)))


async def test_the_same_holds_for_those_who_wait_at_the_tls_door(start: Start) -> None:
    running: Bench = await start(tls=server_context(), max_connections=8, allow=(ip_network("127.0.0.1/32"),))
    await running.listener.start([Door("127.0.0.1", 0, Scheme.TLS)])
    door = running.listener.endpoints[-1]
    async with AsyncExitStack() as stack:
        for number, address in enumerate(("127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"), 1):
            if number == 3:
                assert await (await silent(door, "127.0.0.2")).at_end()
            await stack.enter_async_context(await silent(door, address))
            await until_real(lambda number=number: running.listener.sessions == number)
        assert await (await silent(door, "127.0.0.4")).at_end()
        await stack.enter_async_context(await silent(door, "127.0.0.1"))
        await until_real(lambda: running.listener.sessions == 5)
        async with await SmtpClient.connect(running.endpoint) as trusted:
            assert trusted.greeting.startswith("220")


def test_a_proxy_that_has_yet_to_name_its_clients_is_not_one_of_them() -> None:
    """It takes as many places as all strangers together; a client that it has named takes what one may."""

    async def run() -> None:
        site = Site(max_connections=8, proxies=(ip_network("10.0.0.1/32"),))
        waiting = [MemoryTransport(site.listener._protocol(Scheme.SMTP), ("10.0.0.1", 1)) for _ in range(5)]
        assert [it.is_closing() for it in waiting] == [False] * 4 + [True]
        for transport in waiting[:3]:
            transport.set_protocol = lambda session, it=transport: setattr(it, "protocol", session)  # type: ignore[method-assign]
            transport.feed(b"PROXY TCP4 192.0.2.7 10.0.0.1 1 25\r\n")
        await asyncio.sleep(0.1)
        assert [bytes(it.written[:3]) for it in waiting[:3]] == [b"220", b"220", b"421"]

    run_virtual(run())


# ---------------------------------------------------------------- time
def test_ses25_a_stranger_is_waited_for_a_minute_and_a_user_for_the_whole_timeout() -> None:
    async def run() -> None:
        site = Site(timeout=300.0)
        loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        stranger, user = site.client(), site.client("192.0.2.2")
        assert (await user.ask(plain(GOOD)))[0].startswith("235")
        await until(stranger.transport.closed.is_set)
        assert b"421 4.4.2" in stranger.transport.written and loop.time() - begun == pytest.approx(STRANGER_TIMEOUT, abs=1)
        await until(user.transport.closed.is_set)
        assert loop.time() - begun == pytest.approx(300, abs=2)

    run_virtual(run())


def test_ses25_a_stranger_that_is_busy_ends_all_the_same_and_a_user_does_not() -> None:
    async def run() -> None:
        site = Site(timeout=300.0)
        stranger, user = site.client(), site.client("192.0.2.2")
        assert (await user.ask(plain(GOOD)))[0].startswith("235")
        begun = asyncio.get_running_loop().time()
        while not stranger.transport.closed.is_set():
            await asyncio.sleep(10)
            for line in (stranger, user):
                line.transport.feed(b"NOOP\r\n")
        assert asyncio.get_running_loop().time() - begun == pytest.approx(STRANGER_LIFE, abs=11)
        assert stranger.transport.written.endswith(b"421 4.4.2 mail.out.test Timeout, closing connection\r\n")
        await asyncio.sleep(STRANGER_LIFE / 2)
        assert (await user.ask("NOOP"))[0].startswith("250")

    run_virtual(run())
