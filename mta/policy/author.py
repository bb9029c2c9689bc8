"""Whose mail a message is, by its From field: the domain that a signature speaks for (RFC 7489 section 3.1).

Rules: the first mailbox counts; quoted strings, comments and display names are no addresses, whatever they look like. What
is no address has no domain. RFC 5322 sections 3.2.2, 3.2.4, 3.4 and 3.6.2.
"""

import re

from mta.model.international import a_labels
from mta.policy.header import Section

_LIMIT = 2**16
"""Characters of the field that are looked at."""
_MARK = re.compile(r'\\.|"(?:[^"\\]|\\.)*+"|[^\\"()<>,:;]++|.')
_PARENTHESES = str.maketrans("()", "  ")
_BLANK = re.compile(r"\s+")


def author_domain(section: Section) -> str:
    """In lower case and A-labels; "" where there is none."""
    field = section.first("from")
    text = field.text[:_LIMIT] if field is not None else ""
    mailbox = _first_mailbox(text) or _first_mailbox(text.translate(_PARENTHESES))  # ":(" opens no comment
    _, at, domain = mailbox.rpartition("@")
    try:
        return a_labels(_BLANK.sub("", domain)).rstrip(".") if at else ""
    except ValueError:
        return ""


def _first_mailbox(text: str) -> str:
    """What stands around its last @, "" without one."""
    depth, in_angle, found = 0, False, ""
    for mark in _MARK.findall(text):
        if mark in "()":
            depth = max(0, depth + (1 if mark == "(" else -1))
        elif depth:
            continue
        elif mark == "<" or mark == ":":  # before it stands a name, or a source route
            in_angle, found = in_angle or mark == "<", ""
        elif mark == ">" or (mark in ",;" and not in_angle):
            if "@" in found:
                break
            in_angle, found = False, ""
        elif mark[0] != '"':
            found += mark
    return found if "@" in found and not depth else ""
