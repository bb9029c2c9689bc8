"""Stored content as 7-bit content, for a server without 8BITMIME (RFC 6152 section 3).

Rules: what comes of it is a function of the content alone, so that a retry after a doubt sends the same; it is made anew
each time that it is asked for, slice by slice: memory does not follow its size, and between two slices others get their
turn.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from mta.policy.seven_bit import Codings, Rewriter, Survey

_SLICE = 64 * 1024
"""Octets between two turns of others: up to a few milliseconds, whatever they are."""

Content = Callable[[], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class SevenBit:
    """`content` as it goes out. `size` in octets of that."""

    content: Content
    codings: Codings
    size: int

    def chunks(self) -> AsyncIterator[bytes]:
        return _rewritten(self.content, self.codings)


async def seven_bit(content: Content) -> SevenBit:
    """`content` has CRLF line ends. Raises `Unencodable`, and what `content` raises."""
    survey = Survey()
    async for piece in _slices(content):
        survey.feed(piece)
    codings = survey.finish()
    size = 0
    async for chunk in _rewritten(content, codings):
        size += len(chunk)
    return SevenBit(content, codings, size)


async def _rewritten(content: Content, codings: Codings) -> AsyncIterator[bytes]:
    rewriter = Rewriter(codings)
    async for piece in _slices(content):
        if octets := rewriter.feed(piece):
            yield octets
    if octets := rewriter.finish():
        yield octets


async def _slices(content: Content) -> AsyncIterator[bytes]:
    async for chunk in content():
        for start in range(0, len(chunk), _SLICE):
            yield chunk[start : start + _SLICE]
            await asyncio.sleep(0)
