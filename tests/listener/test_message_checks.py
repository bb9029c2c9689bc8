"""Messages that are refused for what their header section says, and what is left of them where that is not wanted."""

from collections.abc import Callable
from typing import Any

import pytest

from mta.model.events import Refused
from mta.spool.base import SpoolError, SpoolFull
from tests.support.smtp_client import SmtpClient
from tests.support.submission import HOSTNAME, MemorySpool

OWN = b"Message-ID: <own@shop.test>\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n"
GOOD = b"From: a@shop.test\r\n" + OWN + b"\r\nhi\r\n"
FLAWED = {
    "hdr05-no-from": b"Subject: x\r\n\r\nx\r\n",
    "hdr05-two-from": b"From: a@b.test\r\nFrom: c@d.test\r\n\r\nx\r\n",
    "hdr05-two-subjects": b"From: a@b.test\r\nSubject: x\r\nSubject: y\r\n\r\nx\r\n",
    "hdr04-two-authors": b"From: a@b.test, c@d.test\r\n\r\nx\r\n",
    "dat23-mbox": b"From a Mon Jan  1 00:00:00 2024\r\nFrom: a@b.test\r\n\r\nx\r\n",
    "dat23-text": b"Hello\r\nyou\r\n",
    "dat23-no-empty-line": b"From: a@b.test\r\nSubject: x\r\nHello you\r\n",
    "dat22-empty": b"",
}

Start = Callable[..., Any]


@pytest.mark.parametrize("content", FLAWED.values(), ids=FLAWED)
@pytest.mark.parametrize("way", ["DATA", "BDAT"])
async def test_strict_refuses_once_and_the_session_goes_on(start: Start, content: bytes, way: str) -> None:
    """DAT-08, DAT-22, DAT-23, HDR-04, HDR-05."""
    running = await start(header_checks="strict")
    async with await SmtpClient.connect(running.endpoint) as client:
        if way == "DATA":
            said = await client.submit(content)
        else:
            for line in ("EHLO c.test", "MAIL FROM:<a@shop.test>", "RCPT TO:<b@example.org>"):
                await client.command(line)
            await client.send(b"BDAT %d LAST\r\n%s" % (len(content), content))
            said = await client.reply()
        assert said.startswith("554 5.6.0 ")
        assert running.facts == [Refused("127.0.0.1", said, "content")]
        assert (await client.submit(GOOD)).startswith("250")
    assert len(running.spool.accepted) == 1


@pytest.mark.parametrize("content", FLAWED.values(), ids=FLAWED)
async def test_lenient_takes_it_and_loses_nothing(start: Start, content: bytes) -> None:
    """HDR-05: unaltered, never merged; DAT-23: what is no header field becomes body."""
    running = await start(header_checks="lenient")
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(content)).startswith("250")
    stored = running.spool.last[1]
    assert all(line in stored.split(b"\r\n") for line in content.split(b"\r\n"))


async def test_hdr15_hdr16_a_return_path_is_left_and_never_the_envelope_s(start: Start) -> None:
    running = await start(header_checks="strict")
    content = b"Return-Path: <evil@shop.test>\r\nBcc: hidden@example.org\r\n" + GOOD
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(content, recipients=["b@example.org", "c@example.org"])).startswith("250")
    message, stored = running.spool.last
    assert message.reverse_path == "app@shop.test"
    assert stored.endswith(b"Return-Path: <evil@shop.test>\r\n" + GOOD)
    assert b"example.org" not in stored


async def test_hdr19_a_message_that_was_here_ten_times_is_refused(start: Start) -> None:
    running = await start(header_checks="lenient")
    hop = f"Received: from x\r\n\tby {HOSTNAME} with ESMTP id x;\r\n\tMon, 1 Jan 2024 00:00:00 +0000\r\n".encode()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(hop * 9 + GOOD)).startswith("250")
        assert (await client.submit(hop * 10 + GOOD)).startswith("554 5.4.6")


@pytest.mark.parametrize("body", ["", " BODY=7BIT", " BODY=8BITMIME"])
async def test_dat19_dat20_eight_bit_content_is_taken_and_labelled_whatever_was_said(start: Start, body: str) -> None:
    running = await start(header_checks="strict")
    content = GOOD + bytes(range(0x80, 0x100)) + b"\r\n"
    async with await SmtpClient.connect(running.endpoint) as client:
        for line in ("EHLO c.test", f"MAIL FROM:<a@shop.test>{body}", "RCPT TO:<b@example.org>", "DATA"):
            assert (await client.command(line))[0] in "23"
        await client.send(content + b".\r\n")
        assert (await client.reply()).startswith("250")
    message, stored = running.spool.last
    assert message.eight_bit
    assert stored.endswith(content)


@pytest.mark.parametrize(
    ("error", "reply"), [(SpoolFull("no space"), "452 4.3.1"), (SpoolError("of /var/x"), "451 4.3.0")]
)
async def test_ext04_a_size_for_which_there_is_no_room_is_refused_at_mail(
    start: Start, error: Exception, reply: str
) -> None:
    spool = MemorySpool()

    def check_room(octets: int) -> None:
        if octets > 1000:
            raise error

    spool.check_room = check_room  # type: ignore[method-assign]
    running = await start(spool=spool)
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        said = await client.command("MAIL FROM:<a@shop.test> SIZE=1001")
        assert said.startswith(reply)
        assert "/var" not in said
        for size in (" SIZE=1000", " SIZE=0", ""):
            assert (await client.command(f"MAIL FROM:<a@shop.test>{size}")).startswith("250")
            await client.command("RSET")


async def test_ext05_lin16_what_was_announced_and_taken_is_not_refused_for_its_size(start: Start) -> None:
    running = await start(max_message_size=65536)
    content = b"From: a@shop.test\r\n\r\n" + (b"." + b"x" * 61 + b"\r\n") * 1023
    content += b"x" * (65536 - len(content) - 2) + b"\r\n"
    async with await SmtpClient.connect(running.endpoint) as client:
        for line in ("EHLO c.test", "MAIL FROM:<a@shop.test> SIZE=65536", "RCPT TO:<b@example.org>", "DATA"):
            assert (await client.command(line))[0] in "23"
        await client.send(content.replace(b"\r\n.", b"\r\n..") + b".\r\n")
        assert (await client.reply()).startswith("250")
        assert (await client.submit(content.replace(b"\r\n.", b"\r\n..") + b"y\r\n")).startswith("552 5.3.4")
