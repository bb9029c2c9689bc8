"""What a BDAT command announces, and what those of one transaction have brought (RFC 3030 section 2).

Rules: BINARYMIME is not offered, so the content is held to what DATA is held to, but for the dots.
"""

import re

from msgspec import Struct

from mta.listener.content import ChunkDecoder
from mta.listener.settings import ListenerSettings
from mta.model.reply import Reply
from mta.spool.base import ContentBuffer

_COMMAND = re.compile(rb"BDAT(?![0-9A-Za-z])", re.IGNORECASE)
_ARGUMENT = re.compile(r"([0-9]{1,20})(?:[ \t]+(LAST))?\Z", re.IGNORECASE)

BAD_CHUNK = Reply(501, "5.5.4", "Syntax: BDAT size [LAST]")


class Chunk(Struct, frozen=True):
    """`size` octets, the last ones if `is_last`. `refusal` says why they are only thrown away."""

    size: int
    is_last: bool
    refusal: Reply | None = None


def announces_chunk(line: bytes) -> bool:
    """Whether a line is a BDAT, with whatever flaw: then octets may follow that are no commands."""
    return _COMMAND.match(line) is not None


def announced(argument: str) -> Chunk | None:
    """What the argument of BDAT says; None where it can't be told how many octets follow."""
    match = _ARGUMENT.match(argument)
    return Chunk(int(match[1]), match[2] is not None) if match else None


class Chunks:
    """A message whose last chunk has not come yet; `content` is closed by who ends it."""

    def __init__(self, content: ContentBuffer, settings: ListenerSettings) -> None:
        self.content = content
        self.decoder = ChunkDecoder(content, settings.max_message_size, settings.bare_newlines, settings.long_lines)
