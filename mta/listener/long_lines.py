"""Content with lines that are too long, written anew in lines that are not (`submission.long_lines`).

Rules: memory is bounded, other sessions get their turn between two pieces; what can't be made legal is refused, and the
reply says why.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mta.model.reply import Reply
from mta.policy.long_lines import Rewriter, Survey
from mta.policy.outline import LINE_LIMIT, Unencodable
from mta.spool.base import ContentBuffer


@dataclass(frozen=True, slots=True)
class Encoded:
    content: ContentBuffer
    eight_bit: bool


async def encoded(content: ContentBuffer, new_buffer: Callable[[], ContentBuffer]) -> Encoded | Reply:
    """The same message in a buffer of its own; `content` is left as it is. Raises what the buffers raise."""
    survey = Survey()
    try:
        for chunk in content.chunks():
            survey.feed(chunk)
            await asyncio.sleep(0)
        survey.finish()
    except Unencodable as why:
        text = f"Message has a line of more than {LINE_LIMIT} octets that can't be encoded: it is in {why}"
        return Reply(554, "5.6.0", text)
    buffer = new_buffer()
    try:
        return Encoded(buffer, await _rewrite(content, Rewriter(survey.parts), buffer))
    except BaseException:
        buffer.close()
        raise


async def _rewrite(content: ContentBuffer, rewriter: Rewriter, buffer: ContentBuffer) -> bool:
    """Whether 8-bit octets were written."""
    for chunk in content.chunks():
        buffer.write(rewriter.feed(chunk))
        await asyncio.sleep(0)
    buffer.write(rewriter.finish())
    return rewriter.eight_bit
