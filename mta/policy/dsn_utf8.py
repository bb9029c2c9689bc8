"""What a DSN has of addresses and header sections beyond ASCII (RFC 6533 sections 3 and 4, RFC 6532 section 3).

Rules: whoever needs SMTPUTF8 to be reached gets them as they are (`native`), any other in 7-bit forms, so that the DSN goes
through every server that the sender's mail may go through: nothing is dropped. What is ASCII has the forms of RFC 3464.
"""

import re

from mta.model.text import safe_text
from mta.policy.compose import field, quoted_printable

_NO_QCHAR = re.compile(r"[^!-*,-<>-\[\]-~]")
_LINE_LIMIT = 998
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def recipient_field(name: str, address: str, *, native: bool) -> str:
    """`Final-Recipient` and its like: `rfc822; ann@example.org`, `utf-8; jörg@example.org` or, for 7 bits,
    `utf-8; j\\x{F6}rg@example.org`."""
    if address.isascii():
        return field(name, f"rfc822; {address}")
    return f"{name}: utf-8; {safe_text(address)}" if native else field(name, f"utf-8; {seven_bit(address)}")


def seven_bit(address: str) -> str:
    """The form utf-8-addr-xtext, also for ORCPT: ASCII without blanks, `+`, `=` and what the escapes are made with."""
    return _NO_QCHAR.sub(lambda match: f"\\x{{{ord(match[0]):02X}}}", address)


def header_line(line: bytes) -> str:
    """A line of a header section: what is no text (in UTF-8) becomes an escape, what is too long is cut."""
    text = _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", line.decode("utf-8", "backslashreplace"))
    return text if len(text) * 4 <= _LINE_LIMIT else text.encode()[:_LINE_LIMIT].decode("utf-8", "ignore")


def status_type(*, native: bool) -> list[str]:
    """The fields of the part for programs."""
    if not native:
        return ["Content-Type: message/delivery-status"]
    return ["Content-Type: message/global-delivery-status", "Content-Transfer-Encoding: 8bit"]


def header_entity(lines: tuple[str, ...], *, native: bool) -> list[str]:
    """The header section of the original as a MIME entity."""
    if native:
        return ["Content-Type: message/global-headers", "Content-Transfer-Encoding: 8bit", "", *lines]
    if all(line.isascii() for line in lines):
        return ["Content-Type: text/rfc822-headers", "", *lines]
    encoded = quoted_printable(lines)
    return ["Content-Type: message/global-headers", "Content-Transfer-Encoding: quoted-printable", "", *encoded]
