"""What a BDAT command announces, and what those of one transaction have brought (RFC 3030 section 2).

Rules: BINARYMIME is not offered, so the content is held to what DATA is held to, but for the dots.
"""

import re
from dataclasses import dataclass

from mta.listener.content import ChunkDecoder
from mta.listener.settings import ListenerSettings
from mta.model.reply import Reply
from mta.spool.base import ContentBuffer

_ARGUMENT = re.compile(r"([0-9]{1,20})(?:[ \t]+(LAST))?\Z", re.IGNORECASE)

BAD_CHUNK = Reply(501, "5.5.4", "Syntax: BDAT size [LAST]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """`size` octets, the last ones if `is_last`. `refusal` says why they are only thrown away."""

    size: int
    is_last: bool
    refusal: Reply | None = None


def chunk_size(argument: str) -> tuple[int, bool] | None:
    """The size, and whether LAST was said; None where it can't be told how many octets follow."""
    match = _ARGUMENT.match(argument)
    return (int(match[1]), match[2] is not None) if match else None


class Chunks:
    """A message whose last chunk has not come yet; `content` is closed by who ends it."""

    def __init__(self, content: ContentBuffer, settings: ListenerSettings) -> None:
        self.content = content
        self.decoder = ChunkDecoder(content, settings.max_message_size, settings.bare_newlines, settings.long_lines)
