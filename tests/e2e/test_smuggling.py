"""What looks like the end of a message and is none, from a client to the wire of the next server (B03, LIN-02 to LIN-04)."""

import re

import pytest

from tests.e2e.world import SENDER, World
from tests.support.daemon import until
from tests.support.smtp_client import SmtpClient, stuffed

HEAD = b"From: app@shop.test\r\nSubject: outer\r\n\r\nhi"
INNER = b"MAIL FROM:<evil@shop.test>\r\nRCPT TO:<victim@good.test>\r\nDATA\r\nFrom: evil@shop.test\r\n\r\ninner\r\n"
MARKS = {
    "lf-dot-crlf": b"\n.\r\n",
    "lf-dot-lf": b"\n.\n",
    "crlf-dot-lf": b"\r\n.\n",
    "cr-dot-cr": b"\r.\r",
    "crlf-dot-cr": b"\r\n.\r",
    "cr-dot-crlf": b"\r.\r\n",
    "crlf-dot-crcrlf": b"\r\n.\r\r\n",
    "crcrlf-dot-lf": b"\r\r\n.\n",
}
END = b"\r\n.\r\n"
"""Ends DATA, and nothing in a chunk."""


async def hand_over(client: SmtpClient, way: str, content: bytes) -> str:
    """The one reply to `content`, octet by octet as it is, and to the end that its way has."""
    for line in ("EHLO client.test", f"MAIL FROM:<{SENDER}>", "RCPT TO:<ann@good.test>"):
        assert (await client.command(line)).startswith("250")
    if way == "BDAT":
        await client.send(b"BDAT %d LAST\r\n%s" % (len(content), content))
    else:
        assert (await client.command("DATA")).startswith("354")
        await client.send(content + b".\r\n")
    reply = await client.reply()
    assert await client.command("NOOP") == "250 2.0.0 Ok", "another reply was on its way"
    return reply


@pytest.mark.parametrize("way", ["DATA", "BDAT"])
async def test_b03_lin02_lin04_nothing_is_smuggled_in_or_out(running: World, way: str) -> None:
    mx = await running.mx("good.test")
    marks = [*MARKS.values(), *([END] if way == "BDAT" else [])]
    async with await running.daemon.client() as client:
        for mark in marks:
            assert (await hand_over(client, way, HEAD + mark + INNER)).startswith("250 2.0.0 Ok: queued as"), mark
    await until(lambda: len(mx.messages) == len(marks))
    await until(running.daemon.idle)
    assert len(mx.messages) == len(running.daemon.logged("accepted", kind="mail")) == len(marks)
    for message in mx.messages:
        assert message.forward_paths == ["ann@good.test"]
        assert message.reverse_path == SENDER
        assert not re.search(rb"\r(?!\n)|(?<!\r)\n", message.content)
        assert message.content.endswith(INNER)


@pytest.mark.parametrize("way", ["DATA", "BDAT"])
async def test_b03_lin03_where_bare_newlines_are_refused_nothing_goes_out(world: World, way: str) -> None:
    world.configure("submission", bare_newlines="reject")
    mx = await world.mx("good.test")
    await world.daemon.start()
    async with await world.daemon.client() as client:
        for mark in MARKS.values():
            assert (await hand_over(client, way, HEAD + mark + INNER)).startswith("554 5.6.0"), mark
        assert (await hand_over(client, way, HEAD + b"\r\0\n.\r\n" + INNER)).startswith("554 5.6.0")
        assert (await hand_over(client, way, HEAD + b"\r\n")).startswith("250")
    await until(lambda: mx.messages)
    assert await until(world.daemon.idle)
    assert len(mx.messages) == 1


async def test_lin21_lin22_lin23_dat19_a_chunked_message_arrives_as_it_was_meant(running: World) -> None:
    """Dots, 8-bit octets, chunks cut inside CRLF, no end of line at the end."""
    mx = await running.mx("good.test")
    body = b".\r\n..\r\n.x\r\n\ttab \r\n\xe9\xff\r\n" + b"x" * 998 + b"\r\n\r\n.last"
    content = b"From: app@shop.test\r\n\r\n" + body
    async with await running.daemon.client() as client:
        for line in ("EHLO client.test", f"MAIL FROM:<{SENDER}>", "RCPT TO:<ann@good.test>"):
            await client.command(line)
        for start in range(0, len(content), 7):
            chunk = content[start : start + 7]
            await client.send(b"BDAT %d\r\n%s" % (len(chunk), chunk))
            assert (await client.reply()).startswith("250")
        assert (await client.command("BDAT 0 LAST")).startswith("250 2.0.0 Ok: queued as")
        assert (await client.submit(stuffed(content), SENDER, ["ann@good.test"])).startswith("250")
    chunked, plain = await until(lambda: mx.messages if len(mx.messages) == 2 else None)
    assert chunked.content.partition(b"\r\n\r\n")[2] == plain.content.partition(b"\r\n\r\n")[2] == body + b"\r\n"
    assert sum("BODY=8BITMIME" in line for line in mx.commands) == 2
