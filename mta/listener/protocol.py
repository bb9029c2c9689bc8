"""One client's session: its commands, its content, time and the end of it.

Rules: a session's work is never cancelled: what has begun to be committed is committed, and answered if the client can
still read. The timer counts from the last progress: a command line, or a piece of content (RFC 5321 section 4.5.3.2.7).
Every end that is ours is told: 221, 421 (sections 3.8 and 4.1.1.10).
"""

import asyncio
import ssl
from collections.abc import Callable

from msgspec import structs

from mta.listener.auth import UNAVAILABLE
from mta.listener.bdat import begin_chunk, end_chunk
from mta.listener.chunking import Chunk
from mta.listener.connection import Connection
from mta.listener.content import ContentDecoder
from mta.listener.conversation import Answer, Conversation, Next
from mta.listener.gate import Gate
from mta.listener.inbox import TooLong
from mta.listener.intake import Intake
from mta.listener.origin import origin
from mta.listener.replies import wire
from mta.listener.settings import ListenerSettings
from mta.listener.tls import reason, secure
from mta.model.address import IpAddress
from mta.model.reply import Reply
from mta.policy.trace import Client

BARRED_TIMEOUT = 30.0
"""Seconds without progress for a client that may not submit."""
STRANGER_TIMEOUT = 60.0
"""The same for a client that may submit once it has authenticated."""
STRANGER_LIFE = 300.0
"""Seconds in all for a client that may not submit, or not yet, however busy it is."""
FIRST_DELAY = 1.0
"""Seconds for which a client waits that has failed to authenticate; the next time it is twice as long."""
CHUNK = 64 * 1024
"""Octets of content that are looked at in one turn of the loop."""

_GO_AHEAD = b"354 End data with <CR><LF>.<CR><LF>\r\n"
_GO_ON_IN_TLS = b"220 2.0.0 Ready to start TLS\r\n"
_SAID_IN_CLEAR = Reply(501, "5.5.2", "Nothing may come behind STARTTLS before its reply")
_NOT_NOW = Reply(454, "4.7.0", "TLS is not available now: replies wait to be read")
_IDLE = "4.4.2", "Timeout, closing connection"
_STOPPING = "4.3.2", "Service is shutting down, closing connection"


