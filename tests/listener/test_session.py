"""A session's course: order of replies, half-closed and broken connections, time, junk."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.listener.connection import LINGER, REPLIES_LIMIT
from mta.listener.content import ChunkDecoder, ContentDecoder
from mta.listener.protocol import BARRED_TIMEOUT, CHUNK, SubmissionSession
from mta.listener.server import Listener
from mta.model.events import Refused
from mta.spool.base import Spool
from tests.support import submission
from tests.support.memory_transport import MemoryTransport
from tests.support.smtp_client import SmtpClient
from tests.support.submission import FixedClock, MemorySpool, SeededEntropy
from tests.support.virtual import run_virtual

Start = Callable[..., Any]
GREETING = b"220 mail.out.test ESMTP mta\r\n"
WHOLE = (
    b"EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.org>\r\nDATA\r\nSubject: x\r\n\r\n..x\r\n.\r\n"
)


class Wire:
    """A session over a transport in memory."""

    def __init__(self, peername: Any = ("127.0.0.1", 50000), **changes: Any) -> None:
        self.spool = MemorySpool()
        self.facts: list[Any] = []
        rules, nowhere = submission.settings(**changes), cast(Any, None)
        self.listener = Listener(
            rules, cast(Spool, self.spool), FixedClock(), SeededEntropy(), self.facts.append, nowhere
        )
        self.session: SubmissionSession = self.listener._session()
        self.transport = MemoryTransport(self.session, peername)

    @property
    def codes(self) -> list[bytes]:
        return [line[:9] for line in bytes(self.transport.written).split(b"\r\n")[1:-1] if line[3:4] == b" "]

    async def settle(self) -> None:
        """Until the session waits for the client again."""
        for _ in range(10):
            await asyncio.sleep(0)


# ---------------------------------------------------------------- order
@settings(max_examples=60)
@given(st.lists(st.integers(0, 400), max_size=12))
def test_ext06_replies_and_content_are_the_same_however_the_input_is_cut(cuts: list[int]) -> None:
    script = (
        b"NOOP\nx\r\nEHLO c.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<@@>\r\nRCPT TO:<r@d.test>\r\nDATA\r\nA: b\r\n\r\n"
        b"..x\r\n.\n\r.\r\n..\r\n.\r\nRSET\r\nDATA\r\nMAIL FROM:<> SIZE=1\r\nRCPT TO:<q@d.test>\r\nDATA\r\n.\r\n"
        b"VRFY x\r\nQUIT\r\n"
    )

    async def run(edges: list[int]) -> tuple[bytes, list[bytes]]:
        wire = Wire()
        for begin, end in zip([0, *edges], [*edges, len(script)], strict=True):
            wire.transport.feed(script[begin:end])
            await wire.settle()
        await wire.session.over
        return bytes(wire.transport.written), [content for _, content in wire.spool.accepted]

    replies, contents = run_virtual(run(sorted(cut % len(script) for cut in cuts)))
    assert (replies, contents) == run_virtual(run([]))
    codes = [line[:3] for line in replies.split(b"\r\n")[:-1] if line[3:4] == b" "]
    assert codes == b"220 500 250 250 501 250 354 250 250 503 250 250 354 250 252 221".split()
    assert contents[0].endswith(b"\r\n\r\n.x\r\n.\r\n\r\n.\r\n.\r\n")


async def test_ext07_replies_wait_while_complete_commands_are_buffered() -> None:
    wire = Wire()
    await wire.settle()
    writes: list[bytes] = []
    wire.transport.write = writes.append  # type: ignore[method-assign]
    wire.transport.feed(b"HELO c\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nRCPT TO:<e@d.test>\r\nRSET\r\nMAIL")
    await wire.settle()
    assert [chunk.count(b"\r\n") for chunk in writes] == [5]


async def test_a_client_that_pipelines_without_end_gets_its_replies_in_pieces() -> None:
    wire = Wire()
    await wire.settle()
    wire.transport.feed(b"RSET\r\n" * 5000)
    await asyncio.sleep(0.01)
    await wire.settle()
    assert wire.transport.written.count(b"250 2.0.0 Ok\r\n") == 5000


def test_a_client_that_reads_no_reply_is_not_served_for_ever() -> None:
    async def run() -> None:
        wire = Wire(timeout=300)
        await wire.settle()
        wire.session.pause_writing()
        wire.transport.stuck = True
        wire.transport.feed(b"NOOP\r\nNOOP\r\n")
        await wire.settle()
        assert wire.codes == []
        began = asyncio.get_running_loop().time()
        await wire.transport.closed.wait()
        await wire.session.over
        assert asyncio.get_running_loop().time() - began == pytest.approx(300 + LINGER)

    run_virtual(run())


# ---------------------------------------------------------------- clients that go away
@pytest.mark.parametrize("how", ["half-close", "close", "reset"])
async def test_b01_a_client_that_hangs_up_while_its_message_is_committed(
    start: Start, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = MemorySpool()
    entered, released, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    for hook in ("eof_received", "connection_lost"):
        stock = getattr(SubmissionSession, hook)
        monkeypatch.setattr(SubmissionSession, hook, lambda *args, stock=stock: (gone.set(), stock(*args))[1])

    async def slow() -> None:
        entered.set()
        await released.wait()

    spool.before_accept = slow
    running = await start(spool=spool)
    client = await SmtpClient.connect(running.endpoint)
    await client.send(WHOLE)
    await entered.wait()
    {"half-close": client.half_close, "close": client.writer.close, "reset": client.reset}[how]()
    await gone.wait()
    released.set()
    await spool.arrived.wait()
    assert [message.recipients[0].address for message, _ in spool.accepted] == ["b@example.org"]
    assert spool.accepted[0][1].endswith(b"\r\n\r\n.x\r\n")
    if how == "half-close":
        assert [reply[:3] for reply in await client.replies(5)] == ["250", "250", "250", "354", "250"]
        assert await client.at_end()
    client.writer.close()


def test_b01_a_half_closed_session_is_answered_on_uvloop_too() -> None:
    async def run() -> None:
        async with submission.bench() as running, await SmtpClient.connect(running.endpoint) as client:
            await client.send(WHOLE)
            client.half_close()
            assert [reply[:3] for reply in await client.replies(5)] == ["250", "250", "250", "354", "250"]
            assert await client.at_end()
            assert len(running.spool.accepted) == 1

    uvloop.run(run())


@pytest.mark.parametrize("sent", [WHOLE[:-3], WHOLE[:-2], WHOLE[:60]])
async def test_b01_ses22_without_the_whole_end_mark_nothing_is_queued(start: Start, sent: bytes) -> None:
    running = await start()
    client = await SmtpClient.connect(running.endpoint)
    await client.send(sent)
    client.half_close()
    while not await client.at_end():
        pass
    assert running.spool.accepted == []
    client.writer.close()


async def test_ses21_quit_drops_an_open_transaction(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        for line in ("EHLO c.test", "MAIL FROM:<a@b.test>", "RCPT TO:<c@d.test>"):
            await client.command(line)
        assert await client.command("QUIT now") == "501 5.5.4 No argument is allowed"
        assert await client.command("QUIT") == "221 2.0.0 Bye"
        assert await client.at_end()
    assert running.spool.accepted == []


async def test_lin01_a_refused_line_with_a_bare_lf_says_how_lines_end(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert await client.command("NOOP\nNOOP") == "500 5.5.2 Command not recognized: lines end with CR LF"
        for line in ("NOOP x\ny", "MAIL FROM:<a@b.test>\nRCPT TO:<c@d.test>", "EHLO c.test\n"):
            assert await client.command(line) == "501 5.5.2 Argument has a bare LF: lines end with CR LF"
        assert await client.command("NOPE") == "500 5.5.2 Command not recognized"


# ---------------------------------------------------------------- time
def test_ses25_an_idle_client_hears_421() -> None:
    async def run() -> None:
        wire = Wire(timeout=300)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(5):
            await asyncio.sleep(200)
            wire.transport.feed(b"NOOP\r\n")
        await wire.transport.closed.wait()
        assert loop.time() - began == pytest.approx(5 * 200 + 300)
        assert wire.codes == [b"250 2.0.0"] * 5 + [b"421 4.4.2"]

    run_virtual(run())


def test_content_that_makes_progress_is_not_cut_and_one_that_stops_is() -> None:
    async def run() -> None:
        wire = Wire(timeout=300)
        wire.transport.feed(WHOLE[:-9])
        for _ in range(10):
            await asyncio.sleep(299)
            wire.transport.feed(b"x")
        assert not wire.transport.closed.is_set()
        await wire.transport.closed.wait()
        assert wire.codes[-1] == b"421 4.4.2"
        assert wire.spool.accepted == []

    run_virtual(run())


def test_a_command_that_drips_is_no_progress() -> None:
    async def run() -> None:
        wire = Wire(timeout=300)
        for _ in range(4):
            await asyncio.sleep(99)
            wire.transport.feed(b"N")
        await wire.settle()
        assert wire.codes == [b"421 4.4.2"]

    run_virtual(run())


def test_a_commit_may_take_longer_than_a_client_may_be_idle() -> None:
    async def run() -> None:
        wire = Wire(timeout=300)
        wire.spool.before_accept = lambda: asyncio.sleep(1000)
        wire.transport.feed(WHOLE)
        await asyncio.sleep(1100)
        assert wire.codes[-1] == b"250 2.0.0"
        await wire.transport.closed.wait()
        assert wire.codes[-1] == b"421 4.4.2"

    run_virtual(run())


# ---------------------------------------------------------------- lines
async def test_lin11_a_line_of_any_length_is_one_mistake(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command(b"NOOP " + b"x" * 4089)).startswith("250")
        assert (await client.command(b"NOOP " + b"x" * 4090)).startswith("500 5.5.2")
        await client.send(b"NOOP " + b"x" * 2_000_000)
        assert await client.quiet(0.05) == b""
        assert (await client.command(b"x\r\nNOOP")).startswith("500 5.5.2")
        assert await client.reply() == "250 2.0.0 Ok"


def test_lin11_memory_is_bounded_by_pausing_the_transport() -> None:
    async def run() -> None:
        wire = Wire()
        wire.spool.before_accept = lambda: asyncio.sleep(1)
        wire.transport.feed(WHOLE)
        await wire.settle()
        for _ in range(3):
            wire.transport.feed(b"RSET\r\n" * 6000)
        assert not wire.transport.reading
        await asyncio.sleep(2)
        assert wire.transport.reading
        assert wire.transport.written.count(b"250 2.0.0 Ok\r\n") == 18_000

    run_virtual(run())


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"NOOP\nNOOP", "500 5.5.2"),
        (b"NO\0OP", "500 5.5.2"),
        (b"NOOP \0", "500 5.5.2"),
        (b"NOOP \x07", "501 5.5.2"),
        (b"EHLO caf\xc3\xa9.test", "501 5.5.2"),
        (b"QUIT\r", "500 5.5.2"),
        (b"", "500 5.5.2"),
        (b"VRFY", "501 5.5.4"),
        (b"EXPN staff", "502 5.5.1"),
        (b"HELP", "214 2.0.0"),
        (b"BURL imap", "500 5.5.2"),
        (b"BDAT", "501 5.5.4"),
        (b"BDAT x", "501 5.5.4"),
        (b"BDAT 0", "503 5.5.1"),
        (b"STARTTLS", "502 5.5.1"),
        (b"AUTH PLAIN x", "500 5.5.2"),
    ],
)
async def test_lin01_lin12_lin13_lin24_odd_commands(start: Start, line: bytes, reply: str) -> None:
    """SES-18, SES-19, SES-20."""
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command(line)).startswith(reply)
        assert await client.command("NOOP") == "250 2.0.0 Ok"


async def test_ses28_junk_without_end_ends_the_session_with_a_word(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.send(b"GETMAIL\r\n" * 20)
        said = await client.replies(20)
        assert said[:19] == ["500 5.5.2 Command not recognized"] * 19
        assert said[19].startswith("421 4.7.0 mail.out.test ")
        assert await client.at_end()


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1:2525\r\n\r\n", [b"500 5.5.2", b"421 4.7.0"]),
        (b"post /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: 127.0.0.1:2525\r\n\r\n", [b"500 5.5.2", b"421 4.7.0"]),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n", [b"421 4.7.0"]),
        (b"\x16\x03\x01\x02\x00" + b"\0" * 5000 + b"\r\n", [b"421 4.7.0"]),
    ],
    ids=["HTTP", "HTTP with a long path", "TLS", "TLS with a long hello"],
)
async def test_ses28_what_another_protocol_carries_is_no_mail(line: bytes, codes: list[bytes]) -> None:
    """A web page in a browser on this machine, or who chooses what a TLS client says."""
    wire = Wire()
    await wire.settle()
    wire.transport.feed(line + WHOLE)
    await wire.settle()
    assert wire.codes == codes and wire.transport.closed.is_set()
    assert wire.spool.accepted == []


async def test_ses23_one_request_of_http_is_an_unknown_command() -> None:
    wire = Wire()
    await wire.settle()
    wire.transport.feed(b"GET / HTTP/1.1\r\n" + WHOLE)
    await wire.settle()
    assert wire.codes[0] == b"500 5.5.2" and len(wire.spool.accepted) == 1


# ---------------------------------------------------------------- who may come in
async def test_ses29_a_client_that_may_not_submit_may_only_leave(start: Start) -> None:
    running = await start(allow=())
    async with await SmtpClient.connect(running.endpoint) as client:
        assert client.greeting == "554 5.7.1 No mail is accepted from your address"
        assert (await client.command("EHLO c.test")).startswith("503 5.5.1")
        assert (await client.command("MAIL FROM:<a@b.test>")).startswith("503 5.5.1")
        assert await client.command("QUIT") == "221 2.0.0 Bye"
        assert await client.at_end()
    assert running.facts == [Refused("127.0.0.1", client.greeting, "connection")]


def test_ses29_and_not_for_long() -> None:
    async def run() -> None:
        wire = Wire(peername=("198.51.100.7", 1234))
        began = asyncio.get_running_loop().time()
        await wire.transport.closed.wait()
        assert asyncio.get_running_loop().time() - began == pytest.approx(BARRED_TIMEOUT)

    run_virtual(run())


@pytest.mark.parametrize(
    ("peername", "greeting"),
    [
        (("127.0.0.1", 1), b"220"),
        (("::1", 1, 0, 0), b"220"),
        (("::ffff:127.0.0.1", 1, 0, 0), b"220"),
        (("fe80::1%eth0", 1, 0, 2), b"554"),
        (("::ffff:192.0.2.1", 1, 0, 0), b"554"),
        (("192.0.2.1", 1), b"554"),
        ("", b"554"),
        (None, b"554"),
    ],
)
async def test_who_is_allowed(peername: Any, greeting: bytes) -> None:
    wire = Wire(peername=peername)
    await wire.settle()
    assert wire.transport.written.startswith(greeting)


async def test_a_client_too_many_hears_421_and_may_come_again(start: Start) -> None:
    running = await start(max_connections=2)
    first, second = [await SmtpClient.connect(running.endpoint) for _ in range(2)]
    third = await SmtpClient.connect(running.endpoint)
    assert third.greeting == "421 4.3.2 mail.out.test Too many connections, closing connection"
    assert await third.at_end()
    await first.command("QUIT")
    assert await first.at_end()
    fourth = await SmtpClient.connect(running.endpoint)
    assert fourth.greeting.startswith("220")
    for client in (first, second, third, fourth):
        client.writer.close()


@pytest.mark.parametrize("command", [b"NOOP\r\n", b"EHLO c\r\n", b"MAIL x\r\n"])
async def test_ses27_a_client_that_never_pauses_leaves_others_their_turn(command: bytes) -> None:
    wire = Wire()
    await wire.settle()
    count = 60_000 // len(command)
    wire.transport.feed(b"EHLO c\r\n" + command * count)
    said = len(wire.transport.written)
    steps = [said]
    while wire.session._inbox.octets:
        await asyncio.sleep(0)
        steps.append(len(wire.transport.written) - said)
        said = len(wire.transport.written)
    assert max(steps) < 2 * REPLIES_LIMIT
    await wire.settle()
    assert len(wire.codes) == count + 1, "and each is answered"


@pytest.mark.parametrize("verb", ["DATA", "BDAT"])
async def test_ses27_large_content_leaves_others_their_turn(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much a transport gives at once: a step of at most 64 KiB each turn."""
    turns, steps = 0, []
    feed, feed_chunk = ContentDecoder.feed, ChunkDecoder.feed

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda decoder, octets: steps.append((turns, len(octets))) or real(decoder, octets)

    monkeypatch.setattr(ContentDecoder, "feed", watched(feed))
    monkeypatch.setattr(ChunkDecoder, "feed", watched(feed_chunk))
    wire = Wire()
    await wire.settle()
    text = b"From: <a@example.com>\r\n\r\n" + b"x" * 998 + (b"\r\n" + b"x" * 998) * 500 + b"\r\n"
    begin = b"EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.org>\r\n"
    wire.transport.feed(begin + (b"DATA\r\n%b.\r\n" % text if verb == "DATA" else b"BDAT %d LAST\r\n%b" % (len(text), text)))
    while b"250 2.0.0" not in wire.codes:
        await asyncio.sleep(0)
        turns += 1
    assert sum(octets for _, octets in steps) >= len(text)
    assert max(octets for _, octets in steps) <= CHUNK
    assert len({turn for turn, _ in steps}) >= len(steps) - 1, "the first as it comes, then one each turn"


