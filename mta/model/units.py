"""Durations and sizes as people write them: `"300ms" "90s" "5m" "4h" "5d"`, `"512KiB" "25MiB"`.

Rules: a number and one unit, nothing else; a bare number is refused, since its unit would be a guess. What is formatted
here parses back to the same value.
"""

import re

_NUMBER = r"(\d{1,13}(?:\.\d{1,6})?)"
_DURATION = re.compile(rf"{_NUMBER}(ms|s|m|h|d)\Z", re.ASCII)
_SIZE = re.compile(rf"{_NUMBER}(B|KiB|MiB|GiB)\Z", re.ASCII)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_OCTETS = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
_WORDS = {"d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond"}

DURATION_LIMIT = 3650 * 86400.0
"""Seconds: what is longer would leave the calendar's range before it ended."""
SIZE_LIMIT = 2**40
"""Octets."""


def parse_duration(text: str) -> float:
    """Seconds, 0 to `DURATION_LIMIT`. Raises `ValueError` with what was expected."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError('expected a duration such as "300ms", "90s", "5m", "4h" or "5d"')
    number, unit = match.groups()
    seconds = float(number) / 1000 if unit == "ms" else float(number) * _SECONDS[unit]
    if seconds > DURATION_LIMIT:
        raise ValueError('expected a duration of at most "3650d"')
    return seconds


def parse_size(text: str) -> int:
    """Octets, 0 to `SIZE_LIMIT`. Raises `ValueError` with what was expected."""
    match = _SIZE.match(text)
    if match is None:
        raise ValueError('expected a size such as "512KiB" or "25MiB"')
    octets = float(match.group(1)) * _OCTETS[match.group(2)]
    if octets > SIZE_LIMIT:
        raise ValueError('expected a size of at most "1024GiB"')
    return int(octets)


def format_duration(seconds: float) -> str:
    """As `parse_duration` reads it, in the largest unit that goes without a fraction: 300 -> `5m`."""
    milliseconds = round(seconds * 1000)
    number, unit = _largest(milliseconds)
    return f"{number}{unit}"


def duration_in_words(seconds: float) -> str:
    """300 -> `5 minutes`."""
    number, unit = _largest(round(seconds * 1000))
    return f"{number} {_WORDS[unit]}{'' if number == 1 else 's'}"


def _largest(milliseconds: int) -> tuple[int, str]:
    if not milliseconds:
        return 0, "s"
    for unit, seconds in _SECONDS.items():
        whole, rest = divmod(milliseconds, round(seconds * 1000))
        if not rest:
            return whole, unit
    return milliseconds, "ms"


def format_size(octets: int) -> str:
    """As `parse_size` reads it: 26214400 -> `25MiB`."""
    for unit, factor in _OCTETS.items():
        if octets and octets % factor == 0:
            return f"{octets // factor}{unit}"
    return "0B"
