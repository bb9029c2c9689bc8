"""A session against the scripted server, as a delivery drives it."""

import asyncio
from collections.abc import AsyncIterator

from mta.model.outcome import Observation, Phase, Seen
from mta.ports.smtp import EnvelopeReplies, Timeouts
from mta.smtp.connector import SmtpConnector
from mta.smtp.session import SmtpSession
from tests.support.mx import ScriptedMx

HOSTNAME = "client.example.test"
PATIENT = Timeouts(connect=5, greeting=5, command=5, data_init=5, data=5, final=5, quit=5)
BRISK = Timeouts(connect=0.2, greeting=0.1, command=0.1, data_init=0.1, data=0.1, final=0.1, quit=0.1)
CONTENT = b"Subject: x\r\n\r\nhello\r\n"


class Gate:
    """The gate before the dot: how often it was passed, and what to do there."""

    def __init__(self, error: Exception | None = None) -> None:
        self.passed = 0
        self._error = error

    async def __call__(self) -> None:
        self.passed += 1
        if self._error is not None:
            raise self._error


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def connected(mx: ScriptedMx, timeouts: Timeouts = PATIENT) -> SmtpSession:
    session, greeting = await SmtpConnector(HOSTNAME, timeouts).connect("mx.example.test", mx.address, mx.port)
    assert session is not None, greeting
    return session


async def greeted(mx: ScriptedMx, timeouts: Timeouts = PATIENT, verb: str = "EHLO") -> SmtpSession:
    session = await connected(mx, timeouts)
    code(await session.hello(verb), 250)
    return session


async def ready(mx: ScriptedMx, timeouts: Timeouts = PATIENT) -> SmtpSession:
    """As far as the 354."""
    session = await greeted(mx, timeouts)
    replies = await envelope(session)
    assert replies.data is not None
    code(replies.data, 354)
    return session


async def envelope(session: SmtpSession, *rcpts: str, pipelined: bool = True) -> EnvelopeReplies:
    return await session.envelope("a@example.com", (), rcpts or ("b@example.org",), pipelined=pipelined)


async def send(session: SmtpSession, *parts: bytes, gate: Gate | None = None) -> Observation:
    return await session.content(chunks(*(parts or (CONTENT,))), gate or Gate())


async def deliver(session: SmtpSession) -> Observation:
    """One transaction that must reach the dot."""
    replies = await envelope(session)
    assert replies.data is not None
    code(replies.data, 354)
    return await send(session)


def code(observation: Observation, expected: int | Seen | None = None) -> int | Seen:
    """The reply's code, or what was seen instead of one."""
    reply = observation.reply
    found = reply.code if reply is not None and reply.code is not None else observation.seen
    assert expected is None or found == expected, observation
    return found


def fact(observation: Observation) -> tuple[Phase, int | Seen]:
    return observation.phase, code(observation)


async def unusable(session: SmtpSession) -> None:
    """Until the session knows that it is of no more use."""
    while session.usable:
        await asyncio.sleep(0)


async def ended(session: SmtpSession) -> None:
    """Until the session's own end of the connection is closed; nothing public tells in the midst of a transaction."""
    while not session._transport.is_closing():
        await asyncio.sleep(0)
