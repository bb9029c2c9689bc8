"""The mail transaction: what goes out, when, and what is made of what comes back."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from mta.model.outcome import Phase, Seen
from mta.ports.smtp import Timeouts
from mta.smtp.connector import SmtpConnector
from mta.smtp.outflow import REST
from mta.smtp.stuffing import DamagedContent
from tests.smtp.support import (
    BRISK,
    CONTENT,
    PATIENT,
    Gate,
    chunks,
    code,
    deliver,
    ended,
    envelope,
    fact,
    greeted,
    ready,
    send,
    unusable,
)
from tests.support.mx import Close, Hold, Pass, Reset, ScriptedMx, Silence, Step, Unread, server_tls

LARGE = b"x" * 998 + b"\r\n"
"""A line; 20,000 of them are more than loopback sockets hold."""


async def large(lines: int = 20_000) -> AsyncIterator[bytes]:
    for _ in range(lines // 100):
        yield LARGE * 100


def line_of(addresses: dict[str, str]) -> Callable[[str], str]:
    """RCPT replies by address."""
    return lambda line: next(reply for address, reply in addresses.items() if f"<{address}>" in line)


# ---------------------------------------------------------------- the ordinary case
@pytest.mark.parametrize("pipelined", [True, False])
async def test_what_goes_out(pipelined: bool) -> None:
    async with ScriptedMx() as mx:
        session = await greeted(mx)
        await session.envelope("", ("SIZE=40", "BODY=8BITMIME"), ('"a b"@example.org', "c@example.org"), pipelined=pipelined)
        gate = Gate()
        assert fact(await send(session, b".a\r\n.", b".b\r\n\xe9", gate=gate)) == (Phase.FINAL, 250)
        await session.quit()
        assert gate.passed == 1
        assert bytes(mx.connections[0].received) == (
            b"EHLO client.example.test\r\nMAIL FROM:<> SIZE=40 BODY=8BITMIME\r\n"
            b'RCPT TO:<"a b"@example.org>\r\nRCPT TO:<c@example.org>\r\nDATA\r\n'
            b"..a\r\n...b\r\n\xe9\r\n.\r\nQUIT\r\n"
        )
        assert mx.messages[0].content == b".a\r\n..b\r\n\xe9\r\n"


@pytest.mark.parametrize("pipelined", [True, False])
async def test_parameters_of_rcpt_go_with_each(pipelined: bool) -> None:
    async with ScriptedMx() as mx:
        session = await greeted(mx)
        paths, asked = ("a@example.org", "b@example.org"), (("NOTIFY=NEVER", "ORCPT=rfc822;A+2B@x"), ())
        await session.envelope("x@example.com", (), paths, pipelined=pipelined, rcpt_parameters=asked)
        await send(session)
        assert mx.messages[0].rcpts == [
            "RCPT TO:<a@example.org> NOTIFY=NEVER ORCPT=rfc822;A+2B@x",
            "RCPT TO:<b@example.org>",
        ]


async def test_commands_wait_for_replies_where_pipelining_is_not_offered() -> None:
    """CLI-06."""
    mail, rcpt = Hold("250 ok"), Hold("250 ok")
    async with ScriptedMx({"MAIL": mail, "RCPT": rcpt}) as mx:
        session = await greeted(mx)
        replies = asyncio.create_task(envelope(session, pipelined=False))
        await mail.reached.wait()
        assert mx.connections[0].verbs == ["EHLO", "MAIL"]
        mail.release()
        await rcpt.reached.wait()
        assert mx.connections[0].verbs == ["EHLO", "MAIL", "RCPT"]
        rcpt.release()
        data = (await replies).data
        assert data is not None
        assert code(data) == 354


async def test_a_session_carries_one_transaction_after_the_other() -> None:
    async with ScriptedMx() as mx:
        session = await greeted(mx)
        for count in range(1, 4):
            assert fact(await deliver(session)) == (Phase.FINAL, 250)
            assert (session.usable, session.transactions) == (True, count)
        assert (len(mx.messages), len(mx.connections)) == (3, 1)


async def test_empty_content() -> None:
    async with ScriptedMx() as mx:
        session = await ready(mx)
        assert fact(await session.content(chunks(), Gate())) == (Phase.FINAL, 250)
        assert mx.messages[0].raw == b""


async def test_large_content_arrives_whole() -> None:
    async with ScriptedMx() as mx:
        session = await ready(mx)
        assert fact(await session.content(large(3000), Gate())) == (Phase.FINAL, 250)
        assert mx.messages[0].content == LARGE * 3000


@pytest.mark.parametrize("path", ["a\r\nRSET@x.example", "a\0@x.example", "j\xf6rg@x.example", "a\n@x.example"])
async def test_b54_no_command_hides_in_a_path(path: str) -> None:
    async with ScriptedMx() as mx:
        session = await greeted(mx)
        with pytest.raises(ValueError):
            await envelope(session, path)
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO"]


@pytest.mark.parametrize("path", ["a\u0085b@x.example", "a\ud800@x.example", "ä\r\nRSET@x.example"])
async def test_b54_no_command_hides_in_a_path_beyond_ascii(path: str) -> None:
    """The same server takes what is no control character (RFC 6531 section 3.3)."""
    async with ScriptedMx(extensions=("SMTPUTF8",)) as mx:
        session = await greeted(mx)
        with pytest.raises(ValueError):
            await envelope(session, path)
        session = await greeted(mx)
        code((await envelope(session, "jörg@x.example")).rcpts[0], 250)
    assert "RCPT TO:<jörg@x.example>".encode().decode("latin-1") in mx.connections[1].commands


# ---------------------------------------------------------------- recipients
@pytest.mark.parametrize("pipelined", [True, False])
async def test_b17_recipients_have_their_own_replies(pipelined: bool) -> None:
    addresses = {"a@x.example": "250 ok", "b@x.example": "550 5.1.1 no such user", "c@x.example": "452 4.5.3 too many"}
    async with ScriptedMx({"RCPT": line_of(addresses)}) as mx:
        session = await greeted(mx)
        replies = await envelope(session, *addresses, pipelined=pipelined)
        assert [code(it) for it in replies.rcpts] == [250, 550, 452]
        assert fact(await send(session)) == (Phase.FINAL, 250)
        assert mx.messages[0].forward_paths == ["a@x.example"]


@pytest.mark.parametrize("pipelined", [True, False])
async def test_b17_421_in_the_midst_keeps_its_text(pipelined: bool) -> None:
    """Q10: nothing was sent, the accepted one is not delivered."""
    async with ScriptedMx({"RCPT": ["250 ok", ("421 4.3.2 closing", Close())]}) as mx:
        session = await greeted(mx)
        replies = await envelope(session, "a@x.example", "b@x.example", "c@x.example", pipelined=pipelined)
        assert [code(it) for it in replies.rcpts] == [250, 421]
        assert replies.rcpts[1].reply is not None
        assert replies.rcpts[1].reply.text == "closing"
        assert replies.data is None
        assert not session.usable
        assert mx.messages == []


async def test_b17_a_354_that_nobody_is_accepted_for_gets_a_lone_dot() -> None:
    """CLI-11; the session stays in step."""
    async with ScriptedMx({"RCPT": ["550 5.1.1 no"], "DATA": ["354 go"]}) as mx:
        session = await greeted(mx)
        replies = await envelope(session)
        assert replies.data is not None
        assert (code(replies.rcpts[0]), code(replies.data)) == (550, 354)
        await session.no_content()
        assert session.usable
        assert mx.messages[0].raw == b""
        assert fact(await deliver(session)) == (Phase.FINAL, 250)


async def test_no_data_where_nobody_is_accepted() -> None:
    async with ScriptedMx({"RCPT": "550 5.1.1 no"}) as mx:
        session = await greeted(mx)
        replies = await envelope(session, "a@x.example", "b@x.example", pipelined=False)
        assert ([code(it) for it in replies.rcpts], replies.data) == ([550, 550], None)
        assert session.usable
        assert "DATA" not in mx.connections[0].verbs


@pytest.mark.parametrize("pipelined", [True, False])
async def test_a_refused_mail_decides_for_all(pipelined: bool) -> None:
    async with ScriptedMx({"MAIL": ["451 4.3.0 later"]}) as mx:
        session = await greeted(mx)
        replies = await envelope(session, pipelined=pipelined)
        assert (code(replies.mail), replies.rcpts) == (451, ())
        assert session.usable
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        assert len(mx.messages) == 1


async def test_after_a_354_only_content_may_follow() -> None:
    """A RSET would be read as text."""
    async with ScriptedMx() as mx:
        session = await ready(mx)
        assert not session.usable
        assert fact(await session.reset()) == (Phase.RSET, Seen.MALFORMED)
        await mx.connections[0].closed.wait()
        assert "RSET" not in mx.connections[0].verbs


async def test_content_needs_a_354() -> None:
    """CLI-12."""
    async with ScriptedMx() as mx:
        session = await greeted(mx)
        with pytest.raises(RuntimeError):
            await send(session)
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO"]


# ---------------------------------------------------------------- out of step: B13, B15, Q9
@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("reply", ["250 ok", "200 ok", "334 go on"])
async def test_b13_no_text_after_a_reply_to_data_that_is_not_354(reply: str, pipelined: bool) -> None:
    async with ScriptedMx({"DATA": reply}) as mx:
        session = await greeted(mx)
        replies = await envelope(session, pipelined=pipelined)
        assert replies.data is not None
        assert code(replies.data) == int(reply[:3])
        assert not session.usable
        await session.quit()
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs[-1] == "DATA"


@pytest.mark.parametrize("pipelined", [True, False])
async def test_b13_354_to_rcpt(pipelined: bool) -> None:
    async with ScriptedMx({"RCPT": "354 go"}) as mx:
        session = await greeted(mx)
        replies = await envelope(session, "a@x.example", "b@x.example", pipelined=pipelined)
        assert ([code(it) for it in replies.rcpts], replies.data) == ([354], None)
        assert mx.messages == []


async def test_b15_a_shifted_refusal_bounces_nobody() -> None:
    """An extra 550 behind MAIL makes RCPT's 250 look like DATA's: the recipient was not refused."""
    async with ScriptedMx({"MAIL": b"250 ok\r\n550 5.7.1 stray\r\n", "DATA": Pass()}) as mx:
        session = await greeted(mx)
        replies = await envelope(session)
        assert replies.data is not None
        assert (code(replies.mail), code(replies.rcpts[0]), code(replies.data)) == (250, Seen.MALFORMED, 250)
        assert not session.usable


async def test_b15_two_replies_to_one_command() -> None:
    """The second is not taken for the next command's."""
    async with ScriptedMx({"MAIL": b"250 ok\r\n550 5.7.1 stray\r\n"}) as mx:
        session = await greeted(mx)
        replies = await envelope(session, pipelined=False)
        assert (code(replies.mail), code(replies.rcpts[0])) == (250, Seen.MALFORMED)
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO", "MAIL"]


