"""The parts of a MIME message as it goes by: header sections, the leaves' octets, and what frames them.

Rules: memory is bounded by a header section and a line. What is not plainly built is not guessed at but refused. Work is
bounded, whoever wrote the message: it is gone through once, by searches, with few steps for each line that begins as
boundaries do; none of it is recursive, and no parser sees more than one field. RFC 2045 sections 5 and 6; RFC 2046
sections 5.1 and 5.2.1.

Every piece begins with the CRLF before it: that of the line before, for the first line of a message one that nobody sent.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from enum import Enum, auto

from mta.policy.outline import Unencodable

DEPTH_LIMIT = 20
"""Multiparts and messages, one in the other."""
PART_LIMIT = 500
"""With the message itself, and those that hold others. Both are far more than programs write."""
HEAD_LIMIT = 256 * 1024
"""Octets of a header section: some milliseconds of work."""
LONGEST_LINE = 65536
"""Octets. Far more than a submission may have; what is longer is not kept in memory to find its end."""
CODED = frozenset({"base64", "quoted-printable", "x-uuencode", "uuencode", "uue", "x-uue"})

_PARAMETER_LIMIT = 20
"""Semicolons of a Content-Type: the library's work grows with their square."""
_LINE_END = b"\r\n"
_EMPTY_LINE = b"\r\n\r\n"
_FIELD = re.compile(
    rb"\r\n(content-type|content-transfer-encoding)[ \t]*:([^\r\n]*(?:\r\n[ \t][^\r\n]*)*)", re.IGNORECASE
)
_ENCODING_FIELD = re.compile(rb"\r\ncontent-transfer-encoding[ \t]*:[^\r\n]*(?:\r\n[ \t][^\r\n]*)*", re.IGNORECASE)
_VERSION_FIELD = re.compile(rb"\r\nmime-version[ \t]*:", re.IGNORECASE)
_DASHES = re.compile(rb"\r\n--([^\r\n]*)")
_MESSAGES = frozenset({"message/rfc822", "message/global"})
_SEALED = frozenset({"multipart/signed", "multipart/encrypted"})


class Kind(Enum):
    HEAD = auto()
    LEAF = auto()
    """Octets of a part that holds no others, with the empty line before them; cut before line ends."""
    FRAME = auto()
    """Boundaries, and what belongs to no part."""


@dataclass(frozen=True, slots=True)
class Head:
    """A header section, each field with the CRLF before it. `content_type` and `encoding` are in lower case, "" where there
    is none; `boundary` is that of a multipart."""

    octets: bytes
    content_type: str
    boundary: bytes
    encoding: str

    @property
    def is_multipart(self) -> bool:
        return self.content_type.startswith("multipart/")

    @property
    def is_message(self) -> bool:
        return self.content_type in _MESSAGES and self.encoding not in CODED

    @property
    def has_version(self) -> bool:
        return _VERSION_FIELD.search(self.octets) is not None

    def seven_bit(self) -> bytes:
        """For what holds no 8-bit octets, or none any more."""
        return self.relabelled(b"7bit") if self.encoding in ("8bit", "binary") else self.octets

    def relabelled(self, encoding: bytes) -> bytes:
        return _ENCODING_FIELD.sub(b"", self.octets) + b"\r\nContent-Transfer-Encoding: " + encoding


@dataclass(frozen=True, slots=True)
class Piece:
    """`head` with HEAD alone."""

    kind: Kind
    octets: bytes
    head: Head | None = None


def _read(octets: bytes, default_type: str) -> Head:
    if not octets.isascii():
        raise Unencodable("a header section with 8-bit octets")
    values: dict[bytes, str] = {}
    for match in _FIELD.finditer(octets):
        if match[1].lower() in values:
            raise Unencodable("a part that says twice what it is")
        values[match[1].lower()] = match[2].decode("ascii").strip()
    text = values.get(b"content-type", "")
    content_type = text.partition(";")[0].strip().lower() or default_type
    boundary = _boundary(text) if content_type.startswith("multipart/") else b""
    return Head(octets, content_type, boundary, values.get(b"content-transfer-encoding", "").lower())


def _boundary(content_type: str) -> bytes:
    if content_type.count(";") > _PARAMETER_LIMIT:
        raise Unencodable("a part that says at great length what it is")
    fields = Message()
    fields["Content-Type"] = content_type
    try:
        boundary = fields.get_param("boundary")
    except ValueError as error:  # a number of RFC 2231 that the library takes for no number
        raise Unencodable("a multipart message whose boundary can't be read") from error
    if not isinstance(boundary, str) or not boundary.strip():  # no charset of RFC 2231 is decoded: that may take long
        raise Unencodable("a multipart message without a boundary")
    return boundary.rstrip().encode("ascii")


