"""BDAT (RFC 3030): what is announced, what is swallowed, what becomes one message, over real connections."""

import asyncio
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mta.listener.chunking import Chunk, announced
from mta.listener.content import BARE_NEWLINE, LONG_LINE, NUL, ChunkDecoder
from mta.model.events import Refused
from mta.policy.acceptance import TOO_LARGE
from mta.spool.base import SpoolError, SpoolFull
from tests.listener.test_content import pieces
from tests.listener.test_session import Wire
from tests.support.smtp_client import SmtpClient
from tests.support.submission import MemoryBuffer, MemorySpool
from tests.support.virtual import run_virtual

HEAD = b"From: <a@shop.test>\r\nMessage-ID: <own@shop.test>\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n"
MAIL = HEAD + b"\r\n.\r\n..two\r\nhi\r\n"
STOPPING = "421 4.3.2 mail.out.test Service is shutting down, closing connection"
REFUSED = "503 5.5.1 A chunk was refused, send RSET"

Start = Callable[..., Any]


async def opened(client: SmtpClient) -> None:
    for line in ("EHLO client.test", "MAIL FROM:<a@shop.test>", "RCPT TO:<ann@example.org>"):
        assert (await client.command(line)).startswith("250")


async def bdat(client: SmtpClient, chunk: bytes, last: str = "") -> str:
    await client.send(f"BDAT {len(chunk)}{last}\r\n".encode() + chunk)
    return await client.reply()


