"""Names as they are asked for: U-labels become A-labels, and what cannot be asked for is found before anything is sent.

Rules: the forms are `model.international`'s; no search list, every name is absolute; underscores pass, since hosts with one
exist (RFC 2181 section 11).
"""

import re

import dns.name

from mta.model.international import a_labels

_LIMIT = 253
"""Characters of a name without its final dot, RFC 1035 section 2.3.4 (255 octets on the wire)."""
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")


class BadName(ValueError):
    """Text that no question can be asked for; the text says why."""


def absolute_name(text: str) -> dns.name.Name:
    """`text` in lower case as an absolute name. Raises `BadName`."""
    try:
        name = a_labels(text)
    except ValueError as error:
        raise BadName(str(error)) from None
    if len(name) > _LIMIT:
        raise BadName(f"longer than {_LIMIT} characters")
    if not _NAME.match(name):
        raise BadName("it has an empty, over-long or malformed label")
    return dns.name.from_text(name)