async def test_what_the_log_says_of_a_command_is_bounded() -> None:
    """However long the line, and whatever octets are made readable."""
    wire = Wire()
    await wire.settle()
    wire.transport.feed(b"EHLO c\r\nMAIL FROM:<" + b"\x80" * 4000 + b">\r\nMAIL FROM:<" + b"a" * 300 + b"@b.test>\r\n")
    await wire.settle()
    first, second = (fact.reason for fact in wire.facts if isinstance(fact, Refused))
    assert len(first) <= 405 and first.startswith("MAIL FROM:<\\x80")
    assert second == f"MAIL FROM:<{'a' * 300}@b.test>", "a path that is too long is shown whole"


async def test_ses25_what_comes_as_the_session_ends_is_not_taken() -> None:
    """SES-24: 421 stands for a message that was not taken, also where its last chunk is there when 421 is said."""
    wire = Wire()
    await wire.settle()
    wire.transport.feed(b"EHLO c\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nBDAT 3\r\n\r\nx")
    await wire.settle()
    wire.session.pause_writing()
    wire.transport.feed(b"BDAT 0 LAST\r\n")
    wire.session.dismiss("4.4.2", "Timeout, closing connection")
    wire.session.resume_writing()
    await wire.settle()
    assert wire.codes[-1] == b"421 4.4.2" and wire.spool.accepted == []


async def test_b53_no_name_is_looked_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> str:
        raise AssertionError("a name was looked up")

    for name in ("getfqdn", "gethostname", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, forbidden)
    running = await start()
    clients = [await SmtpClient.connect(running.endpoint) for _ in range(20)]
    for client in clients:
        assert client.greeting.split()[1] == "mail.out.test"
        assert (await client.submit(b"\r\nx\r\n")).startswith("250")
        client.writer.close()
    content = running.spool.last[1]
    assert content.count(b"mail.out.test") == 2, "in Received and in Message-ID"