def decode(chunks: list[bytes], bare_newlines: Any = "normalize", limit: int = 100_000) -> tuple[ChunkDecoder, bytes]:
    buffer = MemoryBuffer()
    decoder = ChunkDecoder(buffer, limit, bare_newlines)
    for chunk in chunks:
        decoder.feed(chunk)
    decoder.finish()
    return decoder, bytes(buffer.data)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(at % (len(data) + 1) for at in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def whole(meant: bytes) -> bytes:
    """Each line end as CRLF, the last one included."""
    text = re.sub(rb"\r\n|\r|\n", b"\r\n", meant)
    return text if text.endswith(b"\r\n") or not text else text + b"\r\n"


cuts = st.lists(st.integers(0, 200), max_size=8)


# ---------------------------------------------------------------- what is stored
@given(pieces, cuts)
@example(b"a\r\n.\r\nb", [2])
@example(b"a\r", [1])
@example(b"\r\n.\r", [])
@example(b".", [])
def test_dat11_lin04_chunks_may_be_cut_anywhere_and_no_dot_means_anything(meant: bytes, where: list[int]) -> None:
    """LIN-23: a last line without its end gets one."""
    decoder, stored = decode(cut(meant, where))
    assert decoder.fault is None
    assert stored == whole(meant)


@given(pieces, cuts)
def test_lin04_bare_newlines_are_refused_where_that_is_wanted(meant: bytes, where: list[int]) -> None:
    decoder, stored = decode(cut(meant, where), "reject")
    is_bare = re.search(rb"\r(?!\n)|(?<!\r)\n", meant) is not None
    assert decoder.fault == (BARE_NEWLINE if is_bare else None)
    assert is_bare or stored == whole(meant)


@given(st.integers(990, 1010), cuts, st.sampled_from([b"", b"\r\n"]))
@example(998, [], b"")
@example(999, [998], b"")
@example(3000, [1500], b"\r\n")
def test_lin14_lin15_lines_of_998_octets_are_the_longest(length: int, where: list[int], end: bytes) -> None:
    decoder, stored = decode(cut(HEAD + b"\r\n" + b"x" * length + end, where))
    assert decoder.fault == (None if length <= 998 else LONG_LINE)
    assert length > 998 or stored.endswith(b"\r\n" + b"x" * length + b"\r\n")


def test_nul_size_and_eight_bit_are_seen() -> None:
    assert decode([b"a\0", b"b"])[0].fault == NUL
    assert decode([b"abc\r\n", b"def\r\n"], limit=10)[0].fault is None
    assert decode([b"abc\r\n", b"def\r\n"], limit=9)[0].fault == TOO_LARGE
    assert decode([b"caf\xc3", b"\xa9"])[0].eight_bit


def test_b40_memory_is_bounded_while_too_much_is_drained() -> None:
    for chunk in (b"x" * 4096, b"\r\n", b"\r"):
        buffer = MemoryBuffer()
        decoder = ChunkDecoder(buffer, 10_000, "normalize")
        for _ in range(24_000 // len(chunk) + 2):
            decoder.feed(chunk)
        assert decoder.fault == TOO_LARGE
        assert len(buffer.data) <= 10_000
        assert len(decoder._pending) < 8192


# ---------------------------------------------------------------- the command
@pytest.mark.parametrize(
    ("argument", "chunk"),
    [
        ("0", Chunk(0, False)),
        ("0 LAST", Chunk(0, True)),
        ("12 last", Chunk(12, True)),
        ("12   \tLaSt", Chunk(12, True)),
        ("00000000000000000012", Chunk(12, False)),
        ("99999999999999999999", Chunk(10**20 - 1, False)),
        *((argument, None) for argument in ("000000000000000000001", "", "x", "-1", "+1", "0x10", "1.5", "١", "LAST")),
        *((argument, None) for argument in ("12LAST", "12 LAST LAST", "12 FIRST", "12\0")),
    ],
)
def test_dat16_sizes(argument: str, chunk: Chunk | None) -> None:
    assert announced(argument) == chunk


FLAWED = [b"BDAT %d\0", b"BDAT\t%d", b"bdat %d LASTX", b"BDAT %d" + b" " * 4100 + b"x", b"BDAT %d\xff"]


@pytest.mark.parametrize("line", FLAWED)
async def test_dat12_dat13_a_chunk_with_a_flaw_in_its_command_breaks_the_message(start: Start, line: bytes) -> None:
    """No message goes on without a chunk, whatever made of its octets commands."""
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        assert (await bdat(client, HEAD)).startswith("250 ")
        lost = b"Subject: lost\r\n"
        await client.send(line % len(lost) + b"\r\n" + lost)
        assert await client.reply() >= "250"
        await client.send(b"HELP\r\n")
        while not (said := await client.reply()).startswith("214 "):
            assert said.startswith("5"), said
        if line != b"BDAT\t%d":  # which is a good one
            assert (await bdat(client, b"\r\nbody\r\n", " LAST")).startswith("503 5.5.1 ")
            assert running.spool.accepted == []


async def test_dat12_one_who_may_not_submit_holds_no_session_with_a_chunk(start: Start) -> None:
    running = await start(allow=())
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.send(b"BDAT 99999999999999999999\r\n")
        assert (await client.reply()).startswith("421 4.7.0 ")
        assert await client.at_end()


async def test_dat10_dat03_a_message_in_chunks_is_stored_as_it_came(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        for chunk in cut(MAIL, [1, len(HEAD) - 1, len(HEAD) + 1, len(HEAD) + 3]):
            assert await bdat(client, chunk) == f"250 2.0.0 {len(chunk)} octets received"
        assert running.spool.accepted == []
        said = await bdat(client, b"", " LAST")
        message, content = running.spool.last
        assert said == f"250 2.0.0 Ok: queued as {message.queue_id}"
        assert content.endswith(MAIL)
        assert message.size == len(content)
        # DAT-05: all is clear, and the next message follows directly, by whichever way
        assert (await bdat(client, b"NOOP\r\n", " LAST")).startswith("503 5.5.1")
        assert (await client.submit(MAIL.replace(b"\r\n.", b"\r\n.."))).startswith("250")
    assert len(running.spool.accepted) == 2


async def test_dat10_ext06_all_of_a_session_in_one_burst(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        transaction = b"MAIL FROM:<a@shop.test>\r\nRCPT TO:<ann@example.org>\r\nBDAT %d\r\n%sBDAT %d LAST\r\n%s"
        one = transaction % (len(HEAD), HEAD, 7, b"\r\nQUIT\n")
        await client.send(b"EHLO client.test\r\n" + one + one + b"NOOP\r\nQUIT\r\n")
        said = await client.replies(11)
        assert [reply[:3] for reply in said] == ["250"] * 10 + ["221"]
        assert await client.at_end()
    assert [content.endswith(b"+0000\r\n\r\nQUIT\r\n") for _, content in running.spool.accepted] == [True, True]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 500), max_size=12))
def test_ext06_replies_and_content_are_the_same_however_the_input_is_cut(where: list[int]) -> None:
    begin = b"MAIL FROM:<a@b.test>\r\nRCPT TO:<r@d.test>\r\n"
    script = b"".join(
        [
            b"EHLO c.test\r\nBDAT 6\r\nQUIT\r\n",
            *(begin, b"BDAT 9\r\nA: b\r\n\r\n.BDAT 10\r\n\r\nx\n.\r\nQUIBDAT 3 LAST\r\nT\r\n"),
            *(b"BDAT 4 LAST\r\nRSET", begin, b"BDAT 6\r\n\0\r\nb\r\nBDAT 6\r\nQUIT\r\nDATA\r\nRSET\r\n"),
            *(begin, b"BDAT 0 LAST\r\nQUIT\r\n"),
        ]
    )

    async def run(pieces: list[bytes]) -> tuple[bytes, list[bytes]]:
        wire = Wire()
        for piece in pieces:
            wire.transport.feed(piece)
            await wire.settle()
        await wire.session.over
        return bytes(wire.transport.written), [content for _, content in wire.spool.accepted]

    replies, contents = run_virtual(run(cut(script, where)))
    assert (replies, contents) == run_virtual(run([script]))
    codes = [line[:3] for line in replies.split(b"\r\n")[:-1] if line[3:4] == b" "]
    expected = "220 250 503 250 250 250 250 250 503 250 250 554 503 503 250 250 250 250 221"
    assert codes == expected.encode().split()
    assert contents[0].endswith(b"+0000\r\n\r\n.\r\nx\r\n.\r\nQUIT\r\n")
    assert len(contents) == 2


@pytest.mark.parametrize("lines", [(), ("MAIL FROM:<a@shop.test>",), ("MAIL FROM:<a@shop.test>", "RCPT TO:<>")])
async def test_dat12_dat13_ses14_octets_of_a_refused_chunk_are_no_commands(start: Start, lines: tuple[str, ...]) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        for line in lines:
            await client.command(line)
        assert (await bdat(client, b"MAIL FROM:<evil@shop.test>\r\nNOOP\r\n")).startswith("503 5.5.1 ")
        assert (await bdat(client, b"QUIT\r\n", " LAST")).startswith("503 5.5.1 ")
        await client.command("RSET")
        assert (await client.submit(MAIL)).startswith("250")
    assert len(running.spool.accepted) == 1


async def test_dat12_ses29_one_who_may_only_leave_sends_no_commands_in_a_chunk(start: Start) -> None:
    running = await start(allow=())
    async with await SmtpClient.connect(running.endpoint) as client:
        assert client.greeting.startswith("554 ")
        for _ in range(18):
            assert (await bdat(client, b"QUIT\r\n", " LAST")).startswith("503 5.5.1 ")
        assert (await client.command("QUIT")).startswith("221 ")


async def test_ext07_a_chunk_that_is_awaited_holds_back_no_reply(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        await client.send(b"MAIL FROM:<a@shop.test>\r\nRCPT TO:<ann@example.org>\r\nBDAT 5\r\n")
        assert [(await client.reply())[:3] for _ in range(2)] == ["250", "250"]
        await client.send(b"Fr")
        await client.send(b"om:")
        assert await client.reply() == "250 2.0.0 5 octets received"


async def test_dat13_dat15_dat18_after_a_failed_chunk_nothing_but_rset_helps(start: Start) -> None:
    running = await start(max_message_size=1024)
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        assert (await bdat(client, HEAD)).startswith("250")
        assert await bdat(client, b"y" * 70 + b"\r\n" + b"QUIT\r\n" * 200) == f"{TOO_LARGE}"
        assert await bdat(client, b"NOOP\r\n") == REFUSED
        assert await bdat(client, b"NOOP\r\n", " LAST") == REFUSED
        assert await client.command("DATA") == REFUSED
        assert (await client.command("RCPT TO:<bob@example.org>")).startswith("503 5.5.1")
        assert (await client.command("MAIL FROM:<a@shop.test>")).startswith("503 5.5.1")
        assert await client.command("RSET") == "250 2.0.0 Ok"
        await opened(client)
        assert (await bdat(client, MAIL, " LAST")).startswith("250")
    assert running.facts[0] == Refused("127.0.0.1", str(TOO_LARGE), "content")
    assert running.spool.last[1].endswith(MAIL)
    assert len(running.spool.accepted) == 1


@pytest.mark.parametrize(
    "flaw", [b"\0", b"x" * 999 + b"\r\n", b"x" * 70_000], ids=["nul", "long-line", "longer-line"]
)
@pytest.mark.parametrize("last", ["", " LAST"])
async def test_lin04_what_data_refuses_bdat_refuses(start: Start, flaw: bytes, last: str) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        await bdat(client, HEAD + b"\r\n")
        said = await bdat(client, b"a" + flaw + b"\r\nb\r\n", last)
        assert said.startswith("554 5.6.0")
        assert (await bdat(client, b"x\r\n", " LAST")).startswith("503 5.5.1")
        assert running.spool.accepted == []
        await client.command("RSET")
        assert (await client.submit(HEAD + b"\r\n")).startswith("250")


async def test_dat15_dat14_data_and_rcpt_come_before_bdat_or_not_at_all(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        await bdat(client, HEAD)
        assert await client.command("DATA") == "503 5.5.1 The message was begun with BDAT"
        assert await client.command("RCPT TO:<bob@example.org>") == "503 5.5.1 RCPT comes before BDAT"
        assert await client.command("NOOP") == "250 2.0.0 Ok"
        assert (await bdat(client, b"\r\nhi", " LAST")).startswith("250")
    assert running.spool.last[1].endswith(HEAD + b"\r\nhi\r\n")
    assert [it.address for it in running.spool.last[0].recipients] == ["ann@example.org"]


@pytest.mark.parametrize("end", ["RSET", "EHLO client.test", "HELO client.test"])
async def test_dat18_ses16_ses07_what_ends_a_transaction_drops_its_chunks(start: Start, end: str) -> None:
    spool = MemorySpool()
    buffers: list[MemoryBuffer] = []
    spool.buffer = lambda: buffers.append(MemoryBuffer()) or buffers[-1]
    running = await start(spool=spool)
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        await bdat(client, HEAD + b"X-Old: y\r\n")
        assert (await client.command(end)).startswith("250")
        assert buffers[0].closed
        await opened(client)
        assert (await bdat(client, MAIL, " LAST")).startswith("250")
    assert b"X-Old" not in running.spool.last[1]
    assert len(running.spool.accepted) == 1


@pytest.mark.parametrize("line", [b"BDAT all", b"BDAT 5\x07", b"BDAT \xb2", b"BDAT 0000000000000000000001"])
async def test_dat16_a_size_that_is_none_loses_the_message(start: Start, line: bytes) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        await bdat(client, HEAD)
        assert await client.command(line) == "501 5.5.4 Syntax: BDAT size [LAST]"
        assert await bdat(client, b"", " LAST") == REFUSED
    assert running.spool.accepted == []


async def test_dat17_binarymime_is_not_offered_and_not_taken(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        hello = await client.command("EHLO client.test")
        assert "CHUNKING" in hello
        assert "BINARYMIME" not in hello
        assert (await client.command("MAIL FROM:<a@shop.test> BODY=BINARYMIME")).startswith("501 5.5.4")
        assert (await client.command("MAIL FROM:<a@shop.test>")).startswith("250")


async def test_an_early_end_of_the_connection_drops_the_chunks(start: Start) -> None:
    """SES-22."""
    spool = MemorySpool()
    closed = asyncio.Event()

    class Watched(MemoryBuffer):
        def close(self) -> None:
            closed.set()

    spool.buffer = Watched
    running = await start(spool=spool)
    for rest in (b"", b"BDAT 100 LAST\r\nonly some"):
        closed.clear()
        async with await SmtpClient.connect(running.endpoint) as client:
            await opened(client)
            await bdat(client, HEAD)
            await client.send(rest)
            client.half_close()
            await closed.wait()
    assert spool.accepted == []


@pytest.mark.parametrize(
    ("error", "reply"), [(SpoolFull("no space"), "452 4.3.1"), (SpoolError("SQL of /var/x"), "451 4.3.0")]
)
@pytest.mark.parametrize("where", ["buffer", "write", "accept"])
async def test_dat12_dat07_trouble_of_our_own_is_transient(start: Start, error: Exception, reply: str, where: str) -> None:
    spool = MemorySpool()
    buffer_of = spool.buffer

    def fail(*_: object) -> Any:
        raise error

    def failing() -> Any:
        buffer = buffer_of()
        buffer.write = fail  # type: ignore[method-assign]
        return buffer

    async def fail_to_accept() -> None:
        raise error

    spool.buffer = {"buffer": fail, "write": failing, "accept": buffer_of}[where]
    spool.before_accept = fail_to_accept if where == "accept" else None
    running = await start(spool=spool)
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        said = await bdat(client, MAIL, " LAST")
        assert said.startswith(reply)
        assert "/var" not in said
        spool.buffer, spool.before_accept = buffer_of, None
        await opened(client)
        assert (await bdat(client, MAIL, " LAST")).startswith("250")


# ---------------------------------------------------------------- time and the end
def test_ses25_octets_of_a_chunk_are_progress() -> None:
    async def run() -> None:
        wire = Wire(timeout=300)
        wire.transport.feed(b"EHLO c\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nBDAT 100\r\n")
        for _ in range(10):
            await asyncio.sleep(299)
            wire.transport.feed(b"x")
        assert not wire.transport.closed.is_set()
        await wire.transport.closed.wait()
        assert wire.codes[-1] == b"421 4.4.2"
        assert wire.spool.accepted == []

    run_virtual(run())


async def test_ses25_silence_in_a_chunk_ends_the_session(start: Start) -> None:
    running = await start(timeout=0.2)
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        await client.send(b"BDAT 1000 LAST\r\n" + HEAD)
        said = await client.reply()
        assert said == "421 4.4.2 mail.out.test Timeout, closing connection"
        assert await client.at_end()
    assert running.spool.accepted == []


async def test_b50_ses24_a_message_whose_chunks_are_on_their_way_may_arrive(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        await bdat(client, HEAD)
        stopped = asyncio.create_task(running.listener.stop(10))
        await asyncio.sleep(0)
        assert (await bdat(client, b"\r\nhi")).startswith("250 2.0.0 4 octets")
        await client.send(b"BDAT 0 LAST\r\nNOOP\r\n")
        assert (await client.reply()).startswith("250 2.0.0 Ok: queued as")
        assert await client.reply() == STOPPING
        await stopped
    assert len(running.spool.accepted) == 1


@pytest.mark.parametrize("rest", [b"", b"BDAT 100 LAST\r\nsome"])
async def test_ses24_chunks_that_are_late_get_421(start: Start, rest: bytes) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await opened(client)
        await bdat(client, HEAD)
        await client.send(rest)
        await running.listener.stop(0.02)
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
        await opened(client)
        await client.send(b"BDAT %d LAST\r\n%s" % (len(MAIL), MAIL))
        await entered.wait()
        stopped = asyncio.create_task(running.listener.stop(0.01))
        assert await client.quiet(0.05) == b""
        released.set()
        assert (await client.reply()).startswith("250 2.0.0 Ok: queued as")
        assert await client.reply() == STOPPING
        await stopped
