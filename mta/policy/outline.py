"""The outline of a MIME message as it goes by: header sections, bodies of parts, and what stands between them.

Rules: memory is bounded by a header section and a line; what is not plainly built is not guessed at but refused, and so is
what a signature covers. RFC 2045 sections 5 and 6; RFC 2046 sections 5.1 and 5.2.1; RFC 1847 section 2.1; RFC 6376
section 3.5.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from enum import Enum, auto

from mta.policy import header
from mta.policy.header import HeaderError, Section

LINE_LIMIT = 998
"""Octets of a text line without its CRLF (RFC 5322 section 2.1.1)."""

PART_LIMIT = 1000
"""Parts of a message, and what they are nested in: far more than any program writes, and bounded work."""

DEPTH_LIMIT = 20
"""Multiparts inside each other."""

TYPE_LIMIT = 4096
"""Octets of a field that says what a part is: the library takes time that grows with their square."""

_SEALED = frozenset({"multipart/signed", "multipart/encrypted", "multipart/digest"})
_SIGNATURES = frozenset({"dkim-signature", "arc-message-signature"})
_PLAIN = frozenset({"7bit", "8bit", "binary"})


class Unencodable(ValueError):
    """The message can't be encoded anew; the text says why, for the sender."""


class Kind(Enum):
    HEAD = auto()
    BODY = auto()
    FRAME = auto()
    """What is between parts: boundaries, preamble, epilogue."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A line, or some of one: octets without a line end. Of HEAD, a whole header section, read as `section`."""

    kind: Kind
    octets: bytes
    is_first: bool = True
    is_last: bool = True
    section: Section | None = None

    @property
    def is_long(self) -> bool:
        return len(self.octets) > LINE_LIMIT or not (self.is_first and self.is_last)


class Outline:
    """`part` is the number of the part whose body goes by, from 1 on; `obstacle` says why it can't be encoded, "" if it
    can. `utf8`: header sections may be UTF-8 (RFC 6532 section 3)."""

    def __init__(self, *, utf8: bool = False) -> None:
        self.part = self._sections = 0
        self._utf8 = utf8
        self.obstacle = ""
        self._kind = Kind.HEAD
        self._head = bytearray()
        self._boundaries: list[bytes] = []
        self._ends: dict[bytes, tuple[int, Kind]] = {}
        self._rest = b""
        self._begins = True

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """What `chunk` (with CRLF line ends) adds. Raises `Unencodable`."""
        *lines, self._rest = (self._rest + chunk).split(b"\r\n")
        for line in lines:
            yield from self._line(line)
            self._begins = True
        if len(self._rest) > LINE_LIMIT + 1:
            if self._kind is Kind.HEAD:
                raise Unencodable("a header field")
            end = len(self._rest) - self._rest.endswith(b"\r")
            yield Piece(self._kind, self._rest[:end], self._begins, is_last=False)
            self._begins, self._rest = False, self._rest[end:]

    def finish(self) -> Iterator[Piece]:
        """What is known only at the end: a header section without a body."""
        if self._kind is Kind.HEAD and self._head:
            yield self._head_piece()

    def _line(self, line: bytes) -> Iterator[Piece]:
        if self._kind is Kind.HEAD:
            yield from self._head_line(line)
        elif self._begins and line.startswith(b"--") and self._passes_boundary(line):
            yield Piece(Kind.FRAME, line)
        else:
            yield Piece(self._kind, line, self._begins)

    @property
    def in_body(self) -> bool:
        return self._kind is Kind.BODY

    # ------------------------------------------------ header sections
    def _head_line(self, line: bytes) -> Iterator[Piece]:
        if len(line) > LINE_LIMIT or len(self._head) > header.LIMIT:
            raise Unencodable("a header field")
        if line:
            self._head += line + b"\r\n"
            return
        yield self._head_piece()
        yield Piece(Kind.FRAME, b"")

    def _head_piece(self) -> Piece:
        head = bytes(self._head)
        self._head.clear()
        try:
            section = header.read_section(head, complete=True, utf8=self._utf8)
        except HeaderError as error:
            raise Unencodable(f"a part whose header section is refused ({error})") from error
        if section.length != len(head):
            raise Unencodable("a message whose header section does not end in an empty line")
        self._enter(section)
        return Piece(Kind.HEAD, head, section=section)

    def _enter(self, section: Section) -> None:
        """The body behind a header section begins."""
        self._sections += 1
        if self._sections > PART_LIMIT:
            raise Unencodable(f"a message of more than {PART_LIMIT} parts")
        if any(field.name in _SIGNATURES for field in section.fields):
            raise Unencodable("a message that is signed")
        fields = _mime_fields(section)
        kind = fields.get_content_type()
        if kind in _SEALED:
            raise Unencodable(f"a message of type {kind}")
        if fields.get_content_maintype() == "multipart":
            self._open(fields.get_boundary() or "")
            return
        self._kind, self.part = Kind.BODY, self.part + 1
        encoding = str(fields.get("Content-Transfer-Encoding", "7bit")).strip().lower()
        self.obstacle = "" if encoding in _PLAIN else "a part that has an encoding already"
        if fields.get_content_maintype() == "message":
            self.obstacle = "an attached message"

    # ------------------------------------------------ boundaries
    def _open(self, boundary: str) -> None:
        if not boundary or not boundary.isascii():
            raise Unencodable("a multipart message without a boundary")
        if len(self._boundaries) == DEPTH_LIMIT:
            raise Unencodable(f"a message of more than {DEPTH_LIMIT} multiparts inside each other")
        self._kind = Kind.FRAME
        self._nest([*self._boundaries, b"--" + boundary.rstrip(" \t").encode("ascii")])

    def _nest(self, boundaries: list[bytes]) -> None:
        """These count from now on, the innermost last. A line that is known may stand anywhere, and often: `_ends` says how
        many of them are left behind it, and what begins."""
        self._boundaries = boundaries
        self._ends = {}
        for depth, boundary in enumerate(boundaries):  # of equal ones the innermost counts
            self._ends[boundary] = depth + 1, Kind.HEAD
            self._ends[boundary + b"--"] = depth, Kind.FRAME

    def _passes_boundary(self, line: bytes) -> bool:
        """Whether `line` ends what goes by; then what follows has begun."""
        end = self._ends.get(line.rstrip(b" \t"))
        if end is None:
            return False
        left, self._kind = end
        if left < len(self._boundaries):
            self._nest(self._boundaries[:left])
        return True


def _mime_fields(section: Section) -> Message:
    """Those that say what a body is; the library's parser would stop at a field that we take and it does not."""
    fields = [field for field in section.fields if field.name in ("content-type", "content-transfer-encoding")]
    if len({field.name for field in fields}) < len(fields):
        raise Unencodable("a part that says twice what it is")
    if any(len(field.body) > TYPE_LIMIT for field in fields):
        raise Unencodable("a part that says at great length what it is")
    message = Message()
    for field in fields:
        message[field.name] = field.body.decode("ascii", "surrogateescape").strip(" \t\r\n")
    return message
