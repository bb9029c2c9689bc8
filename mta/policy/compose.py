"""Mail that the daemon writes itself: header fields, folding, dates, text bodies.

Rules: CRLF line ends, and ASCII, so that any server takes it - unless the address that it goes to is more, which SMTPUTF8
alone can reach (RFC 6532); no line is longer than 998 octets, fields and prose are folded at 78 where they can be (RFC 5322
sections 2.1.1, 2.2.3); text from outside ends neither a field nor a line. Nothing is chosen here: identifiers, boundary and
instant come with the `Stamp`, and equal input gives equal octets.
RFC 5322 sections 3.3 and 3.6, RFC 2045 sections 2.7 and 6.7, RFC 3834 section 5.
"""

import quopri
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.header import Header
from functools import lru_cache

from mta.model.text import ascii_text, safe_text

WIDTH = 76
"""Columns of prose and of folded fields."""
_LONGEST_WORD = 900
"""Octets of a word that may stand on a line of its own and leave room below 998 for what precedes it."""
_OVERLONG = re.compile(rf"(\S{{{_LONGEST_WORD}}})(?=\S)")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LAST_SECOND = 253402300799
"""Of the year 9999."""
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,248}>\Z")


@dataclass(frozen=True, slots=True)
class Stamp:
    """What makes one mail of ours different from every other: the name it is written under, when (seconds since the
    epoch), its Message-ID with angle brackets, and a MIME boundary that occurs in nothing from outside (made of
    randomness)."""

    hostname: str
    at: float
    message_id: str
    boundary: str


def date_time(at: float) -> str:
    """RFC 5322 section 3.3, in UTC; an instant outside the calendar is its nearest end."""
    return _of_second(min(max(int(at), 0), _LAST_SECOND))


@lru_cache(maxsize=4)
def _of_second(second: int) -> str:
    """What comes in a second has the same."""
    it = datetime.fromtimestamp(second, UTC)
    day = f"{_DAYS[it.weekday()]}, {it.day:02} {_MONTHS[it.month - 1]} {it.year:04}"
    return f"{day} {it.hour:02}:{it.minute:02}:{it.second:02} +0000"


def field(name: str, value: str) -> str:
    """A field on one line: for addresses and tokens, whose blanks mean something; cut where none of them reaches."""
    return f"{name}: {ascii_text(value, _LONGEST_WORD)}"


def folded(start: str, text: str) -> list[str]:
    """The lines of a field that begins with `start` ("Subject:", "Diagnostic-Code: smtp;") and goes on with text from
    outside; each line but the first begins with white space."""
    return wrapped(ascii_text(text), f"{start} ", " ") or [start]


def wrapped(text: str, first: str = "", following: str | None = None) -> list[str]:
    """`text` as lines of at most `WIDTH` columns, unless a word is longer: addresses and links stay whole up to 900
    octets. `first` and `following` (default: the same) precede the lines."""
    return textwrap.wrap(
        _OVERLONG.sub(r"\1 ", text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if following is None else following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def head(stamp: Stamp, to: str, subject: str, auto_submitted: str, about: str = "") -> list[str]:
    """The fields that every mail of ours has. `about` is the Message-ID that it is an answer to; one that is no
    msg-id is left out."""
    answered = [f"In-Reply-To: {about}", f"References: {about}"] if _MESSAGE_ID.match(about) else []
    return [
        field("From", f"Mail Delivery System <MAILER-DAEMON@{stamp.hostname}>"),
        field("To", to) if to.isascii() else f"To: {safe_text(to)}",
        *_subject(subject),
        field("Date", date_time(stamp.at)),
        field("Message-ID", stamp.message_id),
        *answered,
        field("Auto-Submitted", auto_submitted),
        "MIME-Version: 1.0",
    ]


def _subject(text: str) -> list[str]:
    """In encoded words (RFC 2047) where it is not ASCII."""
    if text.isascii():
        return folded("Subject:", text)
    return f"Subject: {Header(safe_text(text), 'utf-8', header_name='Subject').encode()}".split("\n")


def quoted_printable(lines: Sequence[str]) -> list[str]:
    """Lines of UTF-8 in the encoding of RFC 2045 section 6.7."""
    return quopri.encodestring("\n".join(lines).encode("utf-8", "backslashreplace")).decode("ascii").split("\n")


def text_entity(lines: list[str]) -> list[str]:
    """Lines as a MIME entity of type text/plain: as they are if they are ASCII, else UTF-8 in quoted-printable."""
    if all(line.isascii() for line in lines):
        return ["Content-Type: text/plain; charset=us-ascii", "Content-Transfer-Encoding: 7bit", "", *lines]
    return [
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: quoted-printable",
        "",
        *quoted_printable(lines),
    ]


def octets(lines: list[str]) -> bytes:
    return "\r\n".join([*lines, ""]).encode("utf-8")
