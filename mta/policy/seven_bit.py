"""A message with 8-bit parts as a 7-bit one, as a gateway makes it (RFC 6152 section 3).

Rules: only leaves that hold 8-bit octets are encoded, and labels of 8 bits taken away; all else keeps its octets. The
message goes by twice, first to see what each leaf needs, then to be written anew; memory does not follow its size, and
what is written does not depend on how it is cut. Nothing inside of multipart/signed and multipart/encrypted is touched
(RFC 1847 section 2.1): what is 8-bit there can't be made 7-bit. A DKIM signature that the message brought is broken by
this; RFC 6376 section 5.3 has signers see to it that they sign 7-bit content. RFC 2045 sections 6.1, 6.4, 6.7 and 6.8;
RFC 1428.
"""

from base64 import encodebytes
from binascii import b2a_qp
from collections.abc import Iterable, Mapping

from mta.policy.outline import Unencodable
from mta.policy.parts import CODED, Head, Kind, Parts, Piece

SIZE_LIMIT = 512 * 1024
"""Octets of a message that is encoded in one go: tens of milliseconds of work at the worst."""

_ASCII = bytes(range(128))
_QUOTED_PRINTABLE = b"quoted-printable"
_BASE64 = b"base64"
_BASE64_LINE = 57
"""Octets of which a line of 76 characters is made."""

Codings = Mapping[int, bytes]
"""By number of the part: the transfer encoding that it gets."""


def seven_bit(message: bytes) -> bytes:
    """Of at most `SIZE_LIMIT` octets. Raises `Unencodable`."""
    survey = Survey()
    survey.feed(message)
    rewriter = Rewriter(survey.finish())
    return rewriter.feed(message) + rewriter.finish()


class Survey:
    """The first time. `feed` and `finish` raise `Unencodable`."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._codings: dict[int, bytes] = {}
        self._leaf: Head | None = None
        self._number = self._length = self._high = 0

    def feed(self, chunk: bytes) -> None:
        self._note(self._parts.feed(chunk))

    def finish(self) -> Codings:
        self._note(self._parts.finish())
        self._end_leaf()
        return self._codings

    def _note(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.kind is Kind.LEAF:
                self._length += len(piece.octets)
                if not piece.octets.isascii():
                    self._high += len(piece.octets.translate(None, _ASCII))
                continue
            self._end_leaf()
            if piece.kind is Kind.HEAD:
                self._leaf, self._number = piece.head, self._parts.number
            elif not piece.octets.isascii():
                raise Unencodable("text outside the parts of a multipart message")

    def _end_leaf(self) -> None:
        if self._leaf is not None and self._high:
            if self._parts.sealed:
                raise Unencodable("8-bit text that is signed or encrypted")
            self._codings[self._number] = _coding(self._leaf, self._length, self._high)
        self._leaf, self._length, self._high = None, 0, 0


def _coding(head: Head, length: int, high: int) -> bytes:
    """The one that can be read, where most of it is ASCII text."""
    if head.encoding in CODED:
        raise Unencodable("a part that has an encoding already")
    if head.content_type.startswith("message/"):
        raise Unencodable(f"a part of type {head.content_type}")
    is_text = head.content_type.partition("/")[0] in ("", "text")
    return _QUOTED_PRINTABLE if is_text and 6 * high < length else _BASE64


class Rewriter:
    """The second time: what is to be written. What `Survey` has let pass raises nothing."""

    def __init__(self, codings: Codings) -> None:
        self._parts = Parts()
        self._codings = codings
        self._base64: _Base64 | None = None
        self._unsent = 2
        """Octets of the line end before the first line."""

    def feed(self, chunk: bytes) -> bytes:
        return self._sent(list(map(self._rewritten, self._parts.feed(chunk))))

    def finish(self) -> bytes:
        return self._sent([*map(self._rewritten, self._parts.finish()), self._end_leaf()])

    def _sent(self, pieces: list[bytes]) -> bytes:
        octets = b"".join(pieces)
        unsent, self._unsent = self._unsent, max(self._unsent - len(octets), 0)
        return octets[unsent:]

    def _rewritten(self, piece: Piece) -> bytes:
        coding = self._codings.get(self._parts.number)
        if piece.kind is not Kind.LEAF:
            before = self._end_leaf()
            return before + (self._head(piece.head, coding) if piece.head is not None else piece.octets)
        if coding is None:
            return piece.octets
        if coding == _QUOTED_PRINTABLE:
            return _quoted_printable(piece.octets)
        self._base64 = self._base64 or _Base64()
        return self._base64.feed(piece.octets)

    def _end_leaf(self) -> bytes:
        coder, self._base64 = self._base64, None
        return coder.finish() if coder is not None else b""

    def _head(self, head: Head, coding: bytes | None) -> bytes:
        if self._parts.sealed:
            return head.octets
        octets = head.relabelled(coding) if coding else head.seven_bit()
        if self._parts.number == 1 and not head.has_version:
            octets += b"\r\nMIME-Version: 1.0"
        if coding and not head.content_type:
            octets += b"\r\nContent-Type: text/plain; charset=unknown-8bit"  # RFC 1428
        return octets


def _quoted_printable(octets: bytes) -> bytes:
    """Of lines, each with the CRLF before it. One more tells the coder that the last of them has ended; no line that is
    made here looks like a boundary."""
    return b2a_qp(octets + b"\r\n")[:-2].replace(b"=\r\n-", b"=\r\n=2D=\r\n")


class _Base64:
    """Of one leaf, from the empty line on."""

    def __init__(self) -> None:
        self._empty_line = b""
        self._rest = b""

    def feed(self, octets: bytes) -> bytes:
        before = b""
        if len(self._empty_line) < 4:
            missing = 4 - len(self._empty_line)
            before, octets = octets[:missing], octets[missing:]
            self._empty_line += before
        self._rest += octets
        whole = len(self._rest) - len(self._rest) % _BASE64_LINE
        lines, self._rest = self._rest[:whole], self._rest[whole:]
        return before + _encoded(lines)

    def finish(self) -> bytes:
        return _encoded(self._rest)


def _encoded(octets: bytes) -> bytes:
    return encodebytes(octets).replace(b"\n", b"\r\n")
