"""What of a message goes back with a DSN about it (RFC 3461 sections 4.3 and 6.2, RFC 6522 section 3).

Rules: the whole message only with a failure, where RET=FULL asks for it, and up to `WHOLE_LIMIT`; else its header section.
A DSN stays 7-bit, so that every server takes it: 8-bit parts are encoded anew (`seven_bit`), in messages up to its limit.
What can't be made legal in this way is not returned whole, and the sender is told why.
"""

from dataclasses import dataclass

from mta.policy.dsn import HEADER_LIMIT, header_section
from mta.policy.outline import Unencodable
from mta.policy.seven_bit import SIZE_LIMIT, seven_bit

WHOLE_LIMIT = 1024 * 1024
"""Octets of a message that is returned whole."""
TOO_LARGE = "it is larger than 1 MiB"
TOO_LARGE_8_BIT = "it has 8-bit text and is larger than 512 KiB"
NOT_LEGAL = "it has 8-bit text or lines that this report can't carry"

_LINE_LIMIT = 998


@dataclass(frozen=True, slots=True)
class Returned:
    """Lines without their ends: of the whole message, if `whole`, else of its header section, none if it is not stored any
    more. `withheld`: why it is not the whole message that was asked for, "" if none was, or it is."""

    lines: tuple[str, ...] = ()
    whole: bool = False
    withheld: str = ""


def octets_needed(whole: bool) -> int:
    """How many octets of a message, at most, `returned` looks at."""
    return WHOLE_LIMIT + 1 if whole else HEADER_LIMIT + 2


def returned(start: bytes, *, whole: bool) -> Returned:
    """`start` is the message, or its first `octets_needed` octets; b"" if it is not stored any more."""
    header = header_section(start)
    if not whole or not start:
        return Returned(header)
    if len(start) > WHOLE_LIMIT:
        return Returned(header, withheld=TOO_LARGE)
    if not start.isascii() and len(start) > SIZE_LIMIT:
        return Returned(header, withheld=TOO_LARGE_8_BIT)
    lines = _legal(start)
    return Returned(lines, whole=True) if lines else Returned(header, withheld=NOT_LEGAL)


def _legal(message: bytes) -> tuple[str, ...]:
    """() where it can't be made so."""
    try:
        return _lines(message if message.isascii() else seven_bit(message))
    except Unencodable:
        return ()


def _lines(message: bytes) -> tuple[str, ...]:
    """() where they can't stand in a 7-bit report as they are (RFC 2045 section 2.7)."""
    if not message.isascii() or b"\0" in message:
        return ()
    lines = message.decode("ascii").removesuffix("\r\n").split("\r\n")
    bare = message.replace(b"\r\n", b"")
    legal = b"\r" not in bare and b"\n" not in bare and len(max(lines, key=len)) <= _LINE_LIMIT
    return tuple(lines) if legal else ()
