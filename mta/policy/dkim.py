"""DKIM signatures (RFC 6376, RFC 8301, RFC 8463): what of a message is signed, in its canonical form, and the field that
says so.

Rules: relaxed/relaxed, the whole body (no `l=`); each of `SIGNED` is listed once more than it is there, so that none can be
added later; Received and Return-Path never. The octets of a signature depend on the message, the key and the instant given
alone. Content comes in chunks, with CRLF line ends; what is kept of it is its header section. RFC 6376 sections 3.4.2,
3.4.4, 3.5, 3.7, 5.4 and 8.15; RFC 8058 section 4.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

from mta.policy import header
from mta.policy.author import author_domain
from mta.policy.header import Field, Section

SIGNED = (
    *("from", "reply-to", "subject", "date", "to", "cc", "message-id", "in-reply-to", "references"),
    *("mime-version", "content-type", "content-transfer-encoding"),
    *("list-id", "list-help", "list-unsubscribe", "list-unsubscribe-post", "list-subscribe", "list-post"),
    *("list-owner", "list-archive"),
)
HEAD_LIMIT, FIELD_LIMIT = header.LIMIT + 2**16, header.FIELD_LIMIT + 10
"""Octets within which the header section must end, and its fields: with what submission has added to it."""
WIDTH = 76
"""Characters of a line of the field (RFC 5322 section 2.1.1)."""

_WHITE_SPACE = re.compile(rb" [ \t]+|\t[ \t]*")
_LINE_ENDS = b"\r\n" * 2**15
_PIECE = re.compile(rf".{{1,{WIDTH - 8}}}")


def _reduced(text: bytes) -> bytes:
    """Each run of white space a blank."""
    return _WHITE_SPACE.sub(b" ", text) if b"\t" in text or b"  " in text else text


class BodyHash:
    """Of a relaxed body (section 3.4.4), SHA-256."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._rest = b""
        self._line_ends = 0
        """Those that count only if more text comes."""
        self._is_empty = True

    def feed(self, chunk: bytes) -> None:
        chunk = self._rest + chunk
        end = len(chunk.rstrip(b" \t\r"))  # a line may end behind it
        rest, text = chunk[end:], chunk[:end]
        self._rest = b" " * bool(rest.strip(b"\r")) + b"\r" * rest.endswith(b"\r")
        text = _reduced(text).replace(b" \r\n", b"\r\n")
        inner = text.rstrip(b"\r\n")
        if inner:
            self._write_line_ends()
            self._hash.update(inner)
            self._is_empty = False
        self._line_ends += (len(text) - len(inner)) // 2

    def digest(self) -> bytes:
        """Of all that was fed. The last line ends, however the content does: so it is sent."""
        whole = self._hash.copy()
        if not self._is_empty:
            whole.update(b"\r\n")
        return whole.digest()

    def _write_line_ends(self) -> None:
        blocks, left = divmod(2 * self._line_ends, len(_LINE_ENDS))
        for _ in range(blocks):
            self._hash.update(_LINE_ENDS)
        self._hash.update(_LINE_ENDS[:left])
        self._line_ends = 0


@dataclass(frozen=True, slots=True)
class Digest:
    """What signatures of one message have in common: `names` is the list of header fields, as it stands in `h=`, `fields`
    are these in their canonical form, `body_hash` is in base64."""

    names: tuple[str, ...]
    fields: bytes
    body_hash: str


class Reading:
    """A message as it goes by. `author` is its domain (`author_domain`), None until the header section has gone by."""

    def __init__(self) -> None:
        self.author: str | None = None
        self._head = b""
        self._section: Section | None = None
        self._body = BodyHash()

    def feed(self, chunk: bytes) -> None:
        """Raises `HeaderError` for a header section without end."""
        if self._section is not None:
            self._body.feed(chunk)
            return
        self._head += chunk
        if b"\r\n\r\n" in self._head or self._head.startswith(b"\r\n") or len(self._head) > HEAD_LIMIT:
            self._split(complete=False)

    def finish(self) -> Digest:
        """After the last chunk. Raises `HeaderError`."""
        section = self._section or self._split(complete=True)
        names, fields = _covered(section)
        return Digest(names, fields, b64encode(self._body.digest()).decode("ascii"))

    def _split(self, *, complete: bool) -> Section:
        section = self._section = header.split_section(self._head, complete=complete, limit=FIELD_LIMIT)
        self.author = author_domain(section)
        self._body.feed(self._head[section.length :].removeprefix(b"\r\n"))
        self._head = b""
        return section


# ---------------------------------------------------------------- header fields
def _covered(section: Section) -> tuple[tuple[str, ...], bytes]:
    """Fields of a name are signed from the last to the first (section 5.4.2), then one that is not there."""
    found: dict[str, list[Field]] = {name: [] for name in SIGNED}
    for field in section.fields:
        if field.name in found:
            found[field.name].append(field)
    names = tuple(name for name, fields in found.items() for _ in range(len(fields) + 1))
    return names, b"".join(
        _relaxed(name.encode("ascii"), field.body) + b"\r\n" for name, fields in found.items() for field in reversed(fields)
    )


def _relaxed(name: bytes, body: bytes) -> bytes:
    """A field (section 3.4.2) without its line end."""
    return name + b":" + _reduced(body.replace(b"\r\n", b"")).strip(b" ")


# ---------------------------------------------------------------- the signature's field
def unsigned_field(digest: Digest, key: str, algorithm: str, at: float) -> bytes:
    """The field as it is signed, up to its `b=`. `key` is "domain/selector", `at` seconds since the epoch."""
    domain, _, selector = key.partition("/")
    tags = ("v=1;", f" a={algorithm};", " c=relaxed/relaxed;", f" d={domain};", f" s={selector};", f" t={int(at)};")
    names = (f"{name}:" for name in digest.names[:-1])
    words = (*tags, " h=", *names, f"{digest.names[-1]};", f" bh={digest.body_hash};")
    return ("\r\n\t".join(_lines("DKIM-Signature: ", words)) + "\r\n\tb=").encode("ascii")


def _lines(line: str, words: tuple[str, ...]) -> Iterator[str]:
    for word in words:
        if len(line) + len(word) >= WIDTH:
            yield line
            line = ""
        line += word if line.strip() else word.lstrip()
    yield line


def signed_octets(digest: Digest, field: bytes) -> bytes:
    """What the key signs for a field that `unsigned_field` has made (section 3.7)."""
    name, _, body = field.partition(b":")
    return digest.fields + _relaxed(name.lower(), body)


def signed_field(field: bytes, signature: bytes) -> bytes:
    """The whole field, with its line end."""
    pieces = _PIECE.findall(b64encode(signature).decode("ascii"))
    return field + "\r\n\t".join(pieces).encode("ascii") + b"\r\n"
