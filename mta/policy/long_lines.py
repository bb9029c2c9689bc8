"""Messages with lines that are too long, made legal: their parts in quoted-printable.

Rules: only parts that have such a line change, and of their header sections only Content-Transfer-Encoding; what decodes
them gets what was submitted, octet for octet. The content goes by twice: first to see which parts these are, then to write
it anew. RFC 5321 section 4.5.3.1.6; RFC 6409 section 8.4; RFC 2045 sections 3, 6.1 and 6.7; RFC 2046 section 5.1.1.
"""

import re
from collections.abc import Container

from mta.policy.outline import Kind, Outline, Piece, Unencodable

_QP_LINE = 76
_CODED = re.compile(rb"[^\t -<>-~]|[\t ]\Z")
_CUT = re.compile(rb".{1,72}(?<!=)(?<!=[0-9A-F])")
"""A piece of a line that does not end inside a coded octet, short enough for the soft line break and a coded hyphen."""
_SOFT = b"=\r\n"


class Survey:
    """The first time: `parts` are the numbers of those with long lines. `utf8` as in `Outline`."""

    def __init__(self, *, utf8: bool = False) -> None:
        self.parts: set[int] = set()
        self._outline = Outline(utf8=utf8)

    def feed(self, chunk: bytes) -> None:
        """Raises `Unencodable`."""
        for piece in self._outline.feed(chunk):
            if piece.is_long and piece.kind is not Kind.HEAD:
                self._note(piece)

    def finish(self) -> None:
        """Raises `Unencodable`."""
        for _ in self._outline.finish():
            """A header section without a body has no long line."""

    def _note(self, piece: Piece) -> None:
        if piece.kind is Kind.FRAME:
            raise Unencodable("text that stands outside the parts of a multipart message")
        if self._outline.obstacle:
            raise Unencodable(self._outline.obstacle)
        self.parts.add(self._outline.part)


class Rewriter:
    """The second time: what is to be written for the `parts` to be encoded; `utf8` as in `Outline`. `eight_bit` tells of
    what was written."""

    def __init__(self, parts: Container[int], *, utf8: bool = False) -> None:
        self.eight_bit = False
        self._parts = parts
        self._outline = Outline(utf8=utf8)
        self._is_top = True

    def feed(self, chunk: bytes) -> bytes:
        return self._written(list(map(self._rewritten, self._outline.feed(chunk))))

    def finish(self) -> bytes:
        return self._written(list(map(self._rewritten, self._outline.finish())))

    def _written(self, pieces: list[bytes]) -> bytes:
        octets = b"".join(pieces)
        self.eight_bit |= not octets.isascii()
        return octets

    def _rewritten(self, piece: Piece) -> bytes:
        is_encoded = self._outline.part in self._parts
        if piece.kind is Kind.HEAD:
            is_top, self._is_top = self._is_top, False
            return _head(piece, is_top) if is_encoded and self._outline.in_body else piece.octets
        if piece.kind is Kind.BODY and is_encoded:
            return quoted_printable(piece.octets, piece.is_first, piece.is_last)
        return piece.octets + (b"\r\n" if piece.is_last else b"")


def _head(piece: Piece, is_top: bool) -> bytes:
    """The header section of a part that is encoded. A message that had no use for MIME has now."""
    fields = piece.section.fields if piece.section is not None else ()
    kept = b"".join(field.raw for field in fields if field.name != "content-transfer-encoding")
    needs_version = is_top and not any(field.name == "mime-version" for field in fields)
    version = b"MIME-Version: 1.0\r\n" if needs_version else b""
    return kept + version + b"Content-Transfer-Encoding: quoted-printable\r\n"


def quoted_printable(octets: bytes, is_first: bool, is_last: bool) -> bytes:
    """Some of a line: its beginning, its end, both, or neither. No line that is made here looks like a boundary."""
    coded = _CODED.sub(lambda match: b"=%02X" % match[0][0], octets)
    lines = [coded] if is_first and is_last and len(coded) <= _QP_LINE else _CUT.findall(coded)
    for number, line in enumerate(lines):
        if line.startswith(b"-") and not (is_first and number == 0):
            lines[number] = b"=2D" + line[1:]
    return _SOFT.join(lines) + (b"\r\n" if is_last else _SOFT)
