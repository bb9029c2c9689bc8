"""`[[submission.client]]` as a client meets it."""

import ipaddress
from collections.abc import Callable
from typing import Any

from mta.model.envelope import MailClass
from mta.model.events import Accepted, Refused, Trouble
from mta.policy.clients import ClientRule
from mta.policy.rates import Rate
from tests.listener.test_auth import GOOD, b64, inside_tls, plain
from tests.support.passwords import USERS, PlainPasswords
from tests.support.smtp_client import SmtpClient
from tests.support.submission import Bench

Start = Callable[..., Any]
LOCAL = ipaddress.ip_network("127.0.0.0/8")


async def mails(client: SmtpClient, count: int) -> list[str]:
    """What `count` messages hear at MAIL, each given up again."""
    replies = []
    for _ in range(count):
        replies.append(await client.command("MAIL FROM:<a@example.com>"))
        await client.command("RSET")
    return [reply[:9] for reply in replies]


async def test_a_rate_is_kept_over_sessions_and_comes_back(start: Start) -> None:
    running: Bench = await start(clients=(ClientRule(network=LOCAL, messages=Rate(60, 60.0, 3)),))
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        assert await mails(client, 2) == ["250 2.1.0"] * 2
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        assert await mails(client, 2) == ["250 2.1.0", "450 4.7.1"]
        told = "450 4.7.1 You may send 60 messages in 1 minute: try again later"
        assert await client.command("MAIL FROM:<a@example.com>") == told
        running.clock.at += 1
        assert await mails(client, 2) == ["250 2.1.0", "450 4.7.1"]
    assert any(isinstance(fact, Refused) and fact.reply.startswith("450 4.7.1") for fact in running.facts)


async def test_what_was_refused_is_not_counted(start: Start) -> None:
    rule = ClientRule(network=LOCAL, messages=Rate(60, 60.0, 1), sender_domains=("x.test",))
    running: Bench = await start(clients=(rule,))
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        assert await mails(client, 2) == ["550 5.7.1"] * 2
        assert (await client.command("MAIL FROM:<a@x.test> SIZE=x")).startswith("501")
        assert (await client.command("MAIL FROM:<a@x.test>")).startswith("250")


async def test_recipients_beyond_the_rate_hear_450_and_the_others_are_served(start: Start) -> None:
    running: Bench = await start(clients=(ClientRule(network=LOCAL, recipients=Rate(60, 60.0, 2)),))
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        await client.command("MAIL FROM:<a@example.com>")
        replies = [await client.command(f"RCPT TO:<r{number}@example.org>") for number in range(3)]
        assert [reply[:9] for reply in replies] == ["250 2.1.5", "250 2.1.5", "450 4.7.1"]
        await client.command("DATA")
        await client.send(b"\r\nx\r\n.\r\n")
        assert (await client.reply()).startswith("250")
    assert [it.address for it in running.spool.last[0].recipients] == ["r0@example.org", "r1@example.org"]
    assert [fact.reason for fact in running.facts if isinstance(fact, Refused)] == ["RCPT TO:<r2@example.org>"]


async def test_pri02_a_priority_is_lowered_and_the_client_and_the_log_hear_of_it(start: Start) -> None:
    running: Bench = await start(clients=(ClientRule(network=LOCAL, highest_class=MailClass.NORMAL),))
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        reply = await client.command("MAIL FROM:<a@example.com> MT-PRIORITY=4")
        assert reply == "250 2.3.6 0 is the new priority of the message: you may not use 4"
        await client.command("RCPT TO:<b@example.org>")
        await client.command("DATA")
        await client.send(b"\r\nx\r\n.\r\n")
        queue_id = (await client.reply()).split()[-1]
        assert (await client.submit(b"Priority: urgent\r\n\r\nx\r\n")).startswith("250 2.0.0 Ok: queued")
    first, second = running.spool.accepted
    assert (first[0].priority, first[0].mail_class) == (0, MailClass.NORMAL)
    assert b"\r\nMT-Priority: 0\r\n" in first[1]
    assert second[0].mail_class is MailClass.NORMAL
    told = [fact for fact in running.facts if isinstance(fact, Trouble)]
    assert [fact.severity for fact in told] == ["info", "info"]
    assert queue_id in told[0].what
    assert {fact.mail_class for fact in running.facts if isinstance(fact, Accepted)} == {"normal"}


