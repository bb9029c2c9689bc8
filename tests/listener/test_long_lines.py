"""`submission.long_lines`: what becomes of a message with a line of more than 998 octets (LIN-15, B40)."""

import asyncio
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from mta.listener.long_lines import Encoded, encoded
from mta.spool.base import SpoolError, SpoolFull
from mta.spool.buffer import SpillBuffer
from tests.support.smtp_client import SmtpClient, stuffed
from tests.support.submission import MemoryBuffer, MemorySpool

HEAD = b"From: app@shop.test\r\nMessage-ID: <own@shop.test>\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n"
BODY = b"-- \r\n." + b"word " * 300 + b"\r\n.\r\n" + "é".encode() * 600 + b"\r\nend\r\n"

Start = Callable[..., Any]


def decoded(stored: bytes) -> bytes:
    message = message_from_bytes(stored)
    assert message["MIME-Version"] == "1.0"
    assert message["Content-Transfer-Encoding"] == "quoted-printable"
    return bytes(message.get_payload(decode=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["DATA", "BDAT"])
async def test_lin15_encoded_where_that_is_wanted(start: Start, way: str) -> None:
    running = await start(long_lines="encode", header_checks="strict")
    content = HEAD + b"\r\n" + BODY
    async with await SmtpClient.connect(running.endpoint) as client:
        if way == "DATA":
            said = await client.submit(stuffed(content))
        else:
            for line in ("EHLO c.test", "MAIL FROM:<app@shop.test>", "RCPT TO:<b@example.org>"):
                await client.command(line)
            for at in range(0, len(content), 500):
                await client.send(b"BDAT %d\r\n%s" % (len(content[at : at + 500]), content[at : at + 500]))
                assert (await client.reply()).startswith("250")
            said = await client.command("BDAT 0 LAST")
    message, stored = running.spool.last
    assert said == f"250 2.0.0 Ok: queued as {message.queue_id}"
    assert decoded(stored) == BODY
    assert (message.eight_bit, message.size) == (False, len(stored))
    assert max(map(len, stored.split(b"\r\n"))) <= 998


async def test_lin15_a_message_without_long_lines_is_left_alone(start: Start) -> None:
    running = await start(long_lines="encode")
    content = HEAD + b"\r\n" + b"x" * 998 + b"\r\n"
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(content)).startswith("250")
    assert running.spool.last[1].endswith(content)


@pytest.mark.parametrize(
    ("content", "reply"),
    [
        (b"DKIM-Signature: v=1\r\n" + HEAD + b"\r\n" + BODY, "554 5.6.0 Message has a line of more than 998 octets"),
        (HEAD + b"X: " + b"x" * 1000 + b"\r\n\r\n", "554 5.6.0 Message has a line of more than 998 octets"),
        (b"Subject: x\r\n\r\n" + BODY, "554 5.6.0 The From header field is missing"),
        (HEAD + b"\r\n" + BODY + b"\0\r\n", "554 5.6.0 Message has a NUL octet"),
        (HEAD + b"\r\n" + b"x" * 70_000 + b"\r\n", "552 5.3.4"),
    ],
    ids=["signed", "header", "no-from", "nul", "large"],
)
async def test_lin15_what_is_refused_all_the_same(start: Start, content: bytes, reply: str) -> None:
    spool = MemorySpool()
    buffers: list[MemoryBuffer] = []
    spool.buffer = lambda: buffers.append(MemoryBuffer()) or buffers[-1]
    running = await start(spool=spool, long_lines="encode", header_checks="strict", max_message_size=65536)
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(stuffed(content))).startswith(reply)
        assert await client.command("NOOP") == "250 2.0.0 Ok"
    assert spool.accepted == []
    assert all(buffer.closed for buffer in buffers)


@pytest.mark.parametrize(("error", "reply"), [(SpoolFull("no"), "452 4.3.1"), (SpoolError("/var/x"), "451 4.3.0")])
async def test_b56_trouble_while_it_is_written_anew_is_transient(start: Start, error: Exception, reply: str) -> None:
    spool = MemorySpool()
    buffers: list[MemoryBuffer] = []

    class Failing(MemoryBuffer):
        def write(self, data: bytes) -> None:
            if len(buffers) == 2:
                raise error
            super().write(data)

    spool.buffer = lambda: buffers.append(Failing()) or buffers[-1]
    running = await start(spool=spool, long_lines="encode")
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(stuffed(HEAD + b"\r\n" + BODY))).startswith(reply)
        assert all(buffer.closed for buffer in buffers)
        assert (await client.submit(stuffed(HEAD + b"\r\n" + BODY))).startswith("250")


async def test_lin15_one_line_of_many_megabytes(start: Start, tmp_path: Path) -> None:
    """What is decoded is never longer in memory than the spool's buffer."""
    spool = MemorySpool(lambda: SpillBuffer(tmp_path))
    running = await start(spool=spool, long_lines="encode")
    body = b"0123456789abcde=" * 2**18 + b"\r\n"
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(HEAD + b"\r\n" + body)).startswith("250")
    assert decoded(spool.last[1]) == body


async def test_lin15_a_header_in_utf8(start: Start) -> None:
    """Whoever says SMTPUTF8 may have it with a long line, too (RFC 6531 section 3.4)."""
    running = await start(long_lines="encode")
    head = HEAD + "Subject: grüße\r\n".encode()
    async with await SmtpClient.connect(running.endpoint) as client:
        for line in ("EHLO c.test", "MAIL FROM:<app@shop.test> BODY=8BITMIME SMTPUTF8", "RCPT TO:<b@example.org>", "DATA"):
            await client.command(line)
        await client.send(stuffed(head + b"\r\n" + BODY) + b".\r\n")
        assert (await client.reply()).startswith("250")
    message, stored = running.spool.last
    assert message.utf8
    assert head in stored
    assert decoded(stored) == BODY


async def test_lin15_other_sessions_get_their_turn() -> None:
    """However large the pieces are that the spool gives, both times."""
    content = MemoryBuffer()
    content.write(b"\r\n" * 2**17 + b"x" * 999 + b"\r\n")
    work = asyncio.ensure_future(encoded(content, MemoryBuffer, utf8=False))
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 2 * 2**18 / 2**14
    assert isinstance(work.result(), Encoded)
