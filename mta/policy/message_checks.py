"""What is wrong with a message as its header section tells it, and how it is mended.

Rules: the first flaw is named, with what to do about it; when in doubt there is none. Addresses are counted, not judged:
`From: root` is what cron writes. Fields that submission replaces or takes out do not count, since nobody gets them, but for
Bcc, where one more may mean recipients. Resent fields and MIME are nobody's business here (RFC 5321 section 3.3).
RFC 5322 sections 2.1, 2.2, 3.4, 3.6 and 3.6.2; RFC 6854 section 2; RFC 5321 section 6.3.
"""

import re

from mta.model.reply import Reply
from mta.policy import header
from mta.policy.header import Field, Section

HOP_LIMIT = 100
"""So many Received fields are a loop (RFC 5321 section 6.3)."""

_ONCE = {
    name.lower(): name
    for name in (
        *("Date", "From", "Sender", "Reply-To", "To", "Cc", "Bcc"),
        *("Message-ID", "In-Reply-To", "References", "Subject"),
    )
}
_JUDGED = 2**16
"""Characters of an address list that are looked at one by one: more is nobody's From, and would take long."""
_BY = re.compile(r"(?:^|\s)by\s+([^\s;()]+)", re.IGNORECASE)
_TOKEN = re.compile(r'\\.|"(?:[^"\\]|\\.)*"|[()<>,:;@"]')


def loop(section: Section, hostname: str, own_hops: int) -> Reply | None:
    """Whether the message goes in circles: by all its Received fields, or by those that `hostname` has written."""
    hops = section.by_name.get("received")
    if hops is None:
        return None
    if len(hops) >= HOP_LIMIT:
        return Reply(554, "5.4.6", f"Mail loop: {HOP_LIMIT} or more Received fields")
    if sum(_writer(hop.text) == hostname.lower() for hop in hops) >= own_hops:
        return Reply(554, "5.4.6", f"Mail loop: the message was here {own_hops} times (Received fields by {hostname})")
    return None


def _writer(hop: str) -> str:
    match = _BY.search(hop)
    return match[1].lower() if match else ""


def flaw(section: Section, start: bytes) -> Reply | None:
    """What is wrong with the message that begins with `start`, or None."""
    text = "" if section.closed else _frame_flaw(section, start)
    if not text and len(section.by_name) < len(section.fields):
        text = _count_flaw(section)
    text = text or _from_flaw(section)
    return Reply(554, "5.6.0", text) if text else None


def _frame_flaw(section: Section, start: bytes) -> str:
    """The header section ends in a line that is neither empty nor a field."""
    if section.fields:
        line = start.count(b"\r\n", 0, section.length) + 1
        return f"Line {line} is no header field, and no empty line comes before it: one must come before the body"
    if start.startswith((b"From ", b">From ")):
        return 'The first line is of an mbox file ("From ..."): leave it out'
    return "The first line is no header field: header fields and an empty line must come before the body"


def _count_flaw(section: Section) -> str:
    for name, fields in section.by_name.items():
        if len(fields) > 1 and name in _ONCE and sum(map(_stays, fields)) > 1:
            return f"More than one {_ONCE[name]} header field: send one"
    return ""


def _stays(field: Field) -> bool:
    if field.name == "message-id":
        return bool(header.message_id(field))
    return field.name != "date" or bool(field.text)


def _from_flaw(section: Section) -> str:
    author = section.first("from")
    text = author.text if author is not None else ""
    if not text:
        return "The From header field is missing: say who writes"
    if "," in text and mailboxes(text) > 1 and section.first("sender") is None:
        return "From names more than one mailbox: add a Sender header field that names the one who sends"
    return ""


def mailboxes(text: str) -> int:
    """How many mailboxes an address list certainly has: 1 where it has a group, is no address list, or is too long."""
    if len(text) > _JUDGED:
        return 1
    count = depth = 0
    in_angle = names_one = False
    for mark in _TOKEN.findall(f"{text},"):
        if mark in "()":
            depth += 1 if mark == "(" else -1
        elif depth or mark[0] == "\\" or len(mark) > 1:
            continue
        elif mark in "<>":
            in_angle = mark == "<"
        elif mark == "@":
            names_one = True
        elif mark == "," and not in_angle:
            count, names_one = count + names_one, False
        elif not in_angle:
            return 1
    return max(count, 1) if not depth else 1
