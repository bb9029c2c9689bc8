"""Content in chunks, BDAT instead of DATA (RFC 3030 sections 2 and 4.2).

Rules: nothing is stuffed; a last line without CRLF gets one, and a bare CR or LF never leaves, so that the octets are
those that DATA brings. The last chunk is sent when all before it were accepted, and it is small: what is lost before it was
not delivered for sure, and the doubt is no longer than with a dot. A chunk that has begun is finished, also when one before
it was refused, or the session would be out of step; then no other follows. But a server that does not know BDAT takes chunks
for commands: it gets no more of them. Without PIPELINING each chunk waits for the reply to the one before.
"""

from collections.abc import AsyncIterator, Iterator

from mta.model.outcome import Seen
from mta.smtp.inbox import Inbox
from mta.smtp.outflow import Outflow
from mta.smtp.replies import Answer
from mta.smtp.stuffing import PIECE, check_line_ends
from mta.smtp.wire import Wire

CHUNK = 128 * 1024
"""Octets: as many as the spool gives at a time, and so many that a round trip for each matters little."""
LAST = 512
"""Octets of the last chunk, or fewer: they fit into one segment with its command."""
AHEAD = 4
"""Chunks without a reply, with PIPELINING: half a megabyte keeps a long way full, and is all that is wasted on a server
that has refused the first."""


_UNKNOWN = (500, 502)


class Cutter:
    """Content in, chunks out; `finish` once at the end, then `last` is the last one. Both raise `DamagedContent`."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._cr = b""

    def feed(self, octets: bytes) -> Iterator[bytes]:
        check_line_ends(self._cr + octets)
        self._cr = b"\r" if (octets or self._cr).endswith(b"\r") else b""
        self._held += octets
        while len(self._held) >= CHUNK + LAST:
            yield bytes(self._held[:CHUNK])
            del self._held[:CHUNK]

    def finish(self) -> Iterator[bytes]:
        check_line_ends(self._cr, complete=True)
        if self._held and not self._held.endswith(b"\r\n"):
            self._held += b"\r\n"
        if len(self._held) > LAST:
            yield bytes(self._held[:-LAST])
            del self._held[:-LAST]

    @property
    def last(self) -> bytes:
        return bytes(self._held)


class Chunks:
    """Of one message: `send`, and if it comes to nothing else, `send_last`. `timeout` in seconds, for each write and each
    reply. `are_whole`: what was begun was finished and replied to, and the session is of use."""

    def __init__(self, wire: Wire, inbox: Inbox, timeout: float, *, pipelined: bool) -> None:
        self._wire, self._inbox, self._timeout = wire, inbox, timeout
        self._outflow = Outflow(wire, timeout)
        self._ahead = AHEAD if pipelined else 1
        self._cutter = Cutter()
        self._owed = 0
        self.are_whole = True
        self._refusal: Answer | None = None

    async def send(self, content: AsyncIterator[bytes]) -> Answer | None:
        """All chunks but the last; None when they were accepted, else what came instead, once no reply is owed."""
        async for octets in content:
            for chunk in self._cutter.feed(octets):
                if answer := await self._send(chunk):
                    return answer
        for chunk in self._cutter.finish():
            if answer := await self._send(chunk):
                return answer
        return await self._replies(0) or (None if self._inbox.in_step else self._inbox.unasked())

    def send_last(self) -> None:
        """Its reply is owed then."""
        last = self._cutter.last
        self._inbox.expect()
        self._wire.write(b"BDAT %d LAST\r\n%b" % (len(last), last))

    async def _send(self, chunk: bytes) -> Answer | None:
        self._inbox.expect()
        self._owed += 1
        octets = b"BDAT %d\r\n%b" % (len(chunk), chunk)
        for start in range(0, len(octets), PIECE):
            self._wire.write(octets[start : start + PIECE])
            if answer := await self._taken():
                return answer
        return await self._replies(self._ahead - 1)

    async def _taken(self) -> Answer | None:
        """Until more may be written. Replies that come meanwhile are to chunks before, or refuse this one."""
        while answer := await self._outflow.taken():
            if ending := self._hear(answer):
                return ending
        return None

    async def _replies(self, left: int) -> Answer | None:
        """Until no more than `left` are owed, none at all after a refusal."""
        while self._owed > (left if self._refusal is None else 0):
            if ending := self._hear(await self._inbox.answer(self._timeout)):
                return ending
        return self._refusal

    def _hear(self, answer: Answer) -> Answer | None:
        """What ends the session, if this does. Of refusals the first one counts, also when the session has ended since."""
        self._owed -= 1
        if answer.code in _UNKNOWN or not _is_reply_to_chunk(answer):
            self.are_whole = False
            return self._refusal or answer
        if not _accepts(answer):
            self._refusal = self._refusal or answer
        return None


def _is_reply_to_chunk(answer: Answer) -> bool:
    """A 3yz is not: the replies are shifted."""
    return answer.seen is Seen.REPLY and answer.code != 421 and (answer.code or 0) // 100 != 3


def _accepts(answer: Answer) -> bool:
    return (answer.code or 0) // 100 == 2
