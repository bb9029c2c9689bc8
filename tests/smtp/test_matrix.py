"""Table A on the wire: what a server does in each phase is observed as just that, phase and all."""

import asyncio
import socket
from typing import Any

import pytest

from mta.model.outcome import Observation, Phase, Seen
from mta.ports.smtp import Timeouts
from mta.smtp.connector import SmtpConnector
from tests.smtp.support import BRISK, HOSTNAME, PATIENT, Gate, chunks, envelope, fact
from tests.support.black_hole import black_hole
from tests.support.mx import Close, Hold, Reset, ScriptedMx, Silence, server_tls
from tests.support.ports import free_port

COLUMNS: dict[str, tuple[Any, int | Seen]] = {
    "2yz": ("252 fine", 252),
    "3yz": ("334 go on", 334),
    "4yz": ("450 4.2.0 later", 450),
    "421": (("421 4.3.2 closing", Close()), 421),
    "5yz": ("550 5.7.1 no", 550),
    "554": ("554 no", 554),
    "521": ("521 no mail here", 521),
    "malformed": ("hello world", Seen.MALFORMED),
    "closed": (Close(), Seen.LOST),
    "reset": (Reset(), Seen.LOST),
    "cut": ((b"250 O", Close()), Seen.LOST),
    "silent": (Silence(), Seen.TIMEOUT),
    "half": ((b"250-half\r\n", Silence()), Seen.TIMEOUT),
}
PHASES = {
    Phase.BANNER: "BANNER",
    Phase.EHLO: "EHLO",
    Phase.HELO: "HELO",
    Phase.STARTTLS: "STARTTLS",
    Phase.EHLO_TLS: "EHLO",
    Phase.MAIL: "MAIL",
    Phase.RCPT: "RCPT",
    Phase.DATA: "DATA",
    Phase.FINAL: "FINAL",
    Phase.RSET: "RSET",
}
"""The phases that a reply is due in; CONNECT, TLS, BODY and QUIT have their own tests."""


async def reach(mx: ScriptedMx, phase: Phase, timeouts: Timeouts, pipelined: bool) -> tuple[Observation, Any]:
    """As far as `phase`; its observation and the session."""
    session, seen = await SmtpConnector(HOSTNAME, timeouts).connect("mx.example.test", mx.address, mx.port)
    if phase is Phase.BANNER:
        return seen, session
    assert session is not None
    seen = await session.hello("HELO" if phase is Phase.HELO else "EHLO")
    if phase in (Phase.EHLO, Phase.HELO):
        return seen, session
    if phase in (Phase.STARTTLS, Phase.EHLO_TLS):
        seen = await session.starttls()
        return (seen if phase is Phase.STARTTLS else await session.hello("EHLO")), session
    if phase is Phase.RSET:
        return await session.reset(), session
    replies = await envelope(session, pipelined=pipelined)
    if phase is Phase.FINAL:
        return await session.content(chunks(b"Subject: x\r\n\r\n"), Gate()), session
    found = {Phase.MAIL: replies.mail, Phase.RCPT: replies.rcpts[0] if replies.rcpts else None, Phase.DATA: replies.data}
    observation = found[phase]
    assert observation is not None
    return observation, session


CASES = [
    pytest.param(phase, name, pipelined, id=f"{phase}-{name}-{'pipelined' if pipelined else 'lock-step'}")
    for phase in PHASES
    for name in COLUMNS
    for pipelined in ((True, False) if phase in (Phase.MAIL, Phase.RCPT, Phase.DATA) else (True,))
]


@pytest.mark.parametrize(("phase", "name", "pipelined"), CASES)
async def test_cell(phase: Phase, name: str, pipelined: bool) -> None:
    step, expected = COLUMNS[name]
    timeouts = BRISK if expected is Seen.TIMEOUT else PATIENT
    planned = [_ehlo_in_clear(), step] if phase is Phase.EHLO_TLS else step
    tls = server_tls() if phase in (Phase.STARTTLS, Phase.EHLO_TLS) else None
    async with ScriptedMx({PHASES[phase]: planned}, tls=tls) as mx:
        observation, session = await reach(mx, phase, timeouts, pipelined)
        assert fact(observation) == (phase, expected)
        assert observation.reply is not None
        assert observation.reply.text
        if isinstance(expected, Seen) or expected == 421:
            assert session is None or not session.usable


OWN_TIMEOUTS = [
    ("greeting", Phase.BANNER), ("command", Phase.EHLO), ("command", Phase.HELO), ("command", Phase.STARTTLS),
    ("command", Phase.MAIL), ("command", Phase.RCPT), ("data_init", Phase.DATA), ("final", Phase.FINAL),
    ("command", Phase.RSET),
]  # fmt: skip


