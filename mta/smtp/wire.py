"""The transport's protocol while mail is transacted: octets into the inbox, content out at the peer's pace.

Rules: whatever ends the connection becomes the inbox's last word; writing waits for the peer, and ends its wait when the
peer says something or goes.
"""

import asyncio

from mta.smtp.inbox import Inbox
from mta.smtp.replies import Answer

FLUSH_POLL = 0.01
"""Seconds between two looks at the last octets: a transport tells of its low-water mark, never of an empty buffer."""


def reason_of_loss(error: BaseException | None) -> str:
    """The end of a connection in words."""
    return f"connection lost: {error}" if error is not None else "connection closed by the server"


class Wire(asyncio.Protocol):
    """Set on a transport whose dialogue is over. `below` is the TCP transport under TLS, else `transport` itself."""

    def __init__(self, inbox: Inbox, transport: asyncio.Transport, below: asyncio.Transport) -> None:
        self._inbox, self._transport, self._below = inbox, transport, below
        self._paused = False
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._inbox.feed(data)

    def eof_received(self) -> None:
        self._inbox.end(reason_of_loss(None))

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.end(reason_of_loss(exc))
        self.closed.set()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._inbox.wake()

    @property
    def is_closing(self) -> bool:
        """Nothing goes out any more. Where TCP has ended, TLS above it hears of that a turn of the loop later."""
        return self._transport.is_closing() or self._below.is_closing()

    def write(self, data: bytes) -> None:
        if self.is_closing:
            self._inbox.end(reason_of_loss(None))
        else:
            self._transport.write(data)

    def news(self) -> Answer | None:
        """What has come, or the end of the connection, also one that nobody was told of yet."""
        if self.is_closing:
            self._inbox.end(reason_of_loss(None))
        return self._inbox.take()

    async def drained(self, timeout: float) -> bool:
        """Until more may be written, or the peer has spoken or gone; False after `timeout` seconds."""
        until = asyncio.get_running_loop().time() + timeout
        in_time = True
        while self._paused and not self._inbox.interrupted:
            if not in_time:
                return False
            in_time = await self._inbox.changed(until)
        return True

    async def flushed(self, timeout: float) -> bool:
        """As `drained`, until TCP has taken everything."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while self.unsent and not self._inbox.interrupted:
            if loop.time() >= until:
                return False
            await self._inbox.changed(loop.time() + FLUSH_POLL)
        return True

    @property
    def unsent(self) -> int:
        """Octets that TCP has not taken yet."""
        return self._transport.get_write_buffer_size() + self._below.get_write_buffer_size()
