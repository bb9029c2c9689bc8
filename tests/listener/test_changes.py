"""New settings, and the sessions that were open before them: who may submit is decided anew at each MAIL."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from typing import Any, cast

import pytest

from mta.model.envelope import MailClass
from mta.model.events import Refused
from mta.policy.clients import ClientRule
from tests.listener.test_auth import GOOD, inside_tls, plain
from tests.support.passwords import USERS, PlainPasswords
from tests.support.smtp_client import SmtpClient
from tests.support.submission import Bench

Start = Callable[..., Any]
MAIL = "MAIL FROM:<a@shop.test>"
CHANGED = "421 4.7.0 mail.out.test What you may do here has changed, connect again"
OTHERS = {"ann@example.com": USERS["ann@example.com"]}


def change(running: Bench, **changes: Any) -> None:
    running.listener.settings = replace(running.listener.settings, **changes)


async def logged_in(running: Bench) -> SmtpClient:
    client = await inside_tls(running)
    assert (await client.command(plain(GOOD))).startswith("235")
    return client


@pytest.fixture
async def running(start: Start) -> Bench:
    return cast(Bench, await start(users=USERS, passwords=PlainPasswords(), allow=()))


@pytest.mark.parametrize("users", [OTHERS, {**OTHERS, "shop": "<new>"}], ids=["removed", "new password"])
async def test_a_user_who_is_another_or_none_hears_421_at_the_next_mail(running: Bench, users: dict[str, str]) -> None:
    async with await logged_in(running) as client:
        change(running, users=users)
        assert await client.command(MAIL) == CHANGED
        assert await client.at_end()
    [refused] = [fact for fact in running.facts if isinstance(fact, Refused)]
    assert (refused.user, refused.reply) == ("shop", CHANGED)


async def test_a_user_who_is_still_there_goes_on(running: Bench) -> None:
    async with await logged_in(running) as client:
        change(running, users={"shop": USERS["shop"]})
        assert (await client.submit(b"\r\nx\r\n")).startswith("250 2.0.0 Ok: queued")


async def test_what_mail_has_begun_is_finished(running: Bench) -> None:
    async with await logged_in(running) as client:
        await client.envelope()
        change(running, users=OTHERS)
        await client.send(b"\r\nx\r\n.\r\n")
        assert (await client.reply()).startswith("250 2.0.0 Ok: queued")
        assert await client.command(MAIL) == CHANGED


async def test_a_session_that_was_open_takes_no_old_password(running: Bench) -> None:
    async with await inside_tls(running) as client:
        change(running, users=OTHERS)
        assert (await client.command(plain(GOOD))).startswith("535")
        assert (await client.command(plain("\0ann@example.com\0pässwort"))).startswith("235")


async def test_a_user_who_is_removed_while_the_password_is_judged_is_refused(start: Start) -> None:
    passwords = PlainPasswords()
    released = asyncio.Event()
    passwords.before = released.wait
    running = await start(users=USERS, passwords=passwords, allow=())
    async with await inside_tls(running) as client:
        await client.send(plain(GOOD).encode() + b"\r\n")
        await passwords.arrived.wait()
        change(running, users=OTHERS)
        released.set()
        assert (await client.reply()).startswith("535")


async def test_an_address_that_is_allowed_no_more_hears_421(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        change(running, allow=(ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8")))
        assert (await client.command(MAIL)).startswith("250")
        await client.command("RSET")
        change(running, allow=(ip_network("10.0.0.0/8"),))
        assert await client.command(MAIL) == CHANGED
        assert await client.at_end()


async def test_rules_hold_from_the_next_mail_on(running: Bench) -> None:
    async with await logged_in(running) as client:
        assert (await client.command(f"{MAIL} SIZE=5000")).startswith("250")
        less = ClientRule(user="shop", sender_domains=("shop.test",), highest_class=MailClass.NORMAL, max_recipients=1)
        change(running, clients=(replace(less, max_message_size=4000),))
        assert (await client.command("RCPT TO:<a@example.org>")).startswith("250")
        assert (await client.command("RCPT TO:<b@example.org>")).startswith("250"), "as MAIL has begun it"
        await client.command("RSET")
        assert (await client.command(f"{MAIL} SIZE=5000")).startswith("552 5.3.4 ")
        assert (await client.command("MAIL FROM:<a@example.com>")).startswith("550 5.7.1 ")
        assert (await client.command(f"{MAIL} MT-PRIORITY=4")).startswith("250 2.3.6 ")
        change(running, clients=())
        await client.command("RSET")
        assert (await client.command("MAIL FROM:<a@example.com> SIZE=5000")).startswith("250 2.1.0 ")