async def test_b15_an_unasked_reply_while_idle() -> None:
    stray = Hold("250 ok")
    async with ScriptedMx({"FINAL": ("250 2.0.0 ok", stray)}) as mx:
        session = await greeted(mx)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        assert session.usable
        stray.release()
        await unusable(session)
        replies = await envelope(session)
        assert fact(replies.mail) == (Phase.MAIL, Seen.MALFORMED)
        assert len(mx.messages) == 1


async def test_an_idle_421_is_the_answer_to_what_is_asked_next() -> None:
    """RFC 5321 section 3.8."""
    stray = Hold(("421 4.4.2 idle for too long", Close()))
    async with ScriptedMx({"FINAL": ("250 2.0.0 ok", stray)}) as mx:
        session = await greeted(mx)
        await deliver(session)
        stray.release()
        await unusable(session)
        assert fact((await envelope(session)).mail) == (Phase.MAIL, 421)


async def test_b15_a_stray_reply_behind_the_final_one_changes_nothing() -> None:
    async with ScriptedMx({"FINAL": b"250 2.0.0 ok\r\n550 5.7.1 stray\r\n"}) as mx:
        session = await greeted(mx)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        assert not session.usable


async def test_a_flood_of_replies_fills_no_memory() -> None:
    async with ScriptedMx({"FINAL": b"250 ok\r\n" + b"250 more\r\n" * 200_000}) as mx:
        session = await greeted(mx)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        await unusable(session)
        await session.quit()


