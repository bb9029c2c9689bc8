"""The header section of a message that a program hands over: who it is for, and what it lacks.

Rules: what is there keeps its octets; only Resent-Bcc is taken out (Bcc is the daemon's to take out), and a From is added
where there is none or a void one. Message-ID and Date are the daemon's to add. The section ends at the first empty line,
or before the first line that is no field, as Postfix has it - unless recipients would stand behind that line: they would
be lost, or a Bcc shown to all. RFC 5322 sections 2.2, 3.6.2, 3.6.3 and 3.6.6; RFC 2047.
"""

import re
from collections.abc import Iterator
from email.header import Header
from email.utils import quote

from mta.policy import header
from mta.policy.header import Field, HeaderError, Section
from mta.sendmail.address_list import AddressListError, addresses
from mta.sendmail.errors import bad_data

_RECIPIENT_LINE = re.compile(rb"(?:^|[\r\n])((?:resent-)?(?:to|cc|bcc))[ \t]*:", re.IGNORECASE)
_RECIPIENTS = ("to", "cc", "bcc")
_RESENT = "resent-"
_WORDS = re.compile(r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~ ]*\Z")


def read_head(start: bytes, *, complete: bool) -> Section:
    """The fields at the beginning of `start`, which is the message (`complete`) or its first `header.LIMIT` octets; lines
    end with CRLF. Raises `NotTaken` (65)."""
    try:
        head = header.split_section(start, complete=complete)
    except HeaderError as error:
        raise bad_data(f"the message can't be taken: {error}") from None
    if head.fields and not head.closed:
        _check_break(start, head.length)
    return head


def is_ascii(head: Section) -> bool:
    return all(field.raw.isascii() for field in head.fields)


def has_author(head: Section) -> bool:
    return any(field.body.strip() for field in head.named("from"))


def _check_break(start: bytes, position: int) -> None:
    """Nothing that a program meant as header is to become body."""
    end = start.find(b"\r\n\r\n", position)
    paragraph = start[position : end if end >= 0 else len(start)]
    if match := _RECIPIENT_LINE.search(paragraph):
        name = match[1].decode("ascii")
        raise bad_data(f"a line that is no header field stands before {name}: the recipients there would be lost")


def recipients(head: Section) -> Iterator[str]:
    """Those of To, Cc and Bcc; of a message that was resent, only those of its Resent- fields. Raises `NotTaken` (65)."""
    prefix = _RESENT if any(field.name.startswith(_RESENT) for field in head.fields) else ""
    names = [prefix + name for name in _RECIPIENTS]
    given = [field for field in head.fields if field.name in names]
    if prefix and len({field.name for field in given}) < len(given):
        raise bad_data("the message was resent more than once: name its recipients as arguments, without -t")
    for field in given:
        try:
            yield from addresses(field.body.decode("utf-8", "surrogateescape"))
        except AddressListError as error:
            raise bad_data(f"{field.name.title()}: {error}") from None


def completed(head: Section, added: bytes) -> bytes:
    """The fields as they are sent: with `added` behind them, and ended before what is body."""
    kept = [field.raw for field in head.fields if not _is_dropped(field)]
    return b"".join([*kept, added, b"" if head.closed else b"\r\n"])


def _is_dropped(field: Field) -> bool:
    return field.name == "resent-bcc" or (field.name == "from" and not field.body.strip())


def author(full_name: str, address: str) -> bytes:
    """A From field."""
    if not full_name.strip():
        return f"From: {address}\r\n".encode()
    if _WORDS.match(full_name):
        return f"From: {full_name} <{address}>\r\n".encode()
    if full_name.isascii():
        return f'From: "{quote(full_name)}" <{address}>\r\n'.encode()
    encoded = Header(full_name, "utf-8", header_name="From").encode(linesep="\r\n")
    return f"From: {encoded}\r\n <{address}>\r\n".encode()
