"""What a client has sent and nobody has looked at yet, in bounded memory.

Rules: only CR LF ends a command line (RFC 5321 section 2.3.8); a line that is too long is thrown away up to its end and
reported once (section 4.5.3.1.9). Who fills it stops reading where it `is_full`.
"""

from typing import NamedTuple

LIMIT = 64 * 1024
"""Octets beyond which no more is read."""
LINE_LIMIT = 4096
"""Octets of a command line with its CRLF."""
AUTH_LINE_LIMIT = 12288
"""The same of AUTH, and of what is answered to its challenges (RFC 4954 section 4)."""
_AUTH = b"AUTH "
_LINE_END = b"\r\n"


class Line(NamedTuple):
    """Without its CRLF; `text` is None for one that was too long, `cut` how it began."""

    text: bytes | None
    cut: bytes


class Inbox:
    """One session's."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        """Before it no CRLF begins."""
        self._thrown_away: bytes | None = None
        """How a line began that is too long and has not ended yet."""

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def unread(self, data: bytes) -> None:
        self._buffer[:0] = data

    @property
    def is_empty(self) -> bool:
        return not self._buffer

    @property
    def is_full(self) -> bool:
        return len(self._buffer) > LIMIT

    def take(self, limit: int) -> bytes:
        """At most so many octets."""
        taken = bytes(self._buffer[:limit])
        del self._buffer[:limit]
        return taken

    def line(self, *, answers_auth: bool = False) -> Line | None:
        """The next command line, None while its end has not come."""
        end = self._buffer.find(_LINE_END, self._searched)
        if end < 0:
            self._wait()
            return None
        text = self.take(end + len(_LINE_END))
        cut = self._thrown_away if self._thrown_away is not None else text[: len(_AUTH)]
        is_long = answers_auth or cut.upper() == _AUTH
        is_too_long = self._thrown_away is not None or len(text) > (AUTH_LINE_LIMIT if is_long else LINE_LIMIT)
        self._searched, self._thrown_away = 0, None
        return Line(None if is_too_long else text[: -len(_LINE_END)], cut)

    def _wait(self) -> None:
        """For the rest of a line; what is too long for every command need not be kept until then."""
        held = len(self._buffer) - 1  # its last octet may be the first of CRLF
        if held > AUTH_LINE_LIMIT:
            thrown_away = self.take(held)
            if self._thrown_away is None:
                self._thrown_away = thrown_away[: len(_AUTH)]
            held = 0
        self._searched = max(held, 0)