# ---------------------------------------------------------------- before the dot
@pytest.mark.parametrize("reply", ["552 5.3.4 too big", "451 4.3.0 disk trouble", "421 4.3.2 closing"])
async def test_an_early_refusal_stops_the_content(reply: str) -> None:
    async with ScriptedMx({"BODY": (reply, Silence())}) as mx:
        session = await ready(mx)
        gate = Gate()
        seen = await session.content(large(), gate)
        assert fact(seen) == (Phase.BODY, int(reply[:3]))
        assert gate.passed == 0
        assert not session.usable
        assert mx.messages == []


async def test_b57_an_early_refusal_counts_although_the_connection_ended() -> None:
    """Refused and closed while the gate was being passed: what was read is believed, the dot is not sent."""
    refused = Hold(("552 5.3.4 too big", Close()))
    async with ScriptedMx({"BODY": refused}) as mx:
        session = await ready(mx)

        async def gate() -> None:
            refused.release()
            await ended(session)

        assert fact(await session.content(large(), gate)) == (Phase.BODY, 552)
        assert not mx.connections[0].received.endswith(b".\r\n")


@pytest.mark.parametrize("reply", ["250 ok", "354 go on"])
async def test_an_early_reply_that_is_no_refusal_is_not_believed(reply: str) -> None:
    async with ScriptedMx({"BODY": (reply, Silence())}) as mx:
        session = await ready(mx)
        gate = Gate()
        assert fact(await session.content(large(), gate)) == (Phase.BODY, Seen.MALFORMED)
        assert gate.passed == 0


