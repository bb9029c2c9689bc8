"""One outbound session, stage by stage; what is observed is returned, never raised (RFC 5321 sections 3.3, 4.3, 4.5.3.2;
RFC 2920; RFC 3030; RFC 3207; RFC 1047).

Rules: the phase of every observation says how far the final dot, or the last chunk, has gone: BODY and BDAT mean that no
octet of it was given to TCP, FINAL that it was. Small content goes with its dot. Nothing is sent while an answer is owed or
something unasked has come; chunks may be ahead of their answers. After LOST, TIMEOUT, MALFORMED, a cancellation or an
exception the connection is closed, never reset and used again.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import cast

import aiosmtplib

from mta.model.outcome import Observation, Phase, Seen
from mta.model.reply import finding
from mta.model.tls import OPPORTUNISTIC, TlsDemand
from mta.ports.smtp import EnvelopeReplies, Timeouts
from mta.smtp.chunking import Chunks
from mta.smtp.dialogue import Client, Dialogue, complaint, unanswered
from mta.smtp.identity import Unproven, chain_of, verify
from mta.smtp.inbox import Inbox
from mta.smtp.login import log_in
from mta.smtp.outflow import Outflow
from mta.smtp.replies import Answer, observation, parse_extensions
from mta.smtp.verification import Contexts, failure, reason
from mta.smtp.wire import Wire

_SENDABLE = re.compile(r"[\x20-\x7e\u00a0-\ud7ff\ue000-\U0010ffff]+\Z")
_CLOSING = 421
_GO_AHEAD = 354
_POSITIVE, _INTERMEDIATE = range(200, 300), range(300, 400)
_ENDING = frozenset({None, _CLOSING, *_INTERMEDIATE})
"""In an envelope: no reply to a further command is to be expected, or none that could be trusted."""


class SmtpSession:
    """A connection whose greeting was read (`ports.smtp.Session`). `host` is the name of the server, also in TLS where the
    demand has no other; `endpoint` where it was found; `hostname` is ours."""

    def __init__(
        self,
        client: Client,
        inbox: Inbox,
        host: str,
        endpoint: tuple[str, int],
        hostname: str,
        timeouts: Timeouts,
        contexts: Contexts,
    ) -> None:
        if client.tcp is None or client.dialogue is None:
            raise ValueError("a session needs a connected client")
        self.host, self.endpoint = host, endpoint
        self.address = endpoint[0]
        self.extensions: Mapping[str, str] = {}
        self.tls = self.verified = ""
        self.demand = OPPORTUNISTIC
        self.transactions = 0
        self.opened_at = asyncio.get_running_loop().time()
        self._client, self._inbox, self._hostname = client, inbox, hostname
        self._timeouts, self._contexts = timeouts, contexts
        self._tcp = client.tcp
        self._dialogue: Dialogue = client.dialogue
        self._speak_through(self._tcp)
        self._over = False
        if client.secured:
            self._encrypted(cast("asyncio.Transport", client.transport))

    @property
    def usable(self) -> bool:
        return not (self._over or self._wire.is_closing) and self._inbox.in_step

    # ------------------------------------------------ the dialogue; STARTTLS by aiosmtplib
    async def hello(self, verb: str) -> Observation:
        phase = Phase.HELO if verb == "HELO" else Phase.EHLO_TLS if self.tls else Phase.EHLO
        with self:
            answer = await self._say(f"{verb} {self._hostname}")
            self.extensions = parse_extensions(answer) if verb == "EHLO" else {}
            return self._observed(phase, answer)

    async def starttls(self, demand: TlsDemand = OPPORTUNISTIC) -> Observation:
        with self:
            self._speak_by(self._dialogue)
            if not self._inbox.in_step:
                return self._observed(Phase.STARTTLS, self._inbox.unasked())
            self._inbox.expect()
            error = await complaint(self._start_tls(demand), self._timeouts.command)
            answer = self._inbox.take() or unanswered(error, self._timeouts.command)
            return self._handshaken(error, demand) if answer.code == 220 else self._observed(Phase.STARTTLS, answer)

    async def _start_tls(self, demand: TlsDemand) -> None:
        lines = (f"{keyword} {parameters}" for keyword, parameters in self.extensions.items())
        self._client.last_ehlo_response = aiosmtplib.SMTPResponse(250, "\n".join(("", *lines)))
        self._dialogue.upgrading = True
        try:
            host = self.address if self.host.startswith("[") else self.host  # there are no address literals in TLS
            name, context = demand.server_name or host, self._contexts.of(demand)
            await self._client.starttls(server_hostname=name, tls_context=context, timeout=None)
        except ssl.SSLError:  # a ValueError too, where a certificate is no good
            raise
        except ValueError as error:
            raise ConnectionError(f"TLS can't ask for this host name: {error}") from error
        finally:
            self._dialogue.upgrading = False

    def _handshaken(self, error: Exception | None, demand: TlsDemand) -> Observation:
        """After the 220. What was learnt in clear is forgotten (RFC 3207 section 4.2)."""
        transport = cast("asyncio.Transport | None", self._client.transport)
        if error is not None or transport is None:
            self.abort()
            return handshake_failed(error)
        self._encrypted(transport)
        self.extensions = {}
        return self.prove(demand)

    def _encrypted(self, transport: asyncio.Transport) -> None:
        self._speak_through(transport)
        connection = transport.get_extra_info("ssl_object")
        self.tls = f"{connection.version()} {connection.cipher()[0]}"

    def _speak_through(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._wire = Wire(self._inbox, transport, self._tcp)
        self._outflow = Outflow(self._wire, self._timeouts.data)

    def prove(self, demand: TlsDemand) -> Observation:
        """Whether the server of an encrypted session is who it has to be; one that is not is left."""
        try:
            self.verified = verify(demand, chain_of(self._transport.get_extra_info("ssl_object")))
        except Unproven as flaw:
            self.abort()
            self.tls = ""
            return Observation(Phase.TLS, Seen.LOST, finding("4.7.5", str(flaw)), flaw.result)
        self.demand = demand
        return Observation(Phase.TLS, Seen.REPLY)

    # ------------------------------------------------ who we are
    async def authenticate(self, user: str, password: str) -> Observation:
        if not self.tls:
            raise RuntimeError("a password is given inside TLS alone")
        with self:
            offered = self.extensions.get("AUTH", "")
            return self._observed(Phase.AUTH, await log_in(self._say, offered, user, password))

    async def _say(self, line: str) -> Answer:
        self._speak_by(self._wire)
        if not self._inbox.in_step:
            return self._inbox.unasked()
        self._inbox.expect()
        self._wire.write(f"{line}\r\n".encode("ascii"))
        return await self._inbox.answer(self._timeouts.command)

    # ------------------------------------------------ the transaction
    def envelope(
        self,
        reverse_path: str,
        parameters: Sequence[str],
        forward_paths: Sequence[str],
        *,
        pipelined: bool,
        rcpt_parameters: Sequence[Sequence[str]] = (),
        chunked: bool = False,
    ) -> Coroutine[object, None, EnvelopeReplies]:
        mail = " ".join((f"MAIL FROM:<{reverse_path}>", *parameters))
        asked = rcpt_parameters or [()] * len(forward_paths)
        rcpts = [" ".join((f"RCPT TO:<{path}>", *of)) for path, of in zip(forward_paths, asked, strict=True)]
        data = () if chunked else ("DATA",)
        self.transactions += 1
        return self._pipelined(mail, rcpts, *data) if pipelined else self._one_by_one(mail, rcpts, *data)

    async def _one_by_one(self, mail: str, rcpts: Sequence[str], *data: str) -> EnvelopeReplies:
        with self:
            first = await self._command(Phase.MAIL, mail)
            replies: list[Observation] = []
            if not _accepted(first):
                return EnvelopeReplies(first, (), None)
            for rcpt in rcpts:
                replies.append(await self._command(Phase.RCPT, rcpt))
                if _ends_envelope(replies[-1]):
                    break
            if not data or _ends_envelope(replies[-1]) or not any(map(_accepted, replies)):
                return EnvelopeReplies(first, tuple(replies), None)
            return self._replies(first, replies, await self._command(Phase.DATA, *data))

    async def _pipelined(self, mail: str, rcpts: Sequence[str], *data: str) -> EnvelopeReplies:
        with self:
            if (trouble := self._send(Phase.MAIL, mail, *rcpts, *data)) is not None:
                return EnvelopeReplies(trouble, (), None)
            replies: list[Observation] = []
            for phase in (Phase.MAIL, *(Phase.RCPT,) * len(rcpts), *(Phase.DATA,) * len(data)):
                timeout = self._timeouts.data_init if phase is Phase.DATA else self._timeouts.command
                answer = await self._inbox.answer(timeout)
                replies.append(self._observed(phase, answer))
                if answer.code in _ENDING:
                    break
            last = replies.pop() if replies[-1].phase is Phase.DATA else None
            return self._replies(replies[0], replies[1:], last)

    def _replies(self, mail: Observation, rcpts: Sequence[Observation], data: Observation | None) -> EnvelopeReplies:
        """After a 354 the server owes one more reply, after the content. What is neither 354 nor a refusal means that the
        replies are shifted, and the session is of no more use."""
        code = data.reply.code if data is not None and data.reply is not None else None
        if code == _GO_AHEAD:
            self._inbox.expect()
        elif code is not None and code < 400:
            self._over = True
            rcpts = [_untrusted(it) for it in rcpts]
        return EnvelopeReplies(mail, tuple(rcpts) if _accepted(mail) else (), data)

    async def content(self, chunks: AsyncIterator[bytes], gate: Callable[[], Awaitable[None]]) -> Observation:
        with self:
            if self._inbox.in_step:
                raise RuntimeError("content is sent after a 354 alone")
            rest = await self._outflow.dotted(chunks)
            if not isinstance(rest, bytes):
                return self._stopped(Phase.BODY, rest)
            await gate()
            if (answer := self._wire.news()) is not None:
                return self._stopped(Phase.BODY, answer)
            self._wire.write(rest + b".\r\n")
            return self._finished(await self._inbox.answer(self._timeouts.final))

    async def chunks(
        self, content: AsyncIterator[bytes], gate: Callable[[], Awaitable[None]], *, pipelined: bool
    ) -> Observation:
        with self:
            self._speak_by(self._wire)
            if not self._inbox.in_step:
                return self._observed(Phase.BDAT, self._inbox.unasked())
            chunks = Chunks(self._wire, self._inbox, self._timeouts.data, pipelined=pipelined)
            if (answer := await chunks.send(content)) is not None:
                if not chunks.are_whole:
                    self.abort()
                return self._observed(Phase.BDAT, answer)
            await gate()
            if (answer := self._wire.news()) is not None:
                return self._stopped(Phase.BDAT, answer)
            chunks.send_last()
            return self._finished(await self._inbox.answer(self._timeouts.final))

    def _finished(self, answer: Answer) -> Observation:
        seen = self._observed(Phase.FINAL, answer)
        self._over |= answer.code in _INTERMEDIATE  # no reply to a dot: the replies are shifted
        return seen

    def _stopped(self, phase: Phase, answer: Answer) -> Observation:
        """The text goes no further. A refusal before its end counts as one; any other reply is out of place."""
        self.abort()
        if answer.code is not None and answer.code < 400:
            answer = Answer(Seen.MALFORMED, None, (b"a reply before the end of the content:", str(answer.code).encode()))
        return observation(phase, answer)

    async def no_content(self) -> None:
        with self:
            self._wire.write(b".\r\n")
            await self._reply(Phase.FINAL, self._timeouts.command)

    # ------------------------------------------------ between and after transactions
    async def reset(self) -> Observation:
        with self:
            return await self._command(Phase.RSET, "RSET")

    async def quit(self) -> None:
        try:
            if self.usable:
                async with asyncio.timeout(self._timeouts.quit):
                    await self._command(Phase.QUIT, "QUIT")
                    self._transport.close()
                    await self._wire.closed.wait()
        except TimeoutError:
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        self._over = True
        self._tcp.abort()  # and TLS with it, which after its close() can't be aborted itself (Python 3.11.2)

    # ------------------------------------------------ commands of our own
    async def _command(self, phase: Phase, line: str) -> Observation:
        timeout = self._timeouts.data_init if phase is Phase.DATA else self._timeouts.command
        trouble = self._send(phase, line)
        return trouble if trouble is not None else await self._reply(phase, timeout)

    def _send(self, phase: Phase, *lines: str) -> Observation | None:
        """All lines in one write; an observation of `phase` if nothing may be sent."""
        for line in lines:
            if not _SENDABLE.match(line) or not (line.isascii() or "SMTPUTF8" in self.extensions):
                raise ValueError(f"a command with unsendable characters: {line!a}")
        self._speak_by(self._wire)
        if not self._inbox.in_step:
            return self._observed(phase, self._inbox.unasked())
        self._inbox.expect(len(lines))
        self._wire.write("\r\n".join((*lines, "")).encode("utf-8"))
        return None

    async def _reply(self, phase: Phase, timeout: float) -> Observation:
        return self._observed(phase, await self._inbox.answer(timeout))

    def _observed(self, phase: Phase, answer: Answer) -> Observation:
        if answer.seen is not Seen.REPLY:
            self.abort()
        elif answer.code == _CLOSING:
            self._over = True
        return observation(phase, answer)

    def __enter__(self) -> None:
        pass

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        """What was raised in the midst of a dialogue leaves nobody who knows where it is: the connection ends."""
        if raised is not None:
            self.abort()

    def _speak_by(self, protocol: asyncio.BaseProtocol) -> None:
        if self._transport.get_protocol() is not protocol and not self._transport.is_closing():
            self._transport.set_protocol(protocol)


def handshake_failed(error: Exception | None) -> Observation:
    seen = Seen.TIMEOUT if isinstance(error, TimeoutError) else Seen.LOST
    text = f"TLS handshake failed: {reason(error) or seen}"
    return Observation(Phase.TLS, seen, finding("4.7.5", text), failure(error))


def _accepted(seen: Observation) -> bool:
    return seen.reply is not None and seen.reply.code in _POSITIVE


def _ends_envelope(seen: Observation) -> bool:
    return seen.reply is None or seen.reply.code in _ENDING


def _untrusted(seen: Observation) -> Observation:
    """Where replies are shifted, a refusal may be another command's, and is none (field case B15)."""
    if _accepted(seen):
        return seen
    return Observation(seen.phase, Seen.MALFORMED, finding("4.5.0", "a refusal among replies that are out of step"))
