"""A message with 8-bit parts as a 7-bit one, as a gateway makes it (RFC 6152 section 3).

Rules: only leaves that hold 8-bit octets are encoded, and labels of 8 bits taken away; all else keeps its octets. What is
not plainly built is not guessed at. Work is bounded, whoever wrote the message: it is gone through once, by searches, with
few steps for each line that begins as boundaries do; none of it is recursive, and no parser sees more than one field.
RFC 2045 sections 5, 6.1 and 6.4; RFC 2046 sections 5.1 and 5.2.1; RFC 1428.
"""

import re
from base64 import encodebytes
from binascii import b2a_qp
from dataclasses import dataclass
from email.message import Message

SIZE_LIMIT = 512 * 1024
"""Octets of a message that is encoded: tens of milliseconds of work at the worst."""
DEPTH_LIMIT = 20
"""Multiparts and messages, one in the other."""
PART_LIMIT = 250
"""With the message itself, and those that hold others. Both are far more than programs write."""

_PARAMETER_LIMIT = 20
"""Semicolons of a Content-Type: the library's work grows with their square."""
_ASCII = bytes(range(128))
_FIELD = re.compile(
    rb"\r\n(content-type|content-transfer-encoding)[ \t]*:([^\r\n]*(?:\r\n[ \t][^\r\n]*)*)", re.IGNORECASE
)
_ENCODING_FIELD = re.compile(rb"\r\ncontent-transfer-encoding[ \t]*:[^\r\n]*(?:\r\n[ \t][^\r\n]*)*", re.IGNORECASE)
_VERSION_FIELD = re.compile(rb"\r\nmime-version[ \t]*:", re.IGNORECASE)
_DASHES = re.compile(rb"\r\n--([^\r\n]*)")
_MESSAGES = frozenset({"message/rfc822", "message/global"})
_CODED = frozenset({"base64", "quoted-printable", "x-uuencode", "uuencode", "uue", "x-uue"})


class Unencodable(ValueError):
    """The message can't be made 7-bit."""


def seven_bit(message: bytes) -> bytes:
    """Of at most `SIZE_LIMIT` octets. Raises `Unencodable`. What is 8-bit outside the leaves, as between parts, stays so:
    the caller looks."""
    return _Walk(message).encoded()


@dataclass(frozen=True, slots=True)
class _Head:
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
        return self.content_type in _MESSAGES and self.encoding not in _CODED

    def seven_bit(self) -> bytes:
        """For what holds no 8-bit octets, or none any more."""
        return self.relabelled(b"7bit") if self.encoding in ("8bit", "binary") else self.octets

    def relabelled(self, encoding: bytes) -> bytes:
        return _ENCODING_FIELD.sub(b"", self.octets) + b"\r\nContent-Transfer-Encoding: " + encoding


def _read(octets: bytes, default_type: str) -> _Head:
    if not octets.isascii():
        raise Unencodable("an 8-bit header section")
    values: dict[bytes, str] = {}
    for match in _FIELD.finditer(octets):
        if match[1].lower() in values:
            raise Unencodable("a part that says twice what it is")
        values[match[1].lower()] = match[2].decode("ascii").strip()
    text = values.get(b"content-type", "")
    content_type = text.partition(";")[0].strip().lower() or default_type
    boundary = _boundary(text) if content_type.startswith("multipart/") else b""
    return _Head(octets, content_type, boundary, values.get(b"content-transfer-encoding", "").lower())


def _boundary(content_type: str) -> bytes:
    if content_type.count(";") > _PARAMETER_LIMIT:
        raise Unencodable("more parameters")
    fields = Message()
    fields["Content-Type"] = content_type
    try:
        boundary = fields.get_param("boundary")
    except ValueError as error:  # a number of RFC 2231 that the library takes for no number
        raise Unencodable("parameters") from error
    if not isinstance(boundary, str) or not boundary.strip():  # no charset of RFC 2231 is decoded: that may take long
        raise Unencodable("no boundary")
    return boundary.rstrip().encode("ascii")