class Parts:
    """`number` is that of the part that goes by, from 1 on; `sealed`: a signature covers it as it is, or it is encrypted
    (RFC 1847 section 2). `feed` and `finish` raise `Unencodable`."""

    def __init__(self) -> None:
        self.number = 0
        self.sealed = False
        self._octets = _LINE_END
        self._at = self._searched = 0
        """What is held before `_at` has gone by, and before `_searched` there is neither an empty line nor a delimiter."""
        self._kind = Kind.HEAD
        self._open: list[Head] = []
        self._delimiters: dict[bytes, tuple[int, bool]] = {}
        """What stands behind the dashes: how deep it is, and whether it closes."""

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """What `chunk` (with CRLF line ends) adds."""
        self._octets = self._octets[self._at :] + chunk
        self._searched = max(self._searched - self._at, 0)
        self._at = 0
        return self._pieces(complete=False)

    def finish(self) -> Iterator[Piece]:
        return self._pieces(complete=True)

    def _pieces(self, *, complete: bool) -> Iterator[Piece]:
        while self._at < len(self._octets):
            if self._kind is Kind.HEAD:
                if (end := self._head_end(complete=complete)) < 0:
                    return
                yield from self._part(end)
                continue
            found = self._delimiter(len(self._octets), complete=complete)
            if (end := found.start() if found else self._safe_end(complete=complete)) > self._at:
                piece = Piece(self._kind, self._octets[self._at : end])
                self._at = end
                yield piece
            if found is None:
                return
            yield self._passed(found)

    def _safe_end(self, *, complete: bool) -> int:
        """Up to where what is held is no boundary, whatever follows."""
        end = len(self._octets) if complete else self._octets.rfind(_LINE_END, self._at)
        if len(self._octets) - end > LONGEST_LINE:
            raise Unencodable(f"a line of more than {LONGEST_LINE} octets")
        return end

    # ------------------------------------------------ header sections
    def _head_end(self, *, complete: bool) -> int:
        """Where the empty line is, or a delimiter before it, or the end; -1: that is not known yet."""
        empty = self._octets.find(_EMPTY_LINE, max(self._at, self._searched))
        end = empty if empty >= 0 else len(self._octets)
        if found := self._delimiter(end, complete=complete or empty >= 0):
            end = found.start()
        if end - self._at > HEAD_LIMIT:
            raise Unencodable(f"a header section of more than {HEAD_LIMIT} octets")
        if found or empty >= 0 or complete:
            return end
        self._searched = self._octets.rfind(_LINE_END)
        return -1

    def _part(self, end: int) -> Iterator[Piece]:
        """The header section that ends at `end`; what follows begins."""
        self.number += 1
        if self.number > PART_LIMIT:
            raise Unencodable(f"a message of more than {PART_LIMIT} parts")
        head = _read(self._octets[self._at : end], self._default_type)
        self.sealed = any(it.content_type in _SEALED for it in self._open)
        is_message = head.is_message and self._octets.startswith(_EMPTY_LINE, end)
        if is_message or head.is_multipart:
            self._enter(head)
        self._at = end
        self._kind = Kind.HEAD if is_message else Kind.FRAME if head.is_multipart else Kind.LEAF
        yield Piece(Kind.HEAD, head.octets, head)
        if is_message:
            self._at += len(_LINE_END)
            yield Piece(Kind.FRAME, _LINE_END)

    @property
    def _default_type(self) -> str:
        in_digest = bool(self._open) and self._open[-1].content_type == "multipart/digest"
        return "message/rfc822" if in_digest else ""

    def _enter(self, head: Head) -> None:
        if len(self._open) == DEPTH_LIMIT:
            raise Unencodable(f"a message of more than {DEPTH_LIMIT} parts inside each other")
        if head.encoding in CODED:
            raise Unencodable(f"a part of type {head.content_type} that has an encoding")
        self._open.append(head)
        self._note_delimiters()

    # ------------------------------------------------ boundaries
    def _note_delimiters(self) -> None:
        self._delimiters = {}
        for depth, head in enumerate(self._open):
            if head.is_multipart:
                self._delimiters |= {head.boundary: (depth, False), head.boundary + b"--": (depth, True)}

    def _delimiter(self, before: int, *, complete: bool) -> re.Match[bytes] | None:
        """The next one whose line is known to have ended."""
        for found in _DASHES.finditer(self._octets, max(self._at, self._searched), before):
            if found[1].rstrip(b" \t") in self._delimiters:
                return found if complete or self._octets.startswith(_LINE_END, found.end()) else None
        return None

    def _passed(self, found: re.Match[bytes]) -> Piece:
        depth, closes = self._delimiters[found[1].rstrip(b" \t")]
        del self._open[depth if closes else depth + 1 :]
        self._note_delimiters()
        self._at = found.end()
        self._kind = Kind.FRAME if closes else Kind.HEAD
        return Piece(Kind.FRAME, found[0])
