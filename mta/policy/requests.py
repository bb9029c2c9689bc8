"""When a submission wants its message to be sent: its class, its deadline, its release, by MAIL parameters or by header
fields; and whether it may be more than ASCII.

Rules: a relative value counts from MAIL, in a header field too; an instant is kept as absolute wall time. A parameter is
refused at MAIL, a field by its name behind the content. A parameter and a field of the same meaning that differ are a
mistake of the program, and refused; where they agree, the parameter counts. Of MT-PRIORITY, MT-Priority, Priority and
Precedence the first that is there decides. RFC 2852 sections 2 and 4; RFC 4865 sections 3, 4.2 and 5.2.2; RFC 6710
sections 3 and 4.1; RFC 6758 section 3.1; RFC 6531 section 3.4; RFC 8689 section 2; RFC 2156 (Priority, Latest-Delivery-Time,
Deferred-Delivery); RFC 3339.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar

from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.reply import Reply
from mta.model.units import format_duration, parse_duration
from mta.policy.commands import BAD_PARAMETER, BAD_PRIORITY
from mta.policy.header import Field, HeaderError, Section

DEADLINE, RELEASE, PRIORITY = "Latest-Delivery-Time", "Deferred-Delivery", "MT-Priority"
"""The header fields."""
PARAMETERS = frozenset({"BY", "HOLDFOR", "HOLDUNTIL", "MT-PRIORITY", "REQUIRETLS", "SMTPUTF8"})
SAME_INSTANT = 5.0
"""Seconds by which a parameter and a field may differ and still mean the same: dates have whole seconds, and a program
makes one before the other."""

_READ = frozenset({DEADLINE.lower(), RELEASE.lower(), PRIORITY.lower(), "priority", "precedence"})
_Value = TypeVar("_Value")
_BY = re.compile(r"([+-]?[0-9]{1,9});([NR])(T?)\Z", re.IGNORECASE)
_HOLD_FOR = re.compile(r"[1-9][0-9]{0,8}\Z")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})\Z",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?:-?[1-9]|0)\Z")
_COMMENT = re.compile(r"\([^()]*\)")
_DATE = re.compile(
    r"(?:[A-Z]{3}\s*,\s*)?[0-9]{1,2}\s+[A-Z]{3}\s+[1-9][0-9]{3}\s+[0-9]{2}:[0-9]{2}(?::[0-9]{2})?\s+([+-][0-9]{4}|[A-Z]{1,3})\Z",
    re.IGNORECASE,
)
"""RFC 5322 section 3.3. The parser of the standard library takes much that is no date."""
_UNKNOWN_ZONE = "-0000"
"""UTC, by a machine that does not tell its zone; the parser leaves it open."""
_PRIORITIES = {"urgent": MailClass.URGENT, "normal": MailClass.NORMAL, "non-urgent": MailClass.BULK}
_BULK_PRECEDENCES = ("bulk", "list", "junk")


class Requests(NamedTuple):
    """Of the parameters of MAIL. `priority` None: none was given; `hold_request` as in `NewMessage`; `utf8`: addresses and
    header section may be UTF-8, which says nothing of whether they are; `require_tls`: it goes on by servers with
    REQUIRETLS alone."""

    priority: int | None = None
    deliver_by: DeliverBy | None = None
    not_before: float | None = None
    hold_request: str = ""
    utf8: bool = False
    require_tls: bool = False


NO_REQUESTS = Requests()


class Wish(NamedTuple):
    """Of parameters and fields together. `past` is the field whose instant lies behind MAIL, "" for none: a refusal, but
    for an email that is here already. `asked` is the class that was asked for and may not be used, None: there is none."""

    priority: int | None = None
    mail_class: MailClass = MailClass.NORMAL
    deliver_by: DeliverBy | None = None
    not_before: float | None = None
    hold_request: str = ""
    past: str = ""
    asked: MailClass | None = None


NO_WISH = Wish()


def class_of(priority: int) -> MailClass:
    """Of MT-PRIORITY's value: levels within a class are one (RFC 6710 section 5.1)."""
    return MailClass.URGENT if priority > 0 else MailClass.BULK if priority < 0 else MailClass.NORMAL