class _Walk:
    """Through a message from part to part. Positions are those of the CRLF before what they are of."""

    def __init__(self, message: bytes) -> None:
        self._octets = b"\r\n" + message
        self._length = len(self._octets)
        self._out: list[bytes] = []
        self._open: list[_Head] = []
        self._parts = 0
        self._delimiters: dict[bytes, tuple[int, bool]] = {}
        """What stands behind the dashes: how deep it is, and whether it closes."""

    def encoded(self) -> bytes:
        at = 0
        while at < self._length:
            at = self._part(at)
        return b"".join(self._out).removeprefix(b"\r\n")

    def _part(self, at: int) -> int:
        """Writes the part at `at`, of a message no more than its header section; gives where the next one is."""
        self._parts += 1
        if self._parts > PART_LIMIT:
            raise Unencodable("more parts")
        end = self._head_end(at)
        head = _read(self._octets[at:end], self._default_type())
        if head.is_message and self._octets.startswith(b"\r\n\r\n", end):
            self._enter(head)
            self._out.append(b"\r\n")
            return end + 2
        if head.is_multipart:
            self._enter(head)
        found = self._delimiter(end)
        body = self._octets[end : found.start() if found else None]
        self._out += [body] if head.is_multipart else self._leaf(head, body)
        return self._behind(found)

    def _head_end(self, at: int) -> int:
        """Where the empty line is, or a delimiter before it, or the end."""
        end = self._octets.find(b"\r\n\r\n", at)
        end = end if end >= 0 else self._length
        found = self._delimiter(at, end)
        return found.start() if found else end

    def _default_type(self) -> str:
        in_digest = bool(self._open) and self._open[-1].content_type == "multipart/digest"
        return "message/rfc822" if in_digest else ""

    def _versioned(self, head: bytes) -> bytes:
        is_first_use = self._parts == 1 and not _VERSION_FIELD.search(head)
        return head + b"\r\nMIME-Version: 1.0" if is_first_use else head

    # ------------------------------------------------ what holds others
    def _enter(self, head: _Head) -> None:
        if len(self._open) == DEPTH_LIMIT or head.encoding in _CODED:
            raise Unencodable(head.content_type)
        self._out.append(self._versioned(head.seven_bit()))
        self._open.append(head)
        self._note_delimiters()

    def _note_delimiters(self) -> None:
        self._delimiters = {}
        for depth, head in enumerate(self._open):
            if head.is_multipart:
                self._delimiters |= {head.boundary: (depth, False), head.boundary + b"--": (depth, True)}

    def _delimiter(self, at: int, before: int | None = None) -> re.Match[bytes] | None:
        matches = _DASHES.finditer(self._octets, at, self._length if before is None else before)
        return next((it for it in matches if it[1].rstrip(b" \t") in self._delimiters), None)

    def _behind(self, found: re.Match[bytes] | None) -> int:
        """Writes this delimiter, and what belongs to no part if it closes; gives where the next part is."""
        while found:
            depth, closes = self._delimiters[found[1].rstrip(b" \t")]
            del self._open[depth if closes else depth + 1 :]
            self._note_delimiters()
            self._out.append(found[0])
            at = found.end()
            if not closes:
                return at
            found = self._delimiter(at)
            self._out.append(self._octets[at : found.start() if found else None])
        return self._length

    # ------------------------------------------------ leaves
    def _leaf(self, head: _Head, body: bytes) -> list[bytes]:
        """`body` begins with the empty line."""
        if body.isascii():
            return [self._versioned(head.seven_bit()), body]
        if head.encoding in _CODED or head.content_type.startswith("message/"):
            raise Unencodable(head.content_type)
        octets = body.removeprefix(b"\r\n")  # with the other, which tells `b2a_qp` what line ends are
        is_text = head.content_type.partition("/")[0] in ("", "text")
        readable = is_text and 6 * len(octets.translate(None, _ASCII)) < len(octets)
        written = self._versioned(head.relabelled(b"quoted-printable" if readable else b"base64"))
        if not head.content_type:
            written += b"\r\nContent-Type: text/plain; charset=unknown-8bit"  # RFC 1428
        return [written, b"\r\n", b2a_qp(octets) if readable else _base64(octets)]


def _base64(body: bytes) -> bytes:
    return b"\r\n" + encodebytes(body.removeprefix(b"\r\n")).replace(b"\n", b"\r\n")
