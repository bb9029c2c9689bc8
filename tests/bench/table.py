"""The figures as Markdown."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from tests.bench.rounds import Figures
from tests.bench.traffic import Single

HEADINGS = {True: "connections kept open", False: "a connection per message"}
DELAYS: Mapping[str, Callable[[Single], float]] = {
    "final dot to 250": lambda it: it.accepted,
    "250 to receipt": lambda it: it.received - it.accepted,
    "final dot to receipt": lambda it: it.received,
}


def table(figures: Mapping[str, Figures]) -> str:
    """A row per figure, a column per peer; the first peer against the last in the last column."""
    names = list(figures)
    lines = ["| | | " + " | ".join(names) + " | ratio |", "|---|---|" + "---:|" * (len(names) + 1)]
    for kept_open, heading in HEADINGS.items():
        rounds = [it.rounds[kept_open] for it in figures.values()]
        lines += [
            _row(heading, "accepted/s", [[one.accepted for one in it] for it in rounds]),
            _row(heading, "delivered/s", [[one.delivered for one in it] for it in rounds]),
            _row(heading, "CPU ms per 1,000 messages", [[one.cpu * 1e6 for one in it] for it in rounds]),
        ]
    for percent in (50, 99):
        for what, delay in DELAYS.items():
            delays = [[_percentile([delay(one) for one in it.singles], percent) * 1000] for it in figures.values()]
            lines.append(_row("one message, idle", f"{what}, p{percent}, ms", delays))
    return "\n".join(lines)


def _row(heading: str, what: str, values: Sequence[Sequence[float]]) -> str:
    ratio = statistics.median(values[0]) / statistics.median(values[-1])
    return f"| {heading} | {what} | " + " | ".join(map(_spread, values)) + f" | {ratio:.2f} |"


def _spread(values: Sequence[float]) -> str:
    """Median, and the least and most where there are several."""
    digits = 0 if max(values) >= 100 else 1
    median = f"{statistics.median(values):,.{digits}f}"
    return median if len(values) == 1 else f"{median} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def _percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]