@pytest.mark.parametrize("end", [Close(), Reset()])
async def test_lost_before_the_dot_is_no_doubt(end: Step) -> None:
    async with ScriptedMx({"BODY": end}) as mx:
        session = await ready(mx)
        gate = Gate()
        assert fact(await session.content(large(), gate)) == (Phase.BODY, Seen.LOST)
        assert gate.passed == 0


@pytest.mark.parametrize("tls", [False, True])
async def test_a_server_that_takes_no_content(tls: bool) -> None:
    async with ScriptedMx({"BODY": Unread()}, tls=server_tls() if tls else None) as mx:
        session = await greeted(mx, Timeouts(data=0.2))
        if tls:
            await session.starttls()
            await session.hello("EHLO")
        await envelope(session)
        gate = Gate()
        assert fact(await session.content(large(), gate)) == (Phase.BODY, Seen.TIMEOUT)
        assert gate.passed == 0


async def test_lost_at_the_gate_is_no_doubt() -> None:
    closing = Hold(Close())
    async with ScriptedMx({"BODY": closing}) as mx:
        session = await ready(mx)

        async def gate() -> None:
            closing.release()
            await ended(session)

        assert fact(await session.content(large(), gate)) == (Phase.BODY, Seen.LOST)


async def test_closed_on_our_side_before_the_gate_is_no_doubt() -> None:
    """A write that failed has closed the transport before anybody was told."""
    async with ScriptedMx() as mx:
        session = await ready(mx)
        gate = Gate()

        async def content() -> AsyncIterator[bytes]:
            yield CONTENT
            session._transport.abort()  # as the event loop does when a write fails

        assert fact(await session.content(content(), gate)) == (Phase.BODY, Seen.LOST)
        assert gate.passed == 0


