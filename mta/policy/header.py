"""The header section of a message, as bytes: its fields, what they say, and the changes made at submission.

Rules: the section ends at the first empty line, or before the first line that is no field - nothing is ever taken out
with it; fields that are kept keep their octets. RFC 5322 sections 2.1, 2.2, 3.6; RFC 2047; RFC 6532 section 3.
"""

import re
from collections.abc import Mapping, Sequence
from email.errors import HeaderParseError
from email.header import decode_header

from msgspec import Struct

from mta.model.reply import Reply
from mta.model.text import ascii_text, safe_text

LIMIT = 2**20
"""Octets within which the header section must end."""
FIELD_LIMIT = 10_000
"""Fields that it may have: far more than any program writes, and bounded work."""
SUBJECT_LIMIT = 200
"""Characters of a subject that are kept for display."""

_FIELD = re.compile(rb"(([!-9;-~]++)[ \t]*+:([^\r\n]*+\r\n(?:[ \t][^\r\n]*+\r\n)*+))")
_COMMENT = r"(?:\s++|\([^()]*+\))*+"
_MESSAGE_ID = re.compile(rf'{_COMMENT}(<(?:[^<>\s@"]++|"[^<>"]*+")@[^<>\s@]++>){_COMMENT}\Z')
"""Possessive: there is nothing to gain by going back, and a long field has many places to go back to."""


class HeaderError(ValueError):
    """The header section is refused; `reply` says why."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.reply = Reply(554, "5.6.0", text)


class Field(Struct, frozen=True, gc=False):
    """`name` in lower case; `raw` is the whole field with its line ends, `body` what stands behind the colon."""

    name: str
    raw: bytes
    body: bytes

    @property
    def text(self) -> str:
        """The body on one line."""
        return self.body.replace(b"\r\n", b"").decode("utf-8", "backslashreplace").strip(" \t")


class Section(Struct, frozen=True):
    """`length` is how many octets the fields take; `closed` says whether an empty line follows, or the content's end.
    `by_name` has the same fields, in the same order."""

    fields: tuple[Field, ...]
    by_name: Mapping[str, Sequence[Field]]
    length: int
    closed: bool

    def named(self, name: str) -> Sequence[Field]:
        return self.by_name.get(name, ())

    def first(self, name: str) -> Field | None:
        found = self.by_name.get(name)
        return found[0] if found else None


def read_section(start: bytes, *, complete: bool, utf8: bool = False) -> Section:
    """As `split_section`; raises `HeaderError` also where a field is not ASCII, or with `utf8`, where it is not UTF-8."""
    section = split_section(start, complete=complete)
    if not start[: section.length].isascii():
        for field in (it for it in section.fields if not it.raw.isascii()):
            _check_encoding(field, utf8=utf8)
    return section


def split_section(start: bytes, *, complete: bool, limit: int = FIELD_LIMIT) -> Section:
    """The fields at the beginning of `start`, which is the content (`complete`) or its first `LIMIT` octets; the lines end
    with CRLF. Raises `HeaderError` where the section doesn't end there, or has more than `limit` fields."""
    fields: list[Field] = []
    by_name: dict[str, list[Field]] = {}
    length = 0
    while match := _FIELD.match(start, length):
        if len(fields) == limit:
            raise HeaderError(f"The header section has more than {limit} fields")
        raw, name, body = match.groups()
        field = Field(name.decode("ascii").lower(), raw, body)
        fields.append(field)
        by_name.setdefault(field.name, []).append(field)
        length += len(raw)
    if not complete and start.find(b"\r\n", length) < 0:
        raise HeaderError(f"The header section is longer than {LIMIT} octets")
    return Section(tuple(fields), by_name, length, start.startswith(b"\r\n", length) or length == len(start))


def _check_encoding(field: Field, *, utf8: bool) -> None:
    name = ascii_text(field.name.title(), 80)
    if not utf8:
        raise HeaderError(f"Header field {name} has non-ASCII characters; encode them (RFC 2047), or use SMTPUTF8")
    try:
        field.raw.decode("utf-8")
    except UnicodeError:
        raise HeaderError(f"Header field {name} is not valid UTF-8") from None


def message_id(field: Field) -> str:
    """The identifier with its angle brackets, "" where the field is void or no msg-id."""
    match = _MESSAGE_ID.match(field.text)
    return match.group(1) if match else ""


def subject(section: Section) -> str:
    """As it was given, on one line."""
    field = section.first("subject")
    return field.text if field is not None else ""


def shown_subject(text: str) -> str:
    """For display: decoded, safe to print, at most `SUBJECT_LIMIT` characters."""
    text = text[: 8 * SUBJECT_LIMIT]
    return safe_text(_decoded(text) if "=?" in text and text.isascii() else text, SUBJECT_LIMIT)


def _decoded(text: str) -> str:
    """RFC 2047 encoded words made readable; what can't be decoded stays as it is."""
    try:
        return "".join(
            part if isinstance(part, str) else part.decode(charset or "ascii", "replace")
            for part, charset in decode_header(text)
        )
    except (HeaderParseError, LookupError, ValueError):
        return text