class SubmissionSession(Connection):
    """`opened` is asked who may stay, and told who is trusted: None, or the reply to greet with (a 421 ends the session, a
    554 bars it). `ended` is told when nothing of the session runs any more. `origin`: where the client is, None: where the
    connection comes from."""

    def __init__(
        self,
        settings: ListenerSettings,
        intake: Intake,
        gate: Gate,
        opened: Callable[["SubmissionSession", Client, bool], Reply | None],
        ended: Callable[["SubmissionSession"], None],
        loop: asyncio.AbstractEventLoop,
        origin: Client | None = None,
    ) -> None:
        super().__init__(loop)
        self._settings = settings
        self._intake = intake
        self._gate = gate
        self._opened, self._ended = opened, ended
        self._origin = origin
        self._decoder: ContentDecoder | None = None
        self._chunk: Chunk | None = None
        self._chunk_refusal: Reply | None = None
        self._left = 0
        self._timeout = settings.timeout
        self._timer: asyncio.TimerHandle | None = None
        self._began_at = self._progress_at = loop.time()
        self._receives_content = self._commits = self._verifies = self._is_in_handshake = self._drains = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        client = self._origin or origin(transport)
        if transport.get_extra_info("sslcontext") is not None:
            client = structs.replace(client, secure=True)
        self._peer = client.peer
        permit = self._gate.permit(self._settings, client.peer, is_local=client.is_local)
        refusal = self._opened(self, client, permit.trusted)
        self._conversation = Conversation(
            client,
            permit,
            self._intake.now,
            is_barred=refusal is not None,
            offers_tls=self._settings.tls is not None and not client.is_local,
            room=self._intake.no_room,
            looks_up=self._intake.looks_up,
        )
        if refusal is not None:
            self._timeout = min(self._timeout, BARRED_TIMEOUT)
        elif not permit.trusted:
            self._timeout = min(self._timeout, STRANGER_TIMEOUT)
        self._replies += wire(refusal or Reply(220, None, f"{self._settings.hostname} ESMTP mta"))
        self._flush()
        if refusal is not None and refusal.code == 421:
            self._hang_up()
        else:
            self._look_at_time()

    def eof_received(self) -> bool:
        """As it is said of every connection; under TLS there is no way out that stays open."""
        return super().eof_received() and not self._conversation.client.secure

    @property
    def peer(self) -> IpAddress | None:
        """The client's address; None: it is not known."""
        return self._peer

    @property
    def may_submit(self) -> bool:
        return self._conversation.may_submit

    # ------------------------------------------------ time
    def _made_progress(self) -> None:
        """The timer is not touched: it looks at the time of progress when it rings."""
        self._progress_at = self.loop.time()

    def _look_at_time(self) -> None:
        end = self._progress_at + self._timeout
        if not self.may_submit:
            end = min(end, self._began_at + STRANGER_LIFE)
        left = end - self.loop.time()
        if left <= 0 and not self._commits and not self._verifies:
            self.dismiss(*_IDLE)
        else:
            self._timer = self.loop.call_later(max(left, 0) or self._timeout, self._look_at_time)

    # ------------------------------------------------ the end
    def drain(self) -> None:
        """The daemon stops: an idle session ends now, one that receives content after its reply."""
        self._drains = True
        if not self._is_amid_content:
            self.dismiss(*_STOPPING)

    @property
    def _is_amid_content(self) -> bool:
        return self._receives_content or self._conversation.transaction.chunks is not None

    def cut_short(self) -> None:
        """The daemon waits no longer: content that is not complete gets 421. A commit that runs is not ours to end."""
        if not self._commits:
            self.dismiss(*_STOPPING)

    def dismiss(self, enhanced: str, text: str) -> None:
        """421 and close; what the client has sent meanwhile is not read any more."""
        if self._ends:
            return
        if self._is_in_handshake:  # no reply can be read there
            self._transport.abort()
            return
        self._replies += wire(Reply(421, enhanced, f"{self._settings.hostname} {text}"))
        self._hang_up()

    def _hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super()._hang_up()

    def _finish(self) -> None:
        """Nothing of an open transaction is queued (RFC 5321 section 4.1.1.5)."""
        if self._decoder is not None:
            self._decoder.buffer.close()
        self._conversation.transaction.discard()
        self._ended(self)

    def _trouble(self, error: Exception) -> Reply:
        return self._intake.trouble(error)

    # ------------------------------------------------ commands
    def _take(self) -> bool:
        if self._decoder is not None:
            return self._take_content(self._decoder)
        if self._chunk is not None:
            return self._take_chunk(self._chunk)
        if self._drains and not self._is_amid_content:
            self.dismiss(*_STOPPING)
            return False
        conversation, inbox = self._conversation, self._inbox
        line = inbox.line(answers_auth=conversation.exchange is not None) if inbox.octets else None
        if line is None:
            return False
        self._progress_at = self.loop.time()
        try:
            answer = conversation.hear_too_long(line) if isinstance(line, TooLong) else conversation.hear(line)
        except Exception as error:
            conversation.reset()
            answer = Answer(wire(self._trouble(error)))
        self._replies += answer.octets
        if answer.then is not Next.LISTEN or answer.refused is not None:
            self._act_on(answer)
        return bool(inbox.octets) or self._drains or self._chunk is not None

    def _act_on(self, answer: Answer) -> None:
        """What there is to do beside the answer."""
        if answer.refused is not None:
            client = self._conversation.client
            self._intake.turned_away(client.name, *answer.refused, client.user)
        match answer.then:
            case Next.LISTEN:
                pass
            case Next.CONTENT:
                self._begin_content()
            case Next.CHUNK if answer.chunk is not None:
                self._begin_chunk(answer.chunk)
            case Next.LOOK_UP:
                self._wait_for(self._look_up())
            case Next.VERIFY:
                self._wait_for(self._verify())
            case Next.TLS:
                self._begin_tls()
            case Next.CLOSE:
                self._hang_up()

    async def _look_up(self) -> None:
        """A RCPT whose recipient may be one that nothing is sent to."""
        wanted = self._conversation.wanted
        refusal = await self._intake.suppressed(wanted.path) if wanted is not None else None
        self._say(self._conversation.looked_up(refusal))

    def _say(self, answer: Answer) -> None:
        """What had to be waited for."""
        self._replies += answer.octets
        self._act_on(answer)

    async def _verify(self) -> None:
        """Credentials. A wrong guess makes the client wait, and nobody else, for a time in which nobody sees how long the
        judgement took: hashes differ in that, and so would tell which names are known."""
        conversation, credentials = self._conversation, self._conversation.credentials
        begun = self.loop.time()
        self._verifies = True
        try:
            verdict = UNAVAILABLE if credentials is None else await self._gate.judge(credentials, self._peer)
            answer = conversation.judged(verdict)
            if conversation.client.user:
                self._timeout = self._settings.timeout
            if answer.refused is not None and verdict is not UNAVAILABLE:
                delay = begun + FIRST_DELAY * 2 ** (conversation.failures - 1) - self.loop.time()
                await asyncio.wait([self._closing], timeout=max(delay, 0))
        finally:
            self._verifies = False
            self._made_progress()
        self._say(answer)

    # ------------------------------------------------ STARTTLS (RFC 3207)
    def _begin_tls(self) -> None:
        """What a client sends before it has read 220 is not from inside TLS: whoever does that is not spoken with any more.
        From 220 on all that arrives belongs to the handshake."""
        self._write()
        if self._inbox.octets:
            self._replies += wire(_SAID_IN_CLEAR)
            self._hang_up()
        elif self._has_eof:  # the handshake would not hear of it
            self._hang_up()
        elif (context := self._settings.tls) is None or self._transport.get_write_buffer_size():
            self._replies += wire(_NOT_NOW)
        else:
            self._transport.write(_GO_ON_IN_TLS)
            self._transport.pause_reading()  # until the handshake has taken over
            self._is_in_handshake = True
            self._wait_for(self._shake_hands(context))

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        try:
            if self._transport.is_closing():  # since 220: the end was told us, the handshake would wait for it
                raise ConnectionResetError("the client has gone")
            transport = await secure(self._transport, self, context)
        except OSError as error:
            self._intake.closed(self._conversation.client.name, f"TLS handshake failed: {reason(error)}")
            self.connection_lost(error)
            return
        finally:
            self._is_in_handshake = False
        self._transport = transport
        self._conversation.began_tls()
        self._made_progress()

    # ------------------------------------------------ content
    def _begin_content(self) -> None:
        content = self._intake.buffer()
        if isinstance(content, Reply):
            self._replies += wire(content)
            self._conversation.reset()
            return
        self._replies += _GO_AHEAD
        self._flush()
        settings = self._conversation.settings
        self._decoder = ContentDecoder(content, settings.max_message_size, settings.bare_newlines, settings.long_lines)
        self._receives_content = True

    def _take_content(self, decoder: ContentDecoder) -> bool:
        octets = self._inbox.octets
        if not octets:
            return False
        self._progress_at = self.loop.time()
        behind = decoder.feed(self._inbox.take(CHUNK))
        if behind is not None:
            octets[:0] = behind
            self._decoder, self._commits = None, True
            self._wait_for(self._submit(decoder))
        elif octets:
            self._rest()
        return False

    async def _submit(self, decoder: ContentDecoder) -> None:
        """From the final dot to its reply; the transaction ends in any case."""
        conversation = self._conversation
        try:
            reply = await self._intake.submit(
                conversation.transaction, conversation.client, decoder, decoder.buffer, conversation.settings
            )
            self._replies += wire(reply)
        finally:
            conversation.reset()
            self._receives_content = self._commits = False
            self._made_progress()

    def _begin_chunk(self, chunk: Chunk) -> None:
        """The transaction ends with the last chunk; where one is lost, it waits for RSET."""
        self._receives_content = True
        refusal = begin_chunk(chunk, self._conversation.transaction, self._intake, self._conversation.settings)
        self._chunk, self._chunk_refusal, self._left = chunk, refusal, chunk.size

    def _take_chunk(self, chunk: Chunk) -> bool:
        """Whatever a BDAT is answered, its octets are read first."""
        refusal = self._chunk_refusal
        if not self._left:
            self._chunk, self._commits = None, refusal is None
            self._wait_for(self._answer_chunk(chunk, refusal))
            return False
        if not self._inbox.octets:
            return False
        self._made_progress()
        piece = self._inbox.take(min(self._left, CHUNK))
        chunks = self._conversation.transaction.chunks
        if refusal is None and chunks is not None:
            chunks.decoder.feed(piece)
        self._left -= len(piece)
        if self._left and self._inbox.octets:
            self._rest()
        return True

    async def _answer_chunk(self, chunk: Chunk, refusal: Reply | None) -> None:
        conversation = self._conversation
        try:
            reply = refusal or await end_chunk(
                chunk, conversation.transaction, conversation.client, self._intake, conversation.settings
            )
            self._replies += wire(reply)
            conversation.end_chunk(chunk, reply)
        finally:
            self._receives_content = self._commits = False
            self._made_progress()
