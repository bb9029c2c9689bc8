"""The values that options take: text in, values out. Each raises `ValueError` with what was expected.

Rules: what takes its time to import is imported by the option that wants it, since most commands have none.
"""

import re
from typing import TYPE_CHECKING

from mta.model.lifecycle import FINISHED, Status
from mta.model.units import parse_duration

if TYPE_CHECKING:
    from mta.model.envelope import MailClass

REASON_LIMIT = 200
LIMIT = 10_000
"""The most messages that one answer lists."""
_UNFINISHED = tuple(status for status in Status if status not in FINISHED)


def domain(text: str) -> str:
    """In lower case, by its A-labels."""
    from mta.model.address import AddressError, parse_domain

    try:
        return parse_domain(text)
    except AddressError as error:
        raise ValueError(f"expected a domain such as example.com ({error})") from None


def address(text: str) -> str:
    from mta.model.address import AddressError, parse_address

    try:
        return str(parse_address(text, utf8=True).sendable)
    except AddressError as error:
        raise ValueError(f"expected an address such as ann@example.com ({error})") from None


def sender(text: str) -> str:
    """With or without angle brackets; "" for the null path."""
    bare = text.removeprefix("<").removesuffix(">")
    return address(bare) if bare else ""


def status(text: str) -> Status:
    if text not in _UNFINISHED:
        raise ValueError(f"expected one of {', '.join(_UNFINISHED)} (what is finished is not in the queue)")
    return Status(text)


def mail_class(text: str) -> "MailClass":
    from mta.model.envelope import MailClass

    known = {mail_class.label: mail_class for mail_class in MailClass}
    if text not in known:
        raise ValueError(f"expected one of {', '.join(known)}")
    return known[text]


def duration(text: str) -> float:
    """Seconds."""
    return parse_duration(text)


def lasting(text: str) -> float:
    """Seconds, more than none."""
    if not (seconds := parse_duration(text)):
        raise ValueError("expected a duration above zero")
    return seconds


def key(text: str) -> str:
    from mta.model.envelope import KEY_LIMIT, is_key

    if not is_key(text):
        raise ValueError(f"expected 1 to {KEY_LIMIT} ASCII characters, no blank")
    return text


def reason(text: str) -> str:
    """One line, in words."""
    if not text.strip() or len(text) > REASON_LIMIT or not text.isprintable():
        raise ValueError(f"expected 1 to {REASON_LIMIT} printable characters")
    return text


def ref(text: str) -> str:
    if not text:
        raise ValueError("expected a queue id, a Message-ID in angle brackets, or an idempotency key")
    return text


def limit(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= LIMIT:
        raise ValueError(f"expected a number from 1 to {LIMIT}")
    return int(text)
