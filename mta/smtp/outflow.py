"""Content on its way to a peer, at the peer's pace (RFC 5321 sections 4.1.1.4, 4.5.3.2.5). What comes instead of its going
through is an answer."""

from collections.abc import AsyncIterator

from mta.model.outcome import Seen
from mta.smtp.replies import Answer
from mta.smtp.stuffing import PIECE, DotStuffer
from mta.smtp.wire import Wire

REST = 16 * 1024
"""Octets that go with the dot at most: what TCP takes at once, so that the time in which it is not known whether all has
gone out is no longer than with the dot alone."""


class Outflow:
    """`timeout` in seconds, for each write to be taken."""

    def __init__(self, wire: Wire, timeout: float) -> None:
        self._wire, self._timeout = wire, timeout

    async def write(self, piece: bytes) -> Answer | None:
        if answer := self._wire.news():
            return answer
        self._wire.write(piece)
        return await self.taken()

    async def taken(self) -> Answer | None:
        """Until more may be written, or something has come."""
        if not await self._wire.drained(self._timeout):
            return self._stalled()
        return self._wire.news()

    async def dotted(self, chunks: AsyncIterator[bytes]) -> Answer | bytes:
        """Stuffed, without the final dot, until TCP has taken it: all but a small rest, which is given back, to go in one
        write with its dot. That is the whole of most messages, and each write is a tenth of what a delivery costs us."""
        stuffer, rest = DotStuffer(), b""
        async for chunk in chunks:
            rest += stuffer.stuff(chunk)
            whole = len(rest) - len(rest) % PIECE
            for start in range(0, whole, PIECE):
                if answer := await self.write(rest[start : start + PIECE]):
                    return answer
            rest = rest[whole:]
        rest += stuffer.finish()
        if len(rest) > REST:
            if answer := await self.write(rest):
                return answer
            rest = b""
        if self._wire.unsent and not await self._wire.flushed(self._timeout):
            return self._stalled()
        return self._wire.news() or rest

    def _stalled(self) -> Answer:
        return Answer(Seen.TIMEOUT, None, (f"the server took no content for {self._timeout:g} s".encode(),))
