"""SMTP replies and enhanced status codes as values (RFC 5321 section 4.2, RFC 3463, RFC 2034).

Rules: the code decides, the text is decoration; text is made safe once, here, so that whatever holds a `Reply` can be
stored, logged and printed. A finding of our own (no such domain, null MX) is a `Reply` whose code is None.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from mta.model.text import safe_text

_ENHANCED = re.compile(r"([245])\.(\d{1,3})\.(\d{1,3})(?=\s|$)")
TEXT_LIMIT = 2000
"""Characters of a reply's text that are kept."""
_SHORT = 100
"""Octets of a line that is worth being remembered."""


class Reply(Struct, frozen=True):
    """What a server said, or what we found. `enhanced` is as the server gave it (`status` is what it is worth);
    `text` has its lines joined by a blank and no enhanced codes."""

    code: int | None
    enhanced: str | None
    text: str

    @property
    def status(self) -> str:
        """The enhanced status to go by: the server's own where its class agrees with the reply's first digit, else
        `x.0.0` (RFC 3464 section 2.3.4, RFC 2034 section 4)."""
        if self.code is None:
            return self.enhanced or "4.0.0"
        digit = str(self.code)[0]
        if self.enhanced and self.enhanced[0] == digit:
            return self.enhanced
        return f"{digit}.0.0"

    def __str__(self) -> str:
        parts = (str(self.code) if self.code is not None else None, self.enhanced, self.text)
        return " ".join(part for part in parts if part)


def parse_reply(code: int, lines: Sequence[bytes | str]) -> Reply:
    """A `Reply` from a code and the text of its lines (what stands behind the code and its separator)."""
    short = len(lines) == 1 and len(lines[0]) <= _SHORT
    return _parsed_before(code, lines[0]) if short else _parsed(code, lines)


@lru_cache(maxsize=1000)
def _parsed_before(code: int, line: bytes | str) -> Reply:
    """A server says the same to most commands."""
    return _parsed(code, (line,))


def _parsed(code: int, lines: Sequence[bytes | str]) -> Reply:
    enhanced: str | None = None
    texts: list[str] = []
    for raw in lines:
        line = safe_text(raw).strip()
        if match := _ENHANCED.match(line):
            enhanced = enhanced or match.group()
            line = line[match.end() :].strip()
        if line:
            texts.append(line)
    return Reply(code, enhanced, safe_text(" ".join(texts), TEXT_LIMIT))


def finding(enhanced: str, text: str) -> Reply:
    """What we found ourselves, without a server's reply."""
    return Reply(None, enhanced, safe_text(text, TEXT_LIMIT))
