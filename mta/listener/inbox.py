"""What a client has sent and nobody has looked at yet, in bounded memory.

Rules: only CR LF ends a command line (RFC 5321 section 2.3.8); a line that is too long is thrown away up to its end and
reported once (section 4.5.3.1.9). Who fills it stops reading beyond `LIMIT`.
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


class TooLong(NamedTuple):
    """A command line of which only how it began is kept."""

    begin: bytes


class Inbox:
    """One session's: `octets`, to which what comes is added."""

    def __init__(self) -> None:
        self.octets = bytearray()
        self._searched = 0
        """Before it no CRLF begins."""
        self._thrown_away: bytes | None = None
        """How a line began that is too long and has not ended yet."""

    def take(self, limit: int) -> bytes:
        """At most so many octets."""
        taken = bytes(self.octets[:limit])
        del self.octets[:limit]
        return taken

    def line(self, *, answers_auth: bool = False) -> bytes | TooLong | None:
        """The next command line without its CRLF, None while its end has not come."""
        end = self.octets.find(_LINE_END, self._searched)
        if end < 0:
            self._wait()
            return None
        text = bytes(self.octets[:end])
        length = end + len(_LINE_END)
        del self.octets[:length]
        self._searched = 0
        if length <= LINE_LIMIT and self._thrown_away is None:
            return text
        begin, is_whole = self._thrown_away or text[: len(_AUTH)], self._thrown_away is None
        self._thrown_away = None
        may_be_long = answers_auth or begin.upper() == _AUTH
        return text if is_whole and may_be_long and length <= AUTH_LINE_LIMIT else TooLong(begin)

    def _wait(self) -> None:
        """For the rest of a line; what is too long for every command need not be kept until then."""
        held = len(self.octets) - 1  # its last octet may be the first of CRLF
        if held > AUTH_LINE_LIMIT:
            thrown_away = self.take(held)
            if self._thrown_away is None:
                self._thrown_away = thrown_away[: len(_AUTH)]
            held = 0
        self._searched = max(held, 0)
