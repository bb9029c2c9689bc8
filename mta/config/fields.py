"""Single values of the configuration: text in, checked values out.

Rules: each function raises `ValueError` whose text says what was expected. Nothing is guessed: no bare numbers for
durations, no empty host for "everywhere", no name where an address is meant.
"""

import ipaddress
import re

from mta.config.paths import text
from mta.model.address import AddressError, check_domain, parse_address, parse_domain
from mta.model.units import parse_duration, parse_size

_RATE = re.compile(r"([0-9]{1,9})/(.+)\Z", re.DOTALL)
_USER = re.compile(r"[A-Za-z0-9.\-_@+]{1,64}\Z")
_SELECTOR = re.compile(r"(?=.{1,64}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\Z")
SMALLEST_MESSAGE = 1024
BAD_NAME = "expected a name of 1 to 64 letters, digits and . - _ @ +"


class Unsaid(ValueError):
    """What was given is not to be repeated: it holds a secret."""


def duration_or_zero(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError('expected a duration in quotes such as "90s" or "5m"')
    return parse_duration(value)


def duration(value: object) -> float:
    seconds = duration_or_zero(value)
    if not seconds:
        raise ValueError("expected a duration above zero")
    return seconds


def hold(value: object) -> float:
    """What EHLO announces in whole seconds (RFC 4865 section 3)."""
    seconds = duration(value)
    if seconds < 1:
        raise ValueError('expected a duration of at least "1s"')
    return seconds


def size_or_zero(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError('expected a size in quotes such as "512KiB" or "25MiB"')
    return parse_size(value)


def message_size(value: object) -> int:
    octets = size_or_zero(value)
    if octets < SMALLEST_MESSAGE:
        raise ValueError('expected a size of at least "1KiB"')
    return octets


def hostname(value: object) -> str:
    """What EHLO may say (RFC 5321 section 4.1.1.1): a domain name without a final dot, or an address literal."""
    given = text(value)
    try:
        check_domain(given)
    except AddressError as error:
        hint = "" if given.isascii() else f"; its A-labels are {_a_labels(given)}"
        raise ValueError(f'expected a full name such as "mail.example.com", or "[192.0.2.1]" ({error}{hint})') from None
    if is_ip(given):
        raise ValueError(f'expected brackets around an address: "[{given}]"')
    return given


def _a_labels(given: str) -> str:
    try:
        return f'"{parse_domain(given)}"'
    except AddressError:
        return "not to be had"


def domain(value: object) -> str:
    """A domain name, in lower case."""
    given = hostname(value).lower()
    if given.startswith("["):
        raise ValueError('expected a domain name such as "example.com"')
    return given


def full_domain(value: object) -> str:
    """A domain name of at least two labels, in lower case: what a record for others stands under."""
    given = domain(value)
    if "." not in given:
        raise ValueError('expected a full domain name such as "example.com"')
    return given


def sender_domain(value: object) -> str:
    """A domain name in lower case, or `*.` and one: what lies below it."""
    given = text(value)
    below = given.startswith("*.")
    return f"*.{domain(given[2:])}" if below else domain(given)


def user_name(value: object) -> str:
    given = text(value)
    if not is_user_name(given):
        raise ValueError(BAD_NAME)
    return given


def is_user_name(given: str) -> bool:
    return _USER.match(given) is not None


def rate(value: object) -> tuple[int, float]:
    """How many, and in how many seconds: `"100/1m"`."""
    match = _RATE.match(text(value))
    if match is None or not int(match[1]):
        raise ValueError('expected a number and a duration such as "100/1m"')
    return int(match[1]), duration(match[2])


def match(value: object) -> str:
    """Which destinations: a domain in lower case, `*.` and one for all below it, `*` for all."""
    return "*" if value == "*" else sender_domain(value)


def sharing(value: object) -> bool | str:
    """Who shares limits: nobody, all, or those with the same mail servers."""
    if isinstance(value, bool) or value == "mx":
        return value if isinstance(value, bool) else "mx"
    raise ValueError('expected true, false or "mx"')


def selector(value: object) -> str:
    given = text(value).lower()
    if not _SELECTOR.match(given):
        raise ValueError('expected the selector of a DKIM key, such as "2026" (letters, digits, hyphens, dots)')
    return given


def is_ip(given: str) -> bool:
    try:
        ipaddress.ip_address(given)
    except ValueError:
        return False
    return True


def address(value: object) -> str:
    """A mailbox with its domain."""
    try:
        parsed = parse_address(text(value))
    except AddressError as error:
        raise ValueError(f'expected an address such as "ann@example.com" ({error})') from None
    if not parsed.domain:
        raise ValueError('expected an address with its domain, such as "ann@example.com"')
    return str(parsed)


def addresses(value: object) -> tuple[str, ...]:
    """One address, or a list of them."""
    if isinstance(value, list) and value:
        return tuple(address(item) for item in value)
    if isinstance(value, list):
        raise ValueError("expected at least one address")
    return (address(value),)


def alias_name(value: object) -> str:
    """The part before the `@`, in lower case, or `*`."""
    given = text(value)
    try:
        parsed = parse_address(given) if given != "*" else None
    except AddressError as error:
        raise ValueError(f'expected a name such as "root", or "*" ({error})') from None
    if parsed and parsed.domain:
        raise ValueError(f'expected the name alone: "{parsed.local_part}"')
    return given.lower()


def command(value: object) -> tuple[str, ...]:
    """A program and its arguments, for no shell; [] is none."""
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise ValueError('expected a list of words such as ["/usr/local/bin/page", "--now"]')
    if value and not value[0].startswith("/"):
        raise ValueError(f'expected the program with its whole path, not "{value[0]}"')
    return tuple(value)
