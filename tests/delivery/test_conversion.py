"""8-bit content and servers that take 7-bit alone: B37, CLI-13, and what it costs."""

import asyncio
import email
import email.policy
import re
import tracemalloc
from pathlib import Path

import pytest

from mta.delivery.conversion import seven_bit
from mta.model.lifecycle import Status
from tests.delivery.house import House, house
from tests.support.mx import Close, ScriptedMx

HEAD = b"From: a@b.test\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
LABEL = b"Content-Transfer-Encoding: 8bit\r\n\r\n"
LINE = "Grüße aus einer Zeile, die sich wiederholt\r\n".encode()
CONTENT = HEAD + LABEL + LINE


def one_mx(home: House) -> None:
    home.names.zones["example.org"] = [(10, "mx1.example.org", "127.0.0.1")]


@pytest.mark.parametrize("extensions", [("PIPELINING", "SIZE 100000"), ("SIZE",)])
async def test_b37_a_server_without_8bitmime_gets_7_bit(extensions: tuple[str, ...], tmp_path: Path):
    """B37 (b), CLI-14: and SIZE is that of what is sent."""
    async with ScriptedMx(extensions=extensions) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", content=CONTENT, eight_bit=True)
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        [message] = mx.messages
    assert message.content.isascii()
    assert message.mail == f"MAIL FROM:<shop@example.com> SIZE={len(message.content)}"
    read = email.message_from_bytes(message.content, policy=email.policy.default)
    assert (read.get_payload(decode=True), read["Content-Transfer-Encoding"]) == (LINE, "quoted-printable")


async def test_b37_a_server_that_knows_helo_alone_gets_7_bit(tmp_path: Path):
    """B37 (c)."""
    async with ScriptedMx({"EHLO": "502 5.5.1 what?"}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", content=CONTENT, eight_bit=True)
        await home.deliver()
    assert mx.messages[0].content.isascii()
    assert mx.messages[0].mail == "MAIL FROM:<shop@example.com>"


async def test_b37_a_server_with_8bitmime_gets_the_octets_as_they_are(tmp_path: Path):
    """B37 (a)."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", content=CONTENT, eight_bit=True)
        await home.deliver()
    assert mx.messages[0].content == CONTENT
    assert re.search(r"SIZE=\d+ BODY=8BITMIME$", mx.messages[0].mail)


async def test_b57_a_retry_after_a_doubt_converts_to_the_same_octets(tmp_path: Path):
    async with ScriptedMx({"FINAL": [Close()]}, extensions=()) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", content=CONTENT, eight_bit=True)
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.IN_DOUBT
        home.clock.at += 601
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
    first, second = mx.messages
    assert first.content == second.content and first.content.isascii()


async def test_cli13_what_can_not_be_converted_fails_with_the_reason(tmp_path: Path):
    """5.6.3, without MAIL; a server that takes it gets it."""
    signed = b"From: a@b.test\r\nContent-Type: multipart/signed; boundary=s\r\n\r\n--s\r\n\r\n\xe9\r\n--s--\r\n"
    async with ScriptedMx(extensions=()) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", content=signed, eight_bit=True)
        await home.deliver()
        it = await home.recipient(queue_id)
        assert it.reply is not None
        assert (it.status, it.reply.enhanced) == (Status.FAILED, "5.6.3")
        assert it.reply.text.endswith("what can't be converted: 8-bit text that is signed or encrypted")
    assert not [line for line in mx.commands if line.startswith("MAIL")]


async def test_cli13_what_needs_smtputf8_is_not_converted_instead(tmp_path: Path):
    content = "Subject: größer\r\n\r\nx\r\n".encode()
    async with ScriptedMx(extensions=()) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", content=content, eight_bit=True, utf8=True)
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.reply and it.reply.enhanced) == (Status.FAILED, "5.6.9")


async def test_cli_14_what_grows_beyond_the_server_s_limit_fails_at_once(tmp_path: Path):
    content = HEAD + LABEL + "öäü ".encode() * 20 + b"\r\n"
    async with ScriptedMx(extensions=(f"SIZE {len(content) + 20}",)) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", content=content, eight_bit=True)
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.reply and it.reply.enhanced) == (Status.FAILED, "5.3.4")


async def test_a_large_message_takes_little_memory_and_others_get_their_turn():
    lines = LINE * (128 * 1024 // len(LINE))

    async def content():
        yield HEAD + LABEL
        for _ in range(200):  # 25 MiB
            yield lines

    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    tracemalloc.start()
    try:
        made = await seven_bit(content)
        sent = 0
        async for chunk in made.chunks():
            sent += len(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        task.cancel()
    assert sent == made.size > 25 * 10**6
    assert peak < 2 * 10**6
    assert turns > 3 * 200
