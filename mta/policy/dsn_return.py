"""What of a message goes back with a DSN about it (RFC 3461 sections 4.3 and 6.2, RFC 6522 section 3).

Rules: the whole message only with a failure, where RET=FULL asks for it, and up to `WHOLE_LIMIT`; else its header section.
A DSN stays 7-bit, so that every server takes it: 8-bit parts are encoded anew, as a gateway does it (RFC 6152 section 3).
What can't be made legal in this way is not returned whole, and the sender is told why.
"""

from base64 import encodebytes
from binascii import b2a_qp
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import MessageError
from email.generator import BytesGenerator
from email.message import Message
from email.policy import compat32
from io import BytesIO

from mta.policy.dsn import HEADER_LIMIT, header_section

WHOLE_LIMIT = 1024 * 1024
"""Octets of a message that is returned whole."""
TOO_LARGE = "it is larger than 1 MiB"
NOT_LEGAL = "it has 8-bit text or lines that this report can't carry"

_LINE_LIMIT = 998
_ASCII = bytes(range(128))
_UNFOLDED = compat32.clone(linesep="\r\n", max_line_length=None)


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
    lines = _lines(start) or _lines(_seven_bit(start))
    return Returned(lines, whole=True) if lines else Returned(header, withheld=NOT_LEGAL)


def _lines(message: bytes) -> tuple[str, ...]:
    """() where they can't stand in a 7-bit report as they are (RFC 2045 section 2.7)."""
    if not message or not message.isascii() or b"\0" in message:
        return ()
    lines = message.decode("ascii").removesuffix("\r\n").split("\r\n")
    legal = all(len(line) <= _LINE_LIMIT and "\r" not in line and "\n" not in line for line in lines)
    return tuple(lines) if legal else ()


def _seven_bit(message: bytes) -> bytes:
    """The same message with its 8-bit parts encoded; b"" where that can't be done, or not all of it is done."""
    if not message.partition(b"\r\n\r\n")[0].isascii():
        return b""
    encoded = BytesIO()
    try:
        parsed = message_from_bytes(message)
        for part in parsed.walk():
            _encode(part)
        if "MIME-Version" not in parsed:
            parsed["MIME-Version"] = "1.0"
        BytesGenerator(encoded, mangle_from_=False, policy=_UNFOLDED).flatten(parsed)
    except (MessageError, LookupError, ValueError, TypeError, AttributeError):  # what the library makes of broken MIME
        return b""
    return encoded.getvalue()


def _encode(part: Message) -> None:
    """Gives a part that holds 8-bit octets itself a 7-bit encoding (RFC 2045 section 6.4: no composite one may have any
    other), and takes the label 8bit from what holds others."""
    octets = b"" if part.is_multipart() else part.get_payload(decode=True)
    if isinstance(octets, bytes) and not octets.isascii() and part.get_content_maintype() not in ("multipart", "message"):
        readable = part.get_content_maintype() == "text" and 6 * len(octets.translate(None, _ASCII)) < len(octets)
        part.set_payload((b2a_qp(octets) if readable else encodebytes(octets)).decode("ascii"))
        _relabel(part, "quoted-printable" if readable else "base64")
        if "Content-Type" not in part:
            part["Content-Type"] = "text/plain; charset=unknown-8bit"  # RFC 1428
    elif str(part.get("Content-Transfer-Encoding", "")).strip().lower() in ("8bit", "binary"):
        _relabel(part, "7bit")


def _relabel(part: Message, encoding: str) -> None:
    del part["Content-Transfer-Encoding"]
    part["Content-Transfer-Encoding"] = encoding
