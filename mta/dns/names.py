"""Names as they are asked for: U-labels become A-labels, and what cannot be asked for is found before anything is sent.

Rules: the forms are `model.international`'s; no search list, every name is absolute; underscores pass, since hosts with one
exist (RFC 2181 section 11). A name is kept as it is on the wire, in lower case and without pointers (RFC 1035 section 3.1):
two are the same if their octets are.
"""

import re

import dns.name

from mta.model.international import a_labels

Name = bytes
"""Labels, each behind its length, and the empty one of the root."""

_LIMIT = 253
"""Characters of a name without its final dot, RFC 1035 section 2.3.4 (255 octets on the wire)."""
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_PLAIN = re.compile(rb"[a-z0-9_-]*\Z")


class BadName(ValueError):
    """Text that no question can be asked for; the text says why."""


def absolute_name(text: str) -> Name:
    """`text` as an absolute name. Raises `BadName`."""
    try:
        name = a_labels(text)
    except ValueError as error:
        raise BadName(str(error)) from None
    if len(name) > _LIMIT:
        raise BadName(f"longer than {_LIMIT} characters")
    if not _NAME.match(name):
        raise BadName("it has an empty, over-long or malformed label")
    return b"".join([len(label).to_bytes() + label for label in name.encode("ascii").split(b".")]) + b"\0"


def in_text(name: Name) -> str:
    """Without its final dot, "" for the root; what is no letter, digit, hyphen or underscore as zone files have it (RFC 1035
    section 5.1), so that no name of other labels looks the same."""
    labels = []
    at = 0
    while length := name[at]:
        labels.append(name[at + 1 : at + 1 + length])
        at += 1 + length
    if _PLAIN.match(b"".join(labels)):
        return b".".join(labels).decode("ascii")
    return dns.name.Name([*labels, b""]).to_text(omit_final_dot=True)