@pytest.mark.parametrize("lines", [1, 30, 200])
async def test_the_dot_waits_for_the_gate(lines: int) -> None:
    async with ScriptedMx() as mx:
        session = await ready(mx)
        reached, open_ = asyncio.Event(), asyncio.Event()

        async def gate() -> None:
            reached.set()
            await open_.wait()

        sending = asyncio.create_task(session.content(chunks(LARGE * lines), gate))
        await reached.wait()
        await mx.until(lambda: mx.connections[0].received.count(LARGE) >= lines - REST // len(LARGE) - 1)
        assert mx.messages == []
        open_.set()
        assert fact(await sending) == (Phase.FINAL, 250)
        assert mx.messages[0].content == LARGE * lines


async def test_small_content_and_its_dot_are_one_write() -> None:
    """A server that closes meanwhile has nothing of it, so that is no doubt."""
    async with ScriptedMx() as mx:
        session = await ready(mx)
        written = len(mx.connections[0].received)

        async def gate() -> None:
            mx.connections[0].transport.close()
            await ended(session)

        assert fact(await session.content(chunks(CONTENT), gate)) == (Phase.BODY, Seen.LOST)
        assert len(mx.connections[0].received) == written


async def test_a_gate_that_fails_sends_no_dot() -> None:
    async with ScriptedMx() as mx:
        session = await ready(mx)
        with pytest.raises(OSError, match="disk full"):
            await send(session, gate=Gate(OSError("disk full")))
        await mx.connections[0].closed.wait()
        assert mx.messages == []
        assert not session.usable


async def test_content_that_fails_sends_no_dot() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield CONTENT
        raise OSError("unreadable")

    async with ScriptedMx() as mx:
        session = await ready(mx)
        gate = Gate()
        with pytest.raises(OSError, match="unreadable"):
            await session.content(broken(), gate)
        await mx.connections[0].closed.wait()
        assert (mx.messages, gate.passed) == ([], 0)


@pytest.mark.parametrize("content", [b"a\nb\r\n", b"a\r\n.\r", b"x\r\n.\nMAIL FROM:<evil@x.example>\r\n"])
async def test_b03_damaged_content_never_leaves(content: bytes) -> None:
    """LIN-05."""
    async with ScriptedMx() as mx:
        session = await ready(mx)
        with pytest.raises(DamagedContent):
            await send(session, CONTENT, content)
        await mx.connections[0].closed.wait()
        assert mx.messages == []
        assert b"evil" not in mx.connections[0].received


# ---------------------------------------------------------------- after the dot: B57
@pytest.mark.parametrize(
    ("step", "seen"), [(Close(), Seen.LOST), (Reset(), Seen.LOST), (Silence(), Seen.TIMEOUT), ("what?", Seen.MALFORMED)]
)
async def test_b57_no_reply_to_the_dot(step: Step, seen: Seen) -> None:
    async with ScriptedMx({"FINAL": step}) as mx:
        session = await ready(mx, Timeouts(final=0.2))
        assert fact(await send(session)) == (Phase.FINAL, seen)
        assert len(mx.messages) == 1
        assert not session.usable


async def test_b57_the_final_timeout_is_its_own() -> None:
    """All other timeouts have passed when the reply comes."""
    late = Hold("250 2.0.0 ok")
    async with ScriptedMx({"FINAL": late}) as mx:
        session = await ready(mx, Timeouts(command=0.05, data_init=0.05, data=0.05, final=60))
        sending = asyncio.create_task(send(session))
        await late.reached.wait()
        await asyncio.wait([sending], timeout=0.15)
        late.release()
        assert fact(await sending) == (Phase.FINAL, 250)


# ---------------------------------------------------------------- cancellation
@pytest.mark.parametrize("stage", ["EHLO", "MAIL", "FINAL", "RSET"])
async def test_b15_a_cancelled_call_ends_the_connection(stage: str) -> None:
    """The reply that is still to come must answer nothing else."""
    held = Hold("250 ok")
    async with ScriptedMx({stage: held}) as mx:
        running = asyncio.create_task(_until(mx, stage))
        await held.reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await mx.connections[0].closed.wait()


async def _until(mx: ScriptedMx, stage: str) -> None:
    session = await greeted(mx)
    if stage == "RSET":
        await session.reset()
    else:
        await deliver(session)


async def test_cancelled_while_waiting_for_the_greeting() -> None:
    held = Hold("220 hello")
    async with ScriptedMx({"BANNER": held}) as mx:
        running = asyncio.create_task(greeted(mx))
        await held.reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await mx.connections[0].closed.wait()


# ---------------------------------------------------------------- QUIT and RSET: B16
@pytest.mark.parametrize("step", [Close(), Reset(), "451 no", Silence(), "what?", ("221 bye", Silence())])
@pytest.mark.parametrize("tls", [False, True])
async def test_b16_quit_ends_in_time_whatever_the_server_does(step: Step, tls: bool) -> None:
    async with ScriptedMx({"QUIT": step}, tls=server_tls() if tls else None) as mx:
        session = await greeted(mx, Timeouts(quit=0.2))
        if tls:
            await session.starttls()
            await session.hello("EHLO")
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        await asyncio.wait_for(session.quit(), 5)
        await mx.connections[0].closed.wait()
        assert not session.usable


async def test_b16_tls_closed_without_close_notify_at_quit() -> None:
    async with ScriptedMx({"QUIT": ("221 bye", Close(abrupt=True))}, tls=server_tls()) as mx:
        session = await greeted(mx)
        await session.starttls()
        await session.hello("EHLO")
        await asyncio.wait_for(session.quit(), 5)
        await mx.connections[0].closed.wait()


@pytest.mark.parametrize("step", ["421 closing", "502 5.5.1 what?", "451 no", Silence()])
async def test_b16_rset_that_fails_is_seen_and_the_result_stands(step: Step) -> None:
    async with ScriptedMx({"RSET": step}) as mx:
        session = await greeted(mx, BRISK)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        assert code(await session.reset()) in (421, 502, 451, Seen.TIMEOUT)


@pytest.mark.parametrize(("hostname", "said"), [("laptop", "[127.0.0.1]"), ("mail.example.com", "mail.example.com")])
async def test_cli05_a_name_that_is_none_for_others_gives_way_to_an_address_literal(hostname: str, said: str) -> None:
    async with ScriptedMx() as mx:
        session, _ = await SmtpConnector(hostname, PATIENT).connect("mx.example.test", mx.address, mx.port)
        assert session is not None
        await session.hello("EHLO")
        assert mx.commands == [f"EHLO {said}"]
        session.abort()


# ---------------------------------------------------------------- what is left
@pytest.mark.parametrize("quits", [True, False])
async def test_an_ended_session_needs_no_garbage_collector(quits: bool) -> None:
    """With thousands of destinations there are as many sessions, whose cycles would wait for a full collection."""
    gc.disable()
    try:
        async with ScriptedMx() as mx:
            session = await greeted(mx)
            assert fact(await deliver(session)) == (Phase.FINAL, 250)
            left = [weakref.ref(it) for it in (session, session._client, session._dialogue, session._wire, session._inbox)]
            if quits:
                await session.quit()
            else:
                session.abort()
            del session
            await mx.connections[0].closed.wait()
            async with asyncio.timeout(5):
                while any(it() is not None for it in left):
                    await asyncio.sleep(0)
    finally:
        gc.enable()
