"""The content of a DATA command on its way into the spool, chunk by chunk.

Rules: only CR LF `.` CR LF ends it, wherever the chunks are cut; whatever is wrong with the content, it is read to that
end, and nothing is stored once something is wrong. A bare CR or LF becomes CRLF, or is refused. A dot is taken away where
a client stuffed it: after CRLF as RFC 5321 says, and after a bare LF where two stand, since Python's smtplib stuffs
there and clients that do not stuff there lose nothing. A `.` alone before a bare CR or LF is text: it stays, and is
stuffed when it goes out, so that what follows it is never a command anywhere. Memory is bounded by a line and a chunk.
RFC 5321 sections 2.3.8, 4.1.1.4, 4.5.2 and 4.5.3.1.6; RFC 1870 section 5.
"""

import re

from mta.listener.settings import BareNewlines, LongLines
from mta.model.line_ends import has_bare
from mta.model.reply import Reply
from mta.policy.acceptance import TOO_LARGE
from mta.policy.outline import LINE_LIMIT
from mta.spool.base import ContentBuffer

_END = b"\r\n.\r\n"
_STUFFED = re.compile(rb"(?<=\n)\.(?=\.)|(?<=\r\n)\.(?=[^\r\n])")

BARE_NEWLINE = Reply(554, "5.6.0", "Message has a bare CR or LF")
NUL = Reply(554, "5.6.0", "Message has a NUL octet")
LONG_LINE = Reply(554, "5.6.0", f"Message has a line of more than {LINE_LIMIT} octets: encode it")


class ContentDecoder:
    """Takes what the client sends after 354, writes what it means to `buffer`. `fault` is the refusal, or None; `error` the
    exception that stopped the storing. `has_long_line`: a line was too long, and is stored only where that is wanted."""

    def __init__(
        self, buffer: ContentBuffer, limit: int, bare_newlines: BareNewlines, long_lines: LongLines = "refuse"
    ) -> None:
        self.buffer = buffer
        self._limit = limit
        self._rejects_bare = bare_newlines == "reject"
        self._takes_long = long_lines == "encode"
        self._pending = bytearray(b"\r\n")  # the line end before the first line, which nobody sends
        self._virtual = 2
        self._size = 0
        self.eight_bit = self.has_long_line = False
        self.fault: Reply | None = None
        self.error: Exception | None = None

    def feed(self, chunk: bytes) -> bytes | None:
        """None while the end has not been seen, then what came behind it."""
        pending = self._pending
        searched = max(len(pending) - len(_END) + 1, 0)
        pending += chunk
        end = pending.find(_END, searched)
        if end >= 0:
            behind = bytes(pending[end + len(_END) :])
            self._take(bytes(memoryview(pending)[: end + 2]))
            return behind
        self._pass_on()
        return None

    def _pass_on(self) -> None:
        """Stores what is pending as far as it can be decoded."""
        if cut := self._cut():
            self._take(bytes(memoryview(self._pending)[:cut]))
            del self._pending[:cut]

    def _cut(self) -> int:
        """How much of what is pending can be decoded: whole lines, each with the line end before it. The line end that may
        begin the end of data stays."""
        pending = self._pending
        newline = max(pending.rfind(b"\n"), pending.rfind(b"\r"))
        if pending.endswith(_END[:-1]):
            newline = len(pending) - len(_END) + 1
        elif newline > 0 and pending[newline - 1 : newline + 1] == b"\r\n":
            newline -= 1
        if len(pending) - newline > LINE_LIMIT + len(_END):
            self._found_long_line()
            return len(pending) - len(_END)
        return max(newline, 0)

    def _found_long_line(self) -> None:
        self.has_long_line = True
        if not self._takes_long:
            self.fault = self.fault or LONG_LINE

    def _take(self, raw: bytes) -> None:
        """`raw` begins with a line end and has whole lines, but where a line is too long."""
        if self.fault is None:
            raw = self._decoded(raw)
            self._check(raw)
        self._store(raw[self._virtual :])
        self._virtual = 0

    def _decoded(self, raw: bytes) -> bytes:
        if not has_bare(raw) and not raw.endswith(b"\r\n."):  # such a dot stands before a bare one
            return raw.replace(b"\r\n.", b"\r\n")
        if b"\n." in raw:
            raw = _STUFFED.sub(b"", raw)
        return self._normalized(raw)

    def _normalized(self, raw: bytes) -> bytes:
        """Text that has a bare CR or LF with CRLF for each."""
        if self._rejects_bare:
            self.fault = BARE_NEWLINE
        return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\r\n")  # 3 times as fast as a regex

    def _check(self, text: bytes) -> None:
        if b"\0" in text:
            self.fault = NUL
        elif not self.has_long_line and _has_long_line(text):
            self._found_long_line()
        if not text.isascii():
            self.eight_bit = True

    def _store(self, text: bytes) -> None:
        self._size += len(text)
        if self._size > self._limit:
            self.fault = TOO_LARGE
        if self.fault is not None or self.error is not None:
            return
        try:
            self.buffer.write(text)
        except Exception as error:
            self.error = error


class ChunkDecoder(ContentDecoder):
    """The same for what BDAT brings (RFC 3030 section 2): `feed` takes the octets of the chunks, cut anywhere, in which no
    dot means anything, and `finish` ends the message."""

    def feed(self, chunk: bytes) -> None:
        self._pending += chunk
        self._pass_on()

    def finish(self) -> None:
        """A last line that lacks its line end gets one; what has no octet at all stays so."""
        if self._virtual and len(self._pending) == self._virtual:
            return
        self._take(bytes(self._pending))
        if not self._pending.endswith((b"\r", b"\n")):
            self._store(b"\r\n")
        self._pending.clear()

    def _decoded(self, raw: bytes) -> bytes:
        return self._normalized(raw) if has_bare(raw) else raw


def _has_long_line(text: bytes) -> bool:
    """Looks only where a line end has to be: `text` begins with one, and the last line is whole."""
    line_end = 0
    while len(text) - line_end > LINE_LIMIT + 2:
        line_end = text.rfind(b"\r\n", line_end + 1, line_end + 2 + LINE_LIMIT + 2)
        if line_end < 0:
            return True
    return False