# ---------------------------------------------------------------- parameters
def mail_requests(parameters: Mapping[str, str | None], now: float, max_hold: float, *, strict: bool) -> Requests | Reply:
    """Those of `PARAMETERS` in a MAIL heard at `now`, or why they are refused. `strict`: BY=n;R is kept as RFC 2852 says."""
    if parameters.keys().isdisjoint(PARAMETERS):
        return NO_REQUESTS
    priority = parameters.get("MT-PRIORITY", "0")
    if priority is None or not _NUMBER.match(priority):
        return BAD_PRIORITY
    if parameters.get("SMTPUTF8") is not None or parameters.get("REQUIRETLS") is not None:
        return BAD_PARAMETER
    try:
        deliver_by = _deliver_by(parameters["BY"], now, strict=strict) if "BY" in parameters else None
        not_before, request = _hold(parameters, now)
    except ValueError:
        return BAD_PARAMETER
    if not_before is not None:
        if not now < not_before <= now + max_hold:
            return Reply(501, "5.5.4", f"A message may be held for at most {format_duration(max_hold)}")
        if deliver_by is not None and not_before >= deliver_by.at:
            return Reply(501, "5.5.4", "A message can't be held until its deadline has passed")
    level = int(priority) if "MT-PRIORITY" in parameters else None
    utf8, require_tls = "SMTPUTF8" in parameters, "REQUIRETLS" in parameters
    return Requests(level, deliver_by, not_before, request, utf8=utf8, require_tls=require_tls)


def _deliver_by(value: str | None, now: float, *, strict: bool) -> DeliverBy:
    """Raises `ValueError`."""
    match = _BY.match(value or "")
    if match is None:
        raise ValueError("no by-value")
    seconds, mode = int(match[1]), ByMode(match[2].upper())
    if mode is ByMode.RETURN and seconds <= 0:
        raise ValueError("it would be returned at once")
    if mode is ByMode.RETURN and not strict:
        mode = ByMode.HANDOVER
    return DeliverBy(now + seconds, mode, bool(match[3]))


def _hold(parameters: Mapping[str, str | None], now: float) -> tuple[float | None, str]:
    """The release, and how it was asked for. Raises `ValueError`."""
    if {"HOLDFOR", "HOLDUNTIL"} <= parameters.keys():
        raise ValueError("both")
    if "HOLDFOR" in parameters:
        value = parameters["HOLDFOR"] or ""
        if not _HOLD_FOR.match(value):
            raise ValueError("no interval")
        return now + int(value), f"for;{value}"
    if "HOLDUNTIL" in parameters:
        value = parameters["HOLDUNTIL"] or ""
        if not _RFC3339.match(value):
            raise ValueError("no date-time")
        return datetime.fromisoformat(value.upper()).timestamp(), f"until;{value}"
    return None, ""


def announced_hold(now: float, max_hold: float) -> str:
    """The parameters of FUTURERELEASE in the reply to EHLO (RFC 4865 section 3)."""
    return f"{int(max_hold)} {_utc(int(now + max_hold))}"


@lru_cache(maxsize=4)
def _utc(second: int) -> str:
    """Whoever comes in a second hears the same."""
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# ---------------------------------------------------------------- parameters and fields together
def wish(section: Section, requests: Requests, began_at: float, max_hold: float) -> Wish:
    """`began_at` is when MAIL was heard. Raises `HeaderError`."""
    if requests is NO_REQUESTS and section.by_name.keys().isdisjoint(_READ):
        return NO_WISH
    priority = _priority(section, requests.priority)
    deadline, release = _instant(section, DEADLINE, began_at), _instant(section, RELEASE, began_at)
    deliver_by, not_before = requests.deliver_by, requests.not_before
    past = ""
    if deadline is not None:
        _agree_on_deadline(deliver_by, deadline)
        if deliver_by is None:
            deliver_by = DeliverBy(deadline, ByMode.HANDOVER)
            past = DEADLINE if deadline <= began_at else ""
    if release is not None:
        _agree_on_release(requests, release)
        if not_before is None:
            not_before = release
            past = RELEASE if release < began_at else past
            if release > began_at + max_hold:
                raise HeaderError(f"Header field {RELEASE} is too late: at most {format_duration(max_hold)} from now")
    if deliver_by is not None and not_before is not None and not_before >= deliver_by.at and not past:
        name = RELEASE if release is not None else DEADLINE
        raise HeaderError(f"Header field {name} would hold the message until its deadline has passed")
    return Wish(priority, _mail_class(section, priority), deliver_by, not_before, requests.hold_request, past)