async def test_a_client_s_limits_are_announced_and_kept(start: Start) -> None:
    """EXT-04: SIZE is this client's."""
    running: Bench = await start(clients=(ClientRule(network=LOCAL, max_message_size=2000, max_recipients=1),))
    async with await SmtpClient.connect(running.endpoint) as client:
        assert "SIZE 2000" in (await client.command("EHLO c.test"))
        assert (await client.command("MAIL FROM:<a@example.com> SIZE=2001")).startswith("552 5.3.4 ")
        await client.command("MAIL FROM:<a@example.com>")
        await client.command("RCPT TO:<a@example.org>")
        assert (await client.command("RCPT TO:<b@example.org>")).startswith("452 4.5.3 ")
        await client.command("DATA")
        await client.send(b"\r\n" + b"x" * 70 + b"\r\n" + b"0123456\r\n" * 300 + b".\r\n")
        assert (await client.reply()).startswith("552 5.3.4 ")


async def test_a_user_s_rule_holds_from_when_it_has_logged_in(start: Start) -> None:
    rules = (ClientRule(user="shop", sender_domains=("shop.test",), null_sender=False, max_message_size=5000),)
    running: Bench = await start(clients=rules, users=USERS, passwords=PlainPasswords())
    async with await inside_tls(running) as client:
        assert (await client.command("MAIL FROM:<a@example.com>")).startswith("250"), "it is allowed by its address"
        await client.command("RSET")
        assert (await client.command(plain(GOOD))).startswith("235")
        assert "SIZE 5000" in await client.command("EHLO c.test")
        assert (await client.command("MAIL FROM:<a@example.com>")).startswith("550 5.7.1 ")
        assert (await client.command("MAIL FROM:<>")).startswith("550 5.7.1 ")
        assert (await client.command("MAIL FROM:<a@shop.test> AUTH=<>")).startswith("250")
    assert {fact.user for fact in running.facts if isinstance(fact, Refused)} == {"shop"}


async def test_two_users_keys_are_two_keys(start: Start) -> None:
    running: Bench = await start(users=USERS, passwords=PlainPasswords())
    for login in (GOOD, "\0ann@example.com\0pässwort"):
        async with await inside_tls(running) as client:
            await client.command(f"AUTH PLAIN {b64(login)}")
            await client.submit(b"Idempotency-Key: order-1\r\n\r\nx\r\n")
    assert [(message.key, message.scope) for message, _ in running.spool.accepted] == [
        ("order-1", "shop"), ("order-1", "ann@example.com"),
    ]  # fmt: skip


async def test_nobody_gets_a_signature_of_a_domain_that_is_not_its_own_to_send_for(start: Start) -> None:
    rules = (ClientRule(network=LOCAL, sender_domains=("shop.test",)),)
    running: Bench = await start(clients=rules, signed=frozenset({"shop.test", "bank.test"}))
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        heard = {}
        for author in ("a@shop.test", "boss@bank.test", "Boss <boss@mail.BANK.test>", "a@elsewhere.test"):
            await client.command("MAIL FROM:<a@shop.test>")
            await client.command("RCPT TO:<b@example.org>")
            await client.command("DATA")
            await client.send(f"From: {author}\r\n\r\nx\r\n.\r\n".encode())
            heard[author] = (await client.reply())[:9]
    assert list(heard.values()) == ["250 2.0.0", "550 5.7.1", "550 5.7.1", "250 2.0.0"]
