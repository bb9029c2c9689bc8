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
AUTH_LINE_LIMIT = 12288
"""The same of AUTH, and of what is answered to its challenges (RFC 4954 section 4)."""
_AUTH = b"AUTH "


class Inbox(asyncio.StreamReader):
    """The stream reader of a session, with a look at what is buffered. `_buffer` is CPython's, the same since 3.4; aiosmtpd
    clears it at STARTTLS, so a buffer of our own would not do."""

    _buffer: bytearray
    cut = b""
    """How the line began that was too long."""

    def has_line(self) -> bool:
        return b"\r\n" in self._buffer

    def unread(self, data: bytes) -> None:
        self._buffer[:0] = data

    def is_empty(self) -> bool:
        return not self._buffer

    def carried_by(self, transport: asyncio.Transport) -> None:
        """Reads from another transport than before. `_transport` is CPython's, as `_buffer`."""
        self._transport = transport

    async def line(self, *, answers_auth: bool = False) -> bytes | None:
        """The next command line without its CRLF, None for one that was too long. Raises IncompleteReadError at the end."""
        too_long = False
        while True:
            try:
                line = await self.readuntil(b"\r\n")
            except asyncio.LimitOverrunError as overrun:
                thrown_away = await self.readexactly(overrun.consumed)
                self.cut = self.cut if too_long else thrown_away[: len(_AUTH)]
                too_long = True
                continue
            if too_long:
                return None
            self.cut = line[: len(_AUTH)]
            is_long = answers_auth or self.cut.upper() == _AUTH
            return None if len(line) > (AUTH_LINE_LIMIT if is_long else LINE_LIMIT) else line[:-2]