def _agree_on_deadline(given: DeliverBy | None, by_field: float) -> None:
    if given is not None and (not given.fails or abs(given.at - by_field) > SAME_INSTANT):
        raise HeaderError(f"MAIL parameter BY and header field {DEADLINE} differ")


def _agree_on_release(requests: Requests, by_field: float) -> None:
    if requests.not_before is not None and abs(requests.not_before - by_field) > SAME_INSTANT:
        name = "HOLDFOR" if requests.hold_request.startswith("for;") else "HOLDUNTIL"
        raise HeaderError(f"MAIL parameter {name} and header field {RELEASE} differ")


def _priority(section: Section, by_parameter: int | None) -> int | None:
    by_field = _one(PRIORITY, {mt_priority(field) for field in section.named(PRIORITY.lower())})
    if by_parameter is None:
        return by_field
    if by_field not in (None, by_parameter):
        raise HeaderError(f"MAIL parameter MT-PRIORITY and header field {PRIORITY} differ")
    return by_parameter


def mt_priority(field: Field) -> int:
    """The value of an MT-Priority field. Raises `HeaderError`."""
    text = _without_comments(field)
    if not _NUMBER.match(text):
        raise HeaderError(f"Bad value in header field {PRIORITY}: expected -9 to 9")
    return int(text)


def _mail_class(section: Section, priority: int | None) -> MailClass:
    by_word = _class_of_priority(section)
    if priority is not None:
        return class_of(priority)
    if by_word is not None:
        return by_word
    precedence = section.first("precedence")
    is_bulk = precedence is not None and precedence.text.lower() in _BULK_PRECEDENCES
    return MailClass.BULK if is_bulk else MailClass.NORMAL


def _class_of_priority(section: Section) -> MailClass | None:
    field = section.first("priority")
    if field is None:
        return None
    found = _PRIORITIES.get(field.text.lower())
    if found is None:
        raise HeaderError("Bad value in header field Priority: expected urgent, normal or non-urgent")
    return found


# ---------------------------------------------------------------- instants in fields
def _instant(section: Section, name: str, began_at: float) -> float | None:
    """Seconds since the epoch; None where there is no such field."""
    try:
        found = {_read_instant(_without_comments(field), began_at) for field in section.named(name.lower())}
    except (ValueError, OverflowError):
        raise HeaderError(
            f'Bad value in header field {name}: expected a date such as "Fri, 2 Jan 2026 03:04:05 +0000", or a duration '
            'such as "90s", "10m" or "4h"'
        ) from None
    return _one(name, found)


def _read_instant(text: str, began_at: float) -> float:
    """Raises `ValueError`, `OverflowError`."""
    date = _DATE.match(text)
    if date is None:
        return began_at + parse_duration(text)
    moment = parsedate_to_datetime(text)
    if moment.tzinfo is None and date[1] != _UNKNOWN_ZONE:
        raise ValueError("no zone that is known")
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).timestamp()  # what is no date in UTC can be shown to nobody


def _one(name: str, found: Iterable[_Value]) -> _Value | None:
    """The value that all fields of a name have."""
    values = [*found]
    if len(values) > 1:
        raise HeaderError(f"Header field {name} is given twice, with different values")
    return values[0] if values else None


def _without_comments(field: Field) -> str:
    return _COMMENT.sub(" ", field.text).strip()
