"""Names as they are asked for: U-labels become A-labels, and what cannot be asked for is found before anything is sent.

Rules: IDNA2008 (RFC 5890, 5891) with the case and width mapping of RFC 5895, so `ß` stays itself; no search list, every
name is absolute; underscores pass, since hosts with one exist (RFC 2181 section 11).
"""

import re

import dns.name
import idna

_LIMIT = 253
"""Characters of a name without its final dot, RFC 1035 section 2.3.4 (255 octets on the wire)."""
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")


class BadName(ValueError):
    """Text that no question can be asked for; the text says why."""


def absolute_name(text: str) -> dns.name.Name:
    """`text` in lower case as an absolute name. Raises `BadName`."""
    ascii_text = text.lower() if text.isascii() else _a_labels(text)
    if len(ascii_text) > _LIMIT:
        raise BadName(f"longer than {_LIMIT} characters")
    if not _NAME.match(ascii_text):
        raise BadName("it has an empty, over-long or malformed label")
    return dns.name.from_text(ascii_text)


def _a_labels(text: str) -> str:
    if len(text) > _LIMIT:  # the A-label form is longer still
        raise BadName(f"longer than {_LIMIT} characters")
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise BadName(f"no internationalized domain name ({error})") from None
