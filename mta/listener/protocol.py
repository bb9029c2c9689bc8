"""One client's connection: reading, writing, time and the end of it.

aiosmtpd gives the protocol that TLS and authentication hang on; the command loop, the content and the handling of the
end of file are ours, since a client that hangs up would cancel a commit there (and a half-close the reply).

Rules: a session's task is never cancelled: what has begun to be committed is committed, and answered if the client can
still read. Replies wait for each other while complete commands are buffered, and are in order (RFC 2920 section 3.2).
The timer counts from the last progress: a command line, or a piece of content (RFC 5321 section 4.5.3.2.7). Every end
that is ours is told: 221, 421 (sections 3.8 and 4.1.1.10).
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable

from aiosmtpd.smtp import SMTP
from aiosmtpd.smtp import Session as AiosmtpdSession

from mta.listener.auth import UNAVAILABLE
from mta.listener.bdat import begin_chunk, end_chunk, read_chunk
from mta.listener.chunking import Chunk
from mta.listener.content import ContentDecoder
from mta.listener.conversation import Answer, Conversation, Next
from mta.listener.gate import Gate
from mta.listener.inbox import BUFFER_LIMIT, CHUNK, Inbox
from mta.listener.intake import Client, Intake
from mta.listener.origin import Origin, origin
from mta.listener.replies import wire
from mta.listener.settings import ListenerSettings
from mta.listener.tls import reason, secure
from mta.model.address import IpAddress
from mta.model.reply import Reply
from mta.spool.base import ContentBuffer

LINGER = 10.0
"""Seconds that a client has to take our last reply before the connection is cut."""
BARRED_TIMEOUT = 30.0
"""Seconds without progress for a client that may not submit."""
STRANGER_TIMEOUT = 60.0
"""The same for a client that may submit once it has authenticated."""
STRANGER_LIFE = 300.0
"""Seconds in all for a client that may not submit, or not yet, however busy it is."""
FIRST_DELAY = 1.0
"""Seconds for which a client waits that has failed to authenticate; the next time it is twice as long."""
REPLIES_LIMIT = 16 * 1024
"""Octets of replies that wait for each other, or that are said without a pause; then other sessions get their turn."""

_GO_AHEAD = b"354 End data with <CR><LF>.<CR><LF>\r\n"
_GO_ON_IN_TLS = b"220 2.0.0 Ready to start TLS\r\n"
_SAID_IN_CLEAR = Reply(501, "5.5.2", "Nothing may come behind STARTTLS before its reply")
_NOT_NOW = Reply(454, "4.7.0", "TLS is not available now: replies wait to be read")
_IDLE = "4.4.2", "Timeout, closing connection"
_STOPPING = "4.3.2", "Service is shutting down, closing connection"


class SubmissionSession(SMTP):
    """`opened` is asked who may stay: None, or the reply to greet with (a 421 ends the session, a 554 bars it). `ended` is
    told when nothing of the session runs any more. `origin`: where the client is, None: where the connection comes from."""

    def __init__(
        self,
        settings: ListenerSettings,
        intake: Intake,
        gate: Gate,
        opened: Callable[["SubmissionSession", Client], Reply | None],
        ended: Callable[["SubmissionSession"], None],
        loop: asyncio.AbstractEventLoop,
        origin: Origin | None = None,
    ) -> None:
        self._inbox = Inbox(limit=BUFFER_LIMIT, loop=loop)
        # not SMTP.__init__: it takes 100 us a connection, and keeps limits in the class, where all sessions share them
        super(SMTP, self).__init__(self._inbox, self._cb_client_connected, loop)
        self.loop = loop
        self.session = AiosmtpdSession(loop)
        self.transport: asyncio.BaseTransport | None = None
        self._settings = settings
        self._intake = intake
        self._gate = gate
        self._over = asyncio.Event()
        self._opened, self._ended = opened, ended
        self._timeout_duration = settings.timeout
        self._timeout_handle: asyncio.TimerHandle | None = None
        self._began_at = self._progress_at = loop.time()
        self._replies = bytearray()
        self._said = 0
        self._origin = origin
        self._receives_content = self._commits = self._drains = self._ends = self._is_in_handshake = False
        self._verifies = False

    # ------------------------------------------------ the transport's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super(SMTP, self).connection_made(transport)
        self.transport = transport
        self._origin = self._origin or origin(transport)
        self._peer, self._local = self._origin.peer, self._origin.local
        greeting = self._opened(self, Client(self._peer, "", extended=False, local=self._local))
        permit = self._gate.permit(self._settings, self._peer, is_local=bool(self._local))
        self._conversation = Conversation(
            permit,
            self._intake.now,
            is_barred=greeting is not None,
            secure=transport.get_extra_info("sslcontext") is not None,
            offers_tls=self._settings.tls is not None and not self._local,
            room=self._intake.no_room,
            looks_up=self._intake.looks_up,
        )
        if greeting is None:
            greeting = Reply(220, None, f"{self._settings.hostname} ESMTP mta")
            if not permit.trusted:
                self._timeout_duration = min(self._timeout_duration, STRANGER_TIMEOUT)
        else:
            self._timeout_duration = min(self._timeout_duration, BARRED_TIMEOUT)
        self._replies += wire(greeting)
        self._is_turned_away = greeting.code == 421
        self._reset_timeout()
        self._timeout_cb()
        self.task = self.loop.create_task(self._handle_client())
        self.task.add_done_callback(lambda _: self._ended(self))

    def eof_received(self) -> bool | None:
        """The client sends no more, but may still read: what is complete is done and answered (True keeps the way out
        open; under TLS there is no such thing)."""
        return super(SMTP, self).eof_received() and not self._conversation.secure

    def connection_lost(self, error: Exception | None) -> None:
        """The reader learns of it; the task ends by itself. Whatever it was (TLS has errors of its own), it is over."""
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        super(SMTP, self).connection_lost(error and ConnectionResetError(str(error)))
        self.transport = None
        self._over.set()

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Progress was made. The timer is not touched: it looks at the time of progress when it rings."""
        self._progress_at = self.loop.time()

    def _timeout_cb(self) -> None:
        end = self._progress_at + self._timeout_duration
        if not self.may_submit:
            end = min(end, self._began_at + STRANGER_LIFE)
        left = end - self.loop.time()
        if left <= 0 and not self._commits and not self._verifies:
            self.dismiss(*_IDLE)
        elif not self._ends:
            self._timeout_handle = self.loop.call_later(max(left, 0) or self._timeout_duration, self._timeout_cb)

    @property
    def peer(self) -> IpAddress | None:
        """The client's address; None: it is not known."""
        return self._peer

    @property
    def may_submit(self) -> bool:
        return self._conversation.may_submit

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
        if self._ends or self.transport is None:
            return
        if self._is_in_handshake:  # no reply can be read there
            self._writer.transport.abort()
            return
        self._writer.write(bytes(self._replies) + wire(Reply(421, enhanced, f"{self._settings.hostname} {text}")))
        self._replies.clear()
        self._hang_up()

    def _hang_up(self) -> None:
        """Closes when all is written; a client that doesn't read is not waited for."""
        if self._ends:
            return
        self._ends = True
        self._over.set()
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self._writer.close()
        if self.transport is not None:
            self._timeout_handle = self.loop.call_later(LINGER, self._writer.transport.abort)

    # ------------------------------------------------ the session's task
    async def _handle_client(self) -> None:
        try:
            await self._flush()
            if not self._is_turned_away:
                await self._converse()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone: nothing of an open transaction is queued (RFC 5321 section 4.1.1.5)
        except Exception as error:
            self._intake.trouble(error)
        finally:
            self._conversation.reset()
            self._hang_up()

    async def _converse(self) -> None:
        while not self._ends:
            line = await self._inbox.line(answers_auth=self._conversation.answers_auth)
            if self._ends:  # told meanwhile: what comes now is not taken
                return
            self._reset_timeout()
            answer = self._answer(line)
            if answer.then is Next.VERIFY:
                answer = await self._verified()
            elif answer.then is Next.LOOK_UP:
                answer = await self._looked_up()
            self._replies += answer.octets
            if answer.refused is not None:
                self._intake.turned_away(str(self._client()), *answer.refused, self._conversation.user)
            if answer.then is Next.CONTENT:
                await self._receive()
            if answer.then is Next.TLS and not await self._start_tls():
                return
            if answer.chunk is not None:
                await self._receive_chunk(answer.chunk)
            if answer.then is not Next.LISTEN or not self._inbox.has_line() or len(self._replies) > REPLIES_LIMIT:
                await self._flush()
            if answer.then is Next.CLOSE:
                return
            if self._drains and not self._is_amid_content:
                self.dismiss(*_STOPPING)

    def _answer(self, line: bytes | None) -> Answer:
        try:
            return self._conversation.hear(line, self._inbox.cut)
        except Exception as error:
            self._conversation.reset()
            return Answer(wire(self._intake.trouble(error)), Next.FLUSH)

    async def _verified(self) -> Answer:
        """The answer to credentials. A wrong guess makes the client wait, and nobody else, for a time in which nobody sees
        how long the judgement took: hashes differ in that, and so would tell which names are known."""
        conversation, credentials = self._conversation, self._conversation.credentials
        begun = self.loop.time()
        self._verifies = True
        try:
            verdict = UNAVAILABLE if credentials is None else await self._gate.judge(credentials, self._peer)
            answer = conversation.judged(verdict)
            if conversation.user:
                self._timeout_duration = self._settings.timeout
            if answer.refused is not None and verdict is not UNAVAILABLE:
                await self._pause(begun + FIRST_DELAY * 2 ** (conversation.failures - 1) - self.loop.time())
        finally:
            self._verifies = False
            self._reset_timeout()
        return answer

    async def _looked_up(self) -> Answer:
        """The answer to a RCPT whose recipient may be one that nothing is sent to."""
        wanted = self._conversation.wanted
        return self._conversation.looked_up(await self._intake.suppressed(wanted.path) if wanted is not None else None)

    async def _pause(self, seconds: float) -> None:
        """Not beyond the session's end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def _flush(self) -> None:
        if not self._replies or self._ends:
            return
        self._said += len(self._replies)
        if self._said > REPLIES_LIMIT:
            self._said = 0
            await asyncio.sleep(0)
        if self.transport is None:  # uvloop's would raise RuntimeError, which is what bugs of ours do
            raise ConnectionResetError("the client has gone")
        self._writer.write(bytes(self._replies))
        self._replies.clear()
        await self._writer.drain()

    # ------------------------------------------------ STARTTLS (RFC 3207)
    async def _start_tls(self) -> bool:
        """Whether the session goes on. What a client sends before it has read 220 is not from inside TLS: whoever does that
        is not spoken with any more. From 220 on all that arrives belongs to the handshake."""
        await self._flush()
        if not self._inbox.is_empty():
            self._replies += wire(_SAID_IN_CLEAR)
            await self._flush()
            return False
        if self.transport is None or self._inbox.at_eof():  # it has gone, which the handshake would not hear of
            return False
        context = self._settings.tls
        if context is None or self._writer.transport.get_write_buffer_size():
            self._replies += wire(_NOT_NOW)
            return True
        self._writer.write(_GO_ON_IN_TLS)
        return await self._shake_hands(context)

    async def _shake_hands(self, context: ssl.SSLContext) -> bool:
        self._is_in_handshake = True
        try:
            transport = await secure(self._writer.transport, self, context)
        except OSError as error:
            self._intake.closed(str(self._client()), f"TLS handshake failed: {reason(error)}")
            self.connection_lost(error)
            return False
        finally:
            self._is_in_handshake = False
        self._moved_to(transport)
        self._conversation.began_tls()
        self._reset_timeout()
        return True

    def _moved_to(self, transport: asyncio.Transport) -> None:
        if self.transport is not None:  # else it was lost as soon as it was there
            self.transport = transport
        self._inbox.carried_by(transport)
        # the first writer lives on in the protocol: where it went, it would take its transport with it (Python 3.13)
        self._writer = asyncio.StreamWriter(transport, self, self._inbox, self.loop)

    # ------------------------------------------------ content
    async def _receive(self) -> None:
        """From 354 to the reply to the final dot; the transaction ends in any case."""
        transaction = self._conversation.transaction
        content = self._intake.buffer()
        self._receives_content = True
        try:
            if isinstance(content, Reply):
                self._replies += wire(content)
                return
            decoder = await self._read_content(content)
            self._commits = True
            reply = await self._intake.submit(transaction, self._client(), decoder, content, self._conversation.settings)
            self._replies += wire(reply)
        finally:
            self._conversation.reset()
            self._receives_content = self._commits = False
            self._reset_timeout()

    def _client(self) -> Client:
        it = self._conversation
        return Client(self._peer, it.hello, it.extended, it.secure, it.user, self._local)

    async def _read_content(self, content: ContentBuffer) -> ContentDecoder:
        """Reads to the end of data. Closes `content` and raises IncompleteReadError where the client has gone, or was
        dismissed, before that."""
        settings = self._conversation.settings
        decoder = ContentDecoder(content, settings.max_message_size, settings.bare_newlines, settings.long_lines)
        self._replies += _GO_AHEAD
        try:
            await self._flush()
            self._inbox.unread(await self._decode(decoder))
        except BaseException:
            content.close()
            raise
        return decoder

    async def _receive_chunk(self, chunk: Chunk) -> None:
        """From BDAT to its reply. The transaction ends with the last chunk; where one is lost, it waits for RSET."""
        transaction = self._conversation.transaction
        self._receives_content = True
        try:
            refusal = begin_chunk(chunk, transaction, self._intake, self._conversation.settings)
            await read_chunk(chunk.size, None if refusal else transaction.chunks, self._read)
            self._commits = refusal is None
            reply = refusal or await end_chunk(chunk, transaction, self._client(), self._intake, self._conversation.settings)
            self._replies += wire(reply)
            self._conversation.end_chunk(chunk, reply)
        finally:
            self._receives_content = self._commits = False
            self._reset_timeout()

    async def _decode(self, decoder: ContentDecoder) -> bytes:
        """Feeds `decoder`; what came behind the end of data."""
        behind = None
        while behind is None:
            behind = decoder.feed(await self._read(CHUNK))
        return behind

    async def _read(self, limit: int) -> bytes:
        """The next piece of content, at most `limit` octets. Raises IncompleteReadError where none comes any more."""
        if self._inbox.is_empty():  # the client may wait for what it was answered so far
            await self._flush()
        piece = await self._inbox.read(limit)
        if not piece or self._ends:
            raise asyncio.IncompleteReadError(b"", None)
        self._reset_timeout()
        return piece
