"""What a client has sent and nobody has read yet, in bounded memory.

Rules: only CR LF ends a command line (RFC 5321 section 2.3.8); a line that is too long is thrown away up to its end and
reported once (section 4.5.3.1.9). Reading pauses the transport at twice `BUFFER_LIMIT`.
"""

import asyncio

BUFFER_LIMIT = 32 * 1024
CHUNK = 64 * 1024
"""Octets of content that are read at once."""
LINE_LIMIT = 4096
"""Octets of a command line with its CRLF."""


class Inbox(asyncio.StreamReader):
    """The stream reader of a session, with a look at what is buffered. `_buffer` is CPython's, the same since 3.4; aiosmtpd
    clears it at STARTTLS, so a buffer of our own would not do."""

    _buffer: bytearray

    def has_line(self) -> bool:
        return b"\r\n" in self._buffer

    def unread(self, data: bytes) -> None:
        self._buffer[:0] = data

    def is_empty(self) -> bool:
        return not self._buffer

    def carried_by(self, transport: asyncio.Transport) -> None:
        """Reads from another transport than before. `_transport` is CPython's, as `_buffer`."""
        self._transport = transport

    async def line(self) -> bytes | None:
        """The next command line without its CRLF, None for one that was too long. Raises IncompleteReadError at the end."""
        too_long = False
        while True:
            try:
                line = await self.readuntil(b"\r\n")
            except asyncio.LimitOverrunError as overrun:
                await self.readexactly(overrun.consumed)
                too_long = True
                continue
            return None if too_long or len(line) > LINE_LIMIT else line[:-2]
