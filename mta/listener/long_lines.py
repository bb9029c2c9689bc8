"""Content with lines that are too long, written anew in lines that are not (`submission.long_lines`).

Rules: memory is bounded, other sessions get their turn between two pieces; what can't be made legal is refused, and the
reply says why.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mta.model.reply import Reply
from mta.policy.long_lines import Rewriter, Survey
from mta.policy.outline import LINE_LIMIT, Unencodable
from mta.spool.base import ContentBuffer

_PIECE = 16 * 1024
"""Octets between two turns of other sessions: some ten milliseconds, if they are line ends or all to be encoded."""


@dataclass(frozen=True, slots=True)
class Encoded:
    content: ContentBuffer
    eight_bit: bool


async def encoded(content: ContentBuffer, new_buffer: Callable[[], ContentBuffer], *, utf8: bool) -> Encoded | Reply:
    """The same message in a buffer of its own; `content` is left as it is. `utf8`: its header sections may be UTF-8. Raises
    what the buffers raise."""
    survey = Survey(utf8=utf8)
    try:
        for piece in _pieces(content):
            survey.feed(piece)
            await asyncio.sleep(0)
        survey.finish()
    except Unencodable as why:
        text = f"Message has a line of more than {LINE_LIMIT} octets that can't be encoded: it is in {why}"
        return Reply(554, "5.6.0", text)
    buffer = new_buffer()
    try:
        return Encoded(buffer, await _rewrite(content, Rewriter(survey.parts, utf8=utf8), buffer))
    except BaseException:
        buffer.close()
        raise


async def _rewrite(content: ContentBuffer, rewriter: Rewriter, buffer: ContentBuffer) -> bool:
    """Whether 8-bit octets were written."""
    for piece in _pieces(content):
        buffer.write(rewriter.feed(piece))
        await asyncio.sleep(0)
    buffer.write(rewriter.finish())
    return rewriter.eight_bit


def _pieces(content: ContentBuffer) -> Iterator[bytes]:
    for chunk in content.chunks():
        for start in range(0, len(chunk), _PIECE):
            yield chunk[start : start + _PIECE]
