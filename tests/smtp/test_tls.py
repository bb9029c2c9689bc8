"""STARTTLS and its failures: B04, B26, TLS-01."""

import asyncio
import datetime
import ssl
import warnings

import pytest
import trustme

from mta.model.outcome import Phase, Seen
from tests.smtp.support import BRISK, CONTENT, PATIENT, chunks, deliver, envelope, fact, greeted
from tests.support.mx import Close, Hold, ScriptedMx, Silence, Step, server_tls


async def test_a_delivery_in_tls() -> None:
    async with ScriptedMx(tls=server_tls()) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls()) == (Phase.TLS, Seen.REPLY)
        assert session.extensions == {}
        assert session.tls.startswith("TLSv1.")
        assert fact(await session.hello("EHLO")) == (Phase.EHLO_TLS, 250)
        assert "SIZE" in session.extensions
        assert "STARTTLS" not in session.extensions
        for _ in range(2):
            assert fact(await deliver(session)) == (Phase.FINAL, 250)
        assert [message.tls for message in mx.messages] == [True, True]


@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "TLS"])
async def test_what_is_aborted_at_the_gate_is_not_in_doubt(encrypted: bool) -> None:
    """The dot does not go into a connection that has just ended, though TLS has not heard of it yet."""
    async with ScriptedMx(tls=server_tls()) as mx:
        session = await greeted(mx)
        if encrypted:
            await session.starttls()
            await session.hello("EHLO")
        await envelope(session)

        async def gate() -> None:
            session.abort()

        assert fact(await session.content(chunks(CONTENT), gate)) == (Phase.BODY, Seen.LOST)
        await mx.connections[0].closed.wait()
        assert mx.messages == []


def _expired() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    trustme.CA().issue_cert("mx.example.test", not_before=past, not_after=past).configure_cert(context)
    return context


@pytest.mark.parametrize("context", [_expired, lambda: server_tls("other.example.test")], ids=["expired", "wrong name"])
async def test_b26_a_certificate_of_whatever_kind_will_do(context: object) -> None:
    assert callable(context)
    async with ScriptedMx(tls=context()) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls()) == (Phase.TLS, Seen.REPLY)


@pytest.mark.parametrize(
    ("step", "seen"),
    [
        (Close(), Seen.LOST),
        (Silence(), Seen.TIMEOUT),
        (b"250 this is no handshake\r\n", Seen.LOST),
        ((b"250 nor is this\r\n", Close()), Seen.LOST),
        (b"\x15\x03\x03\x00\x02\x02\x28", Seen.LOST),
    ],
    ids=["closes", "hangs", "speaks in clear", "speaks and closes", "alert"],
)
async def test_b26_a_handshake_that_fails(step: Step, seen: Seen) -> None:
    async with ScriptedMx({"TLS": step}, tls=server_tls()) as mx:
        session = await greeted(mx, BRISK if seen is Seen.TIMEOUT else PATIENT)
        observation = await session.starttls()
        assert fact(observation) == (Phase.TLS, seen)
        assert observation.reply is not None
        assert observation.reply.enhanced == "4.7.5"
        assert not session.usable
        await mx.connections[0].closed.wait()


async def test_b26_tls_1_0_alone() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("mx.example.test").configure_cert(context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    async with ScriptedMx(tls=context) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls()) == (Phase.TLS, Seen.LOST)


@pytest.mark.parametrize("reply", ["454 4.7.0 not now", "502 5.5.1 what?"])
async def test_b26_a_refused_starttls_leaves_the_session_in_clear(reply: str) -> None:
    async with ScriptedMx({"STARTTLS": reply}, tls=server_tls()) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls()) == (Phase.STARTTLS, int(reply[:3]))
        assert (session.tls, session.usable) == ("", True)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)


@pytest.mark.parametrize("separate", [False, True])
async def test_b04_octets_in_clear_behind_the_220_end_the_connection(separate: bool) -> None:
    """In the segment of the 220 or in the next one; never taken for what was said in TLS."""
    evil = b"250-evil\r\n250 SMTPUTF8\r\n"
    behind = Hold(evil)
    step = (b"220 go\r\n", behind) if separate else b"220 go\r\n" + evil
    async with ScriptedMx({"STARTTLS": step}, tls=server_tls()) as mx:
        session = await greeted(mx)
        behind.release()
        assert fact(await session.starttls()) == (Phase.TLS, Seen.LOST)
        assert not session.usable
        assert session.tls == ""
        assert "SMTPUTF8" not in session.extensions


async def test_b04_octets_behind_the_reply_to_ehlo_do_not_start_a_handshake() -> None:
    async with ScriptedMx({"EHLO": b"250-mx\r\n250 STARTTLS\r\n220 go\r\n"}, tls=server_tls()) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls()) == (Phase.STARTTLS, Seen.MALFORMED)
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO"]


async def test_starttls_that_the_server_demands_after_mail() -> None:
    """530 to MAIL, then STARTTLS on the same connection."""
    async with ScriptedMx({"MAIL": ["530 5.7.0 Must issue a STARTTLS command first"]}, tls=server_tls()) as mx:
        session = await greeted(mx)
        assert fact((await envelope(session)).mail) == (Phase.MAIL, 530)
        assert fact(await session.starttls()) == (Phase.TLS, Seen.REPLY)
        assert fact(await session.hello("EHLO")) == (Phase.EHLO_TLS, 250)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        assert mx.messages[0].tls


@pytest.mark.parametrize("host", ["mx_1.example.test", "x" * 70 + ".example", "mx..example", "", "127.0.0.1"])
async def test_a_host_name_that_tls_cannot_ask_for_is_no_crash(host: str) -> None:
    async with ScriptedMx(tls=server_tls()) as mx:
        session = await greeted(mx)
        session.host = host
        assert fact(await session.starttls())[0] is Phase.TLS


async def test_cancelled_in_the_handshake() -> None:
    held = Hold(Close())
    async with ScriptedMx({"TLS": held}, tls=server_tls()) as mx:
        session = await greeted(mx)
        running = asyncio.create_task(session.starttls())
        await held.reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        held.release()
        await mx.connections[0].closed.wait()
