"""SMTP replies from octets (RFC 5321 sections 4.2, 4.2.1, 4.5.3.1.5). Sans-IO.

Rules: three digits, the first 2 to 5, then a blank, a hyphen or the end of the line; all lines of a reply have the same
code. Everything else is malformed: its text is kept, nothing after it is read. A line ends with LF, with or without CR
before it. Memory is bounded by the limits on lines, whatever a server sends.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from operator import itemgetter

from msgspec import Struct

from mta.model.outcome import Observation, Phase, Seen
from mta.model.reply import finding, parse_reply
from mta.model.text import safe_text

LINE_LIMIT = 4096
"""Octets of a reply line without its end; RFC 5321 section 4.5.3.1.5 has 512 with it."""
LINES_LIMIT = 100
"""Lines of one reply."""

_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?\Z", re.DOTALL)
_TEXT = itemgetter(slice(4, None))
"""Of a line: what stands behind the code and its separator."""
_KEYWORD = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)(?:[ =](.*))?\Z")


class Answer(Struct, frozen=True):
    """What came, or did not come, where a reply was due. REPLY: `code` and the text of each line. MALFORMED: the lines as
    they came. LOST and TIMEOUT: what happened, in words."""

    seen: Seen
    code: int | None
    lines: tuple[bytes, ...]

    @property
    def positive(self) -> bool:
        return self.code is not None and 200 <= self.code < 300


_STATUS = {Seen.MALFORMED: "4.5.0", Seen.LOST: "4.4.2", Seen.TIMEOUT: "4.4.2"}


def observation(phase: Phase, answer: Answer) -> Observation:
    """The answer as a fact of `phase`."""
    if answer.code is not None:
        return Observation(phase, Seen.REPLY, parse_reply(answer.code, answer.lines))
    text = " ".join(safe_text(line) for line in answer.lines)
    return Observation(phase, answer.seen, finding(_STATUS[answer.seen], text))


def parse_extensions(answer: Answer) -> Mapping[str, str]:
    """Keyword in upper case -> parameters, of a reply to EHLO (RFC 5321 section 4.1.1.1); the first of a keyword counts,
    what is no keyword is passed over. A code other than 250 offers nothing."""
    extensions: dict[str, str] = {}
    for line in answer.lines[1:] if answer.code == 250 else ():
        match = _KEYWORD.match(line.decode("ascii", "replace").strip())
        if match:
            extensions.setdefault(match[1].upper(), (match[2] or "").strip())
    return extensions


class ReplyParser:
    """Octets in by `feed`, `answers` out, in order. `lines` and `rest` are what there is of a reply that is not complete:
    its whole lines, and the beginning of the next."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.lines: list[bytes] = []
        self.rest = b""
        self._code = b""
        self.broken = False
        """Something malformed has come; nothing behind it is read."""

    @property
    def fragment(self) -> Sequence[bytes]:
        """The lines of a reply that is not complete."""
        return (*self.lines, self.rest) if self.rest else tuple(self.lines)

    def feed(self, data: bytes) -> None:
        if self.broken:
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for ended in lines:
            line = ended.removesuffix(b"\r")
            match = _LINE.match(line) if len(line) <= LINE_LIMIT else None
            if match is None or (self.lines and match[1] != self._code) or len(self.lines) == LINES_LIMIT:
                self._break(line)
                return
            self._code = match[1]
            self.lines.append(line)
            if match[2] != b"-":
                self.answers.append(Answer(Seen.REPLY, int(self._code), tuple(map(_TEXT, self.lines))))
                self.lines.clear()
        if len(self.rest) > LINE_LIMIT:
            self._break(self.rest)

    def _break(self, line: bytes) -> None:
        self.broken = True
        self.answers.append(Answer(Seen.MALFORMED, None, (b"malformed reply:", *self.lines, line[:LINE_LIMIT])))
        self.lines.clear()
        self.rest = b""
