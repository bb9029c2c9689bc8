"""Numbers, times and tables for a person."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from mta.model.text import safe_text

WIDTH = 76
"""Characters of a line that may be folded."""
WIDEST = 60
"""Characters of a column's cell, but for the last one's."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """The largest unit and the one below it: `2 h 5 min`, `41 s`."""
    whole = int(seconds)
    for (size, unit), (smaller, lesser) in pairwise(_UNITS):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {lesser}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def moment(seconds: float) -> str:
    """A short one: `12 ms`, `1.4 s`."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def clock(instant: str | None) -> str:
    """`2026-01-02T03:04:05.678Z` -> `2026-01-02 03:04:05Z`; nothing for none."""
    return f"{instant[:10]} {instant[11:19]}Z" if instant else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterable[str]:
    """Columns two blanks apart, as wide as their widest cell; the last is as long as it is."""
    cells = [tuple(heads)]
    cells += [tuple(_cell(value, last=index == len(heads) - 1) for index, value in enumerate(row)) for row in rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(heads))]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(value: object, *, last: bool) -> str:
    return safe_text(str(value), 0 if last else WIDEST)
