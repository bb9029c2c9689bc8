"""Content in chunks (RFC 3030): what goes out, what is awaited, and what is made of what comes back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.outcome import Observation, Phase, Seen
from mta.ports.smtp import Timeouts
from mta.smtp.chunking import AHEAD, CHUNK, LAST, Cutter
from mta.smtp.session import SmtpSession
from mta.smtp.stuffing import DamagedContent
from tests.smtp.support import BRISK, PATIENT, Gate, chunks, code, ended, fact, greeted
from tests.support.mx import EXTENSIONS, Close, Hold, Reset, ScriptedMx, Silence, Step, Unread, server_tls

CHUNKING = (*EXTENSIONS, "CHUNKING")
LINE = b".%097d\r\n" % 0
"""100 octets; it begins with a dot."""
LARGE = b"Subject: x\r\n\r\n" + LINE * 8000
"""Six chunks and the last."""
SIZES = (*(CHUNK,) * 6, len(LARGE) - 6 * CHUNK - LAST, LAST)


async def ready(mx: ScriptedMx, timeouts: Timeouts = PATIENT, *, pipelined: bool = True) -> SmtpSession:
    """As far as the first chunk."""
    session = await greeted(mx, timeouts)
    replies = await session.envelope("a@example.com", (), ("b@example.org",), pipelined=pipelined, chunked=True)
    code(replies.rcpts[0], 250)
    assert replies.data is None
    return session


async def send(
    session: SmtpSession, content: bytes = LARGE, gate: Gate | None = None, *, pipelined: bool = True
) -> Observation:
    parts = [content[start : start + 50_000] for start in range(0, len(content), 50_000)]
    return await session.chunks(chunks(*parts), gate or Gate(), pipelined=pipelined)


def commands(mx: ScriptedMx) -> list[str]:
    return [line for line in mx.commands if line.startswith("BDAT")]


# ---------------------------------------------------------------- the ordinary case
@pytest.mark.parametrize("pipelined", [True, False])
async def test_what_goes_out(pipelined: bool) -> None:
    async with ScriptedMx(extensions=CHUNKING) as mx:
        session = await ready(mx, pipelined=pipelined)
        gate = Gate()
        assert fact(await send(session, gate=gate, pipelined=pipelined)) == (Phase.FINAL, 250)
        assert session.usable
    [message] = mx.messages
    assert message.content == LARGE, "nothing is stuffed"
    assert message.chunks == SIZES
    assert commands(mx) == [*(f"BDAT {size}" for size in SIZES[:-1]), f"BDAT {LAST} LAST"]
    assert (gate.passed, "DATA" in mx.connections[0].verbs) == (1, False)


async def test_a_session_carries_both_kinds_one_after_the_other() -> None:
    async with ScriptedMx(extensions=CHUNKING, tls=server_tls()) as mx:
        session = await greeted(mx)
        await session.starttls()
        await session.hello("EHLO")
        for is_chunked in (True, False, True):
            replies = await session.envelope("a@x.example", (), ("b@x.example",), pipelined=True, chunked=is_chunked)
            assert (replies.data is None) == is_chunked
            sent = send(session) if is_chunked else session.content(chunks(LARGE), Gate())
            assert fact(await sent) == (Phase.FINAL, 250)
    assert [message.content for message in mx.messages] == [LARGE] * 3


@pytest.mark.parametrize("content", [b"", b"x\r\n", b"x\r\n" * (LAST // 3), b"x\r\n" * LAST])
async def test_content_of_any_size(content: bytes) -> None:
    async with ScriptedMx(extensions=CHUNKING) as mx:
        assert fact(await send(await ready(mx), content)) == (Phase.FINAL, 250)
    assert mx.messages[0].raw == content


@given(st.lists(st.binary(max_size=3), max_size=40), st.booleans(), st.data())
def test_b39_chunks_are_the_content_however_it_comes(lines: list[bytes], ended: bool, data: st.DataObject) -> None:
    """With the last CRLF, as DATA brings it."""
    kept = [line.translate(None, b"\r\n") for line in lines]
    content = b"\r\n".join([b"z" * CHUNK, *kept]) + (b"\r\n" if ended else b"")
    cuts = sorted(data.draw(st.sets(st.integers(CHUNK, len(content)), max_size=5)))
    cutter = Cutter()
    found = [
        chunk for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)
        for chunk in cutter.feed(content[start:end])
    ]  # fmt: skip
    found += cutter.finish()
    assert b"".join([*found, cutter.last]) == content + (b"" if content.endswith(b"\r\n") else b"\r\n")
    assert 0 < len(cutter.last) <= LAST


@pytest.mark.parametrize("content", [b"a\nb\r\n", b"a\r\n.\r", b"x\rb"])
async def test_b03_damaged_content_never_leaves(content: bytes) -> None:
    async with ScriptedMx(extensions=CHUNKING) as mx:
        session = await ready(mx)
        with pytest.raises(DamagedContent):
            await session.chunks(chunks(b"x\r\n", content), Gate(), pipelined=True)
        await mx.connections[0].closed.wait()
        assert (mx.messages, commands(mx)) == ([], [])


# ---------------------------------------------------------------- how far ahead
@pytest.mark.parametrize(("pipelined", "ahead"), [(True, AHEAD), (False, 1)])
async def test_so_many_chunks_go_ahead_of_their_replies(pipelined: bool, ahead: int) -> None:
    """Without PIPELINING each waits for the reply to the one before."""
    held = [Hold("250 ok") for _ in SIZES[:-1]]
    async with ScriptedMx({"BDAT": list(held)}, extensions=CHUNKING) as mx:
        session = await ready(mx, pipelined=pipelined)
        sending = asyncio.create_task(send(session, pipelined=pipelined))
        await held[0].reached.wait()
        begun = b"".join(b"BDAT %d\r\n%b" % (CHUNK, LARGE[n * CHUNK :][:CHUNK]) for n in range(ahead))
        await mx.until(lambda: mx.connections[0].received.endswith(begun))
        for _ in range(3):
            await asyncio.sleep(0)
        assert mx.connections[0].received.endswith(begun)
        for it in held:
            it.release()
        assert fact(await sending) == (Phase.FINAL, 250)


async def test_the_last_chunk_waits_for_the_others_and_for_the_gate() -> None:
    """No octet of `BDAT ... LAST` leaves before."""
    last_reply = Hold("250 ok")
    steps: list[Any] = ["250 ok"] * 6 + [last_reply]
    async with ScriptedMx({"BDAT": steps}, extensions=CHUNKING) as mx:
        session = await ready(mx)
        reached, open_ = asyncio.Event(), asyncio.Event()

        async def gate() -> None:
            reached.set()
            await open_.wait()

        sending = asyncio.create_task(session.chunks(chunks(LARGE), gate, pipelined=True))
        await last_reply.reached.wait()
        assert not reached.is_set()
        last_reply.release()
        await reached.wait()
        assert mx.connections[0].received.endswith(LARGE[:-LAST][-1000:])
        open_.set()
        assert fact(await sending) == (Phase.FINAL, 250)


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("reply", ["552 5.3.4 too big", "452 4.3.1 no room"])
async def test_a_refused_chunk_is_the_last_that_is_sent_and_the_session_stays_in_step(reply: str, pipelined: bool) -> None:
    """Those that were ahead are refused as well (RFC 3030 section 2): the first word counts."""
    steps = ["250 ok", reply, *["503 5.5.1 no more chunks"] * AHEAD]
    async with ScriptedMx({"BDAT": steps}, extensions=CHUNKING) as mx:
        session = await ready(mx, pipelined=pipelined)
        gate = Gate()
        assert fact(await send(session, gate=gate, pipelined=pipelined)) == (Phase.BDAT, int(reply[:3]))
        assert (gate.passed, session.usable) == (0, True)
        assert fact(await session.reset()) == (Phase.RSET, 250)
    assert 2 <= len(commands(mx)) <= (AHEAD + 2 if pipelined else 2)
    assert not any("LAST" in line for line in commands(mx))


@pytest.mark.parametrize("reply", ["500 5.5.2 what?", "502 5.5.1 what?"])
async def test_a_server_that_knows_no_chunks_gets_no_more_of_them(reply: str) -> None:
    async with ScriptedMx({"BODY": (reply, Unread())}, extensions=CHUNKING) as mx:
        session = await ready(mx)
        assert fact(await send(session, LARGE * 10)) == (Phase.BDAT, int(reply[:3]))
        assert not session.usable
    assert len(mx.connections[0].received) < CHUNK * (AHEAD + 1)


ENDS: list[tuple[Step, int | Seen]] = [
    (("421 4.3.2 closing", Close()), 421),
    ("354 go on", 354),
    ("hello world", Seen.MALFORMED),
    (Close(), Seen.LOST),
    (Reset(), Seen.LOST),
    (Silence(), Seen.TIMEOUT),
]


@pytest.mark.parametrize("stage", ["BODY", "BDAT"])
@pytest.mark.parametrize(("step", "seen"), ENDS)
async def test_trouble_before_the_last_chunk_is_no_doubt(step: Step, seen: int | Seen, stage: str) -> None:
    """At the command, and behind the octets."""
    async with ScriptedMx({stage: step}, extensions=CHUNKING) as mx:
        session = await ready(mx, BRISK if seen is Seen.TIMEOUT else PATIENT)
        gate = Gate()
        assert fact(await send(session, gate=gate)) == (Phase.BDAT, seen)
        assert (gate.passed, session.usable) == (0, False)


async def test_b15_two_replies_to_a_chunk_are_no_replies() -> None:
    """One would answer the last chunk."""
    async with ScriptedMx({"BDAT": ["250 ok"] * 6 + ["250 ok\r\n250 ok"]}, extensions=CHUNKING) as mx:
        session = await ready(mx)
        gate = Gate()
        assert fact(await send(session, gate=gate)) == (Phase.BDAT, Seen.MALFORMED)
        assert (gate.passed, session.usable, mx.messages) == (0, False, [])


async def test_a_server_that_takes_no_chunk() -> None:
    async with ScriptedMx({"BODY": Unread()}, extensions=CHUNKING) as mx:
        session = await ready(mx, Timeouts(data=0.2))
        assert fact(await send(session, LINE * 200_000)) == (Phase.BDAT, Seen.TIMEOUT)


async def test_b57_a_refusal_counts_although_the_connection_ended() -> None:
    async with ScriptedMx({"BDAT": ["250 ok", ("552 5.3.4 too big", Close())]}, extensions=CHUNKING) as mx:
        session = await ready(mx)
        assert fact(await send(session)) == (Phase.BDAT, 552)
        assert not session.usable


async def test_lost_at_the_gate_is_no_doubt() -> None:
    closing = Hold(Close())
    async with ScriptedMx({"BDAT": ("250 ok", closing)}, extensions=CHUNKING) as mx:
        session = await ready(mx)

        async def gate() -> None:
            closing.release()
            await ended(session)

        assert fact(await session.chunks(chunks(LINE * 10), gate, pipelined=True)) == (Phase.BDAT, Seen.LOST)


@pytest.mark.parametrize("error", ["gate", "content"])
async def test_what_fails_on_our_side_sends_no_last_chunk(error: str) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield LARGE
        if error == "content":
            raise OSError("disk trouble")

    async with ScriptedMx(extensions=CHUNKING) as mx:
        session = await ready(mx)
        gate = Gate(OSError("disk trouble") if error == "gate" else None)
        with pytest.raises(OSError, match="disk trouble"):
            await session.chunks(content(), gate, pipelined=True)
        await mx.connections[0].closed.wait()
        assert (mx.messages, gate.passed) == ([], error == "gate")


# ---------------------------------------------------------------- after the last chunk
REPLIES: list[tuple[Step, int | Seen]] = [
    ("252 fine", 252), ("450 4.2.0 later", 450), ("554 5.6.0 no", 554), ((b"250 O", Close()), Seen.LOST),
]  # fmt: skip


@pytest.mark.parametrize(("step", "seen"), [*ENDS, *REPLIES])
async def test_b57_after_the_last_chunk_it_is_as_after_the_dot(step: Step, seen: int | Seen) -> None:
    async with ScriptedMx({"FINAL": step}, extensions=CHUNKING) as mx:
        session = await ready(mx, BRISK if seen is Seen.TIMEOUT else PATIENT)
        gate = Gate()
        assert fact(await send(session, gate=gate)) == (Phase.FINAL, seen)
        assert gate.passed == 1
        assert session.usable == (seen in (252, 450, 554))


async def test_an_unasked_reply_is_no_reply_to_a_chunk() -> None:
    """B15."""
    async with ScriptedMx({"RCPT": "250 ok\r\n250 and more"}, extensions=CHUNKING) as mx:
        session = await greeted(mx)
        await session.envelope("a@example.com", (), ("b@example.org",), pipelined=True, chunked=True)
        assert fact(await send(session)) == (Phase.BDAT, Seen.MALFORMED)
        assert commands(mx) == []
