"""Connection, greeting and STARTTLS: aiosmtplib's client, with every octet shown to an inbox (RFC 5321 sections 3.1,
4.3.1; RFC 3207).

Rules: aiosmtplib moves the octets, the inbox's strict parser says what they mean (the library takes 999 and +25 for
codes, reads a reply of two codes as its last one and drops what came unasked). Octets in clear behind the 220 to STARTTLS
end the connection before the handshake (RFC 3207 section 4.2).
"""

import asyncio
import ssl
from collections.abc import Awaitable
from typing import cast

import aiosmtplib
from aiosmtplib.protocol import SMTPProtocol

from mta.model.outcome import Seen
from mta.ports.smtp import Timeouts
from mta.smtp.inbox import Inbox, no_reply
from mta.smtp.replies import Answer
from mta.smtp.wire import reason_of_loss

_NAMELESS = "-"
"""What the library says EHLO with, which it is never asked to; without a name it would look for one."""


class Dialogue(SMTPProtocol):
    """aiosmtplib's protocol, and the inbox beside it. It does not tell the client of the end: what is asked of it after
    that fails as well, and a callback would tie the two, and the transport, into a knot that only the garbage collector
    undoes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inbox: Inbox) -> None:
        super().__init__(loop)
        self._inbox = inbox
        self.upgrading = False
        """STARTTLS was sent and its handshake has not begun."""

    def data_received(self, data: bytes) -> None:
        self._inbox.feed(data)
        if self.transport is not None and (self._inbox.broken or (self.upgrading and self._inbox.surplus)):
            cast(asyncio.Transport, self.transport).abort()
        super().data_received(data)

    def eof_received(self) -> bool:
        self._inbox.end(reason_of_loss(None))
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.end(reason_of_loss(exc))
        super().connection_lost(exc)


class Client(aiosmtplib.SMTP):
    """aiosmtplib's client for one connection to an address.

    `_create_connection` is its own: the library's has one timeout for connect and greeting, and closes after a greeting
    other than 220, which to us is a value like any reply. No timeout is left to the library: its `wait_for` loses a
    cancellation that comes together with a reply (Python 3.11), `asyncio.timeout` does not."""

    def __init__(
        self, address: str, port: int, timeouts: Timeouts, inbox: Inbox, *, source: str = "",
        tls: tuple[ssl.SSLContext, str] | None = None,
    ) -> None:  # fmt: skip
        """`source` is where to connect from, "" wherever; `tls`, with the server's name in it, begins with the first
        octet."""
        super().__init__(hostname=address, port=port, local_hostname=_NAMELESS, start_tls=False, use_tls=False)
        self._address, self._port, self._timeouts = address, port, timeouts
        self._inbox = inbox
        self._local, self._tls = (source, 0) if source else None, tls
        self.tcp: asyncio.Transport | None = None
        """The TCP transport, also once TLS runs above it and after the connection has ended; None: never connected."""
        self.dialogue: Dialogue | None = None
        self.secured = False
        """TLS that was to begin with the first octet has come about."""

    async def _create_connection(self, timeout: float | None) -> aiosmtplib.SMTPResponse:
        loop = asyncio.get_running_loop()
        protocol = Dialogue(loop, self._inbox)
        if self._tls is None:
            self._inbox.expect()
        protocol.upgrading = self._tls is not None
        async with asyncio.timeout(self._timeouts.connect):
            self.tcp, _ = await loop.create_connection(
                lambda: protocol, self._address, self._port, local_addr=self._local
            )
        self.transport, self.protocol, self.dialogue = self.tcp, protocol, protocol
        if self._tls is not None:
            await self._begin_tls(protocol, *self._tls)
            self._inbox.expect()
        async with asyncio.timeout(self._timeouts.greeting):
            return await protocol.read_response(None)

    async def _begin_tls(self, protocol: Dialogue, context: ssl.SSLContext, name: str) -> None:
        """Octets in clear before it end the connection, as those behind the 220 to STARTTLS do."""
        loop = asyncio.get_running_loop()
        assert self.tcp is not None  # noqa: S101 - it was made just now
        async with asyncio.timeout(self._timeouts.command):
            try:
                self.transport = await loop.start_tls(self.tcp, protocol, context, server_hostname=name)
            except ssl.SSLError:  # a ValueError too, where a certificate is no good
                raise
            except ValueError as error:
                raise ConnectionError(f"TLS can't ask for this host name: {error}") from error
        protocol.transport, protocol.upgrading, self.secured = self.transport, False, True


async def complaint(call: Awaitable[object], timeout: float | None = None) -> Exception | None:
    """What the library or the network has to say against `call`, one command with at most `timeout` seconds; None if it
    went well. Of ssl.SSLError and TimeoutError, OSError is the base."""
    try:
        async with asyncio.timeout(timeout):
            await call
    except (aiosmtplib.SMTPException, OSError) as error:
        return error
    return None


def unanswered(error: Exception | None, timeout: float) -> Answer:
    """The answer to a command that has none in the inbox."""
    if isinstance(error, TimeoutError):
        return no_reply(timeout)
    seen = Seen.MALFORMED if isinstance(error, aiosmtplib.SMTPResponseException) else Seen.LOST
    return Answer(seen, None, (str(error or "no reply").encode("utf-8", "backslashreplace"),))