@pytest.mark.parametrize(("name", "phase"), OWN_TIMEOUTS)
async def test_cli07_each_phase_has_a_timeout_of_its_own(name: str, phase: Phase) -> None:
    """All others have their minutes. CONNECT: below; content and QUIT: in `test_transactions`."""
    tls = server_tls() if phase is Phase.STARTTLS else None
    async with ScriptedMx({PHASES[phase]: Silence()}, tls=tls) as mx:
        observation, _ = await reach(mx, phase, Timeouts(**{name: 0.1}), pipelined=False)
    assert fact(observation) == (phase, Seen.TIMEOUT)
    assert observation.reply is not None and observation.reply.text == "no reply within 0.1 s"


def _ehlo_in_clear() -> str:
    return "250-mx.example.test\r\n250 STARTTLS"


@pytest.mark.parametrize("phase", [Phase.MAIL, Phase.RSET, Phase.FINAL, Phase.EHLO])
async def test_a_refusal_leaves_the_session_in_step(phase: Phase) -> None:
    async with ScriptedMx({PHASES[phase]: ["450 4.2.0 later"]}) as mx:
        _, session = await reach(mx, phase, PATIENT, True)
        assert session.usable
        assert fact(await session.reset()) == (Phase.RSET, 250)


# ---------------------------------------------------------------- connect
async def test_connection_refused() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        session, seen = await SmtpConnector(HOSTNAME, PATIENT).connect("mx", "127.0.0.1", probe.getsockname()[1])
    assert (session, fact(seen)) == (None, (Phase.CONNECT, Seen.LOST))
    assert seen.reply is not None
    assert (seen.reply.enhanced, seen.reply.text) == ("4.4.1", "Connection refused")


async def test_no_connection_in_time() -> None:
    """The timeout is that of connect, not the greeting's longer one."""
    port = free_port()
    with black_hole("127.0.0.1", port):
        timeouts = Timeouts(connect=0.1, greeting=60)
        session, seen = await SmtpConnector(HOSTNAME, timeouts).connect("mx", "127.0.0.1", port)
    assert (session, fact(seen)) == (None, (Phase.CONNECT, Seen.TIMEOUT))


# ---------------------------------------------------------------- a reply is timed as a whole
async def test_b12_octets_that_trickle_do_not_extend_a_reply() -> None:
    """Endless continuation lines, each well within the timeout of a reply."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            writer.write(b"220-x\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        session, seen = await SmtpConnector(HOSTNAME, BRISK).connect("mx", "127.0.0.1", port)
    assert (session, fact(seen)) == (None, (Phase.BANNER, Seen.TIMEOUT))


async def test_q12_nothing_is_sent_before_the_greeting_has_ended() -> None:
    last = Hold("220 now")
    async with ScriptedMx({"BANNER": ("220-wait", last)}) as mx:
        connecting = asyncio.create_task(SmtpConnector(HOSTNAME, PATIENT).connect("mx", mx.address, mx.port))
        await last.reached.wait()
        assert not connecting.done()
        last.release()
        session, seen = await connecting
        assert fact(seen) == (Phase.BANNER, 220)
        assert session is not None
        assert mx.connections[0].received == b""


@pytest.mark.parametrize(
    "octets",
    [
        b"220-x\r\n521 5.7.1 blocked\r\n",
        b"\r\n220 ok\r\n",
        b"25 ok\r\n",
        b"999 ok\r\n",
        b"+22 ok\r\n",
        b"220 " + b"x" * 100_000 + b"\r\n",
        b"220-x\r\n" * 200,
        b"x" * 1_000_000,
    ],
    ids=lambda octets: repr(octets[:16]),
)
async def test_b12_the_zoo_as_a_greeting(octets: bytes) -> None:
    """Without a word from us: no RSET, no QUIT."""
    async with ScriptedMx({"BANNER": (octets, Silence())}) as mx:
        session, seen = await SmtpConnector(HOSTNAME, PATIENT).connect("mx", mx.address, mx.port)
        assert (session, fact(seen)) == (None, (Phase.BANNER, Seen.MALFORMED))
        await mx.connections[0].closed.wait()
        assert mx.connections[0].received == b""


async def test_b12_a_code_alone() -> None:
    script = {"BANNER": "220", "EHLO": "250", "MAIL": "250", "RCPT": "250", "DATA": "354", "FINAL": "250"}
    async with ScriptedMx(script) as mx:
        seen, _ = await reach(mx, Phase.FINAL, PATIENT, False)
        assert fact(seen) == (Phase.FINAL, 250)


async def test_q11_a_reply_without_its_end_is_none() -> None:
    """`250 OK` and FIN after the dot: a doubt, not a success; what came is kept."""
    async with ScriptedMx({"FINAL": (b"250 OK", Close())}) as mx:
        seen, _ = await reach(mx, Phase.FINAL, PATIENT, True)
        assert fact(seen) == (Phase.FINAL, Seen.LOST)
        assert seen.reply is not None
        assert "250 OK" in seen.reply.text


async def test_a_reply_that_came_before_the_end_counts() -> None:
    async with ScriptedMx({"FINAL": ("250 2.0.0 ok", Reset())}) as mx:
        seen, session = await reach(mx, Phase.FINAL, PATIENT, True)
        assert fact(seen) == (Phase.FINAL, 250)
        await mx.connections[0].closed.wait()
        await session.quit()
