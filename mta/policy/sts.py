"""MTA-STS: the record that says there is a policy, the policy, and which mail servers it covers (RFC 8461).

Rules: what is no valid record or policy is as if it were not there, never half of one; what a later version may add is
passed over. A pattern that no name of a mail server can be (an IP address, a star inside a name, U-labels) stays without
effect, and does not make the others so.
"""

import ipaddress
import re
from collections.abc import Sequence

from mta.model.address import AddressError, check_domain
from mta.model.tls import StsMode, StsPolicy

LONGEST_AGE = 31557600
"""Seconds: a policy asks for no more than a year (section 3.2)."""

_VERSION = re.compile(r"v=STSv1[ \t]*;")
_FIELD = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,31})=([!-:<>-~]+)\Z")
_ID = re.compile(r"[A-Za-z0-9]{1,32}\Z")
_AGE = re.compile(r"[0-9]{1,10}\Z", re.ASCII)


class NoPolicy(ValueError):
    """Text that is no valid policy; says why."""


def policy_id(texts: Sequence[str]) -> str:
    """The id in the TXT records of `_mta-sts.DOMAIN`, "" where they say of no policy (section 3.1)."""
    records = [text for text in texts if _VERSION.match(text)]
    if len(records) != 1:
        return ""
    parts = [part.strip(" \t") for part in records[0].split(";")[1:]]
    matches = [_FIELD.match(part) for part in (parts if parts[-1] else parts[:-1])]
    fields = [match.groups() for match in matches if match is not None]
    found = next((value for name, value in fields if name == "id"), "")
    return found if len(fields) == len(matches) and _ID.match(found) else ""


def parse_policy(text: str) -> StsPolicy:
    """The policy in a policy file (section 3.2). Raises `NoPolicy`."""
    lines = tuple(line.rstrip("\r \t") for line in text.split("\n"))
    pairs = [(key, value.strip(" \t")) for key, colon, value in (line.partition(":") for line in lines) if colon]
    fields = dict(reversed(pairs))  # of what is there twice the first counts
    if fields.get("version") != "STSv1":
        raise NoPolicy("it has no version STSv1")
    if fields.get("mode") not in list(StsMode):
        raise NoPolicy("it has no mode that is enforce, testing or none")
    if not _AGE.match(fields.get("max_age", "")):
        raise NoPolicy("it has no max_age in seconds")
    mode = StsMode(fields["mode"])
    if mode is not StsMode.NONE and "mx" not in fields:
        raise NoPolicy(f"it has mode {mode} and no mx")
    patterns = (_pattern(value) for key, value in pairs if key == "mx")
    age = min(int(fields["max_age"]), LONGEST_AGE)
    return StsPolicy(mode, tuple(dict.fromkeys(filter(None, patterns))), float(age), tuple(filter(None, lines)))


def _pattern(text: str) -> str:
    """In lower case; "" for one that no server's name can be: also U-labels, which have no place there (section 3.2)."""
    star = "*." if text.startswith("*.") else ""
    name = text.removeprefix(star).removesuffix(".")
    try:
        check_domain(name)
    except AddressError:
        return ""
    return "" if name.startswith("[") or _is_address(name) else f"{star}{name.lower()}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def covers(policy: StsPolicy, host: str) -> bool:
    """Whether a mail server may be used: its name is one of the patterns, where "*." stands for one label (section 4.1)."""
    label, dot, parent = host.lower().partition(".")
    return host.lower() in policy.mx or (bool(label and dot) and f"*.{parent}" in policy.mx)
