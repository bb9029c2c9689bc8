"""The figures as Markdown, with what they are to be."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Goal:
    """`is_met` is given the median of a judged column, and the base's."""

    text: str
    is_met: Callable[[float, float], bool]


def at_least(figure: float) -> Goal:
    return Goal(f"≥ {figure:,g}", lambda own, _: own >= figure)


def at_most(figure: float) -> Goal:
    return Goal(f"≤ {figure:,g}", lambda own, _: own <= figure)


def times_at_least(factor: float, base: str = "Postfix") -> Goal:
    return Goal(f"≥ {factor:g} × {base}", lambda own, other: own >= factor * other)


def times_at_most(factor: float, base: str = "Postfix") -> Goal:
    return Goal(f"≤ {factor:g} × {base}", lambda own, other: own <= factor * other)


def above_by_at_most(figure: float, base: str) -> Goal:
    return Goal(f"≤ {base} + {figure:g}", lambda own, other: own <= other + figure)


@dataclass(frozen=True, slots=True)
class Row:
    """A figure: of each column what was measured, once in each round. Nothing: it has none."""

    what: str
    values: Sequence[Sequence[float]]
    goal: Goal | None = None


@dataclass(slots=True)
class Table:
    """The first `judged` columns are held against the goals, and each has its ratio to the column `base`."""

    title: str
    columns: Sequence[str]
    rows: list[Row] = field(default_factory=list)
    judged: int = 1
    base: int = 1

    def markdown(self) -> str:
        base = self.columns[self.base]
        ratios = [f"{name} / {base}" for name in self.columns[: self.judged]]
        headings = ["", *self.columns, *ratios, "goal"]
        lines = ["| " + " | ".join(headings) + " |", "|---|" + "---:|" * (len(headings) - 2) + "---|"]
        return "\n".join([f"### {self.title}", "", *lines, *map(self._line, self.rows)])

    def _line(self, row: Row) -> str:
        medians = [statistics.median(it) if it else None for it in row.values]
        base = medians[self.base]
        judged = medians[: self.judged]
        ratios = [f"{own / base:.2f}" if own is not None and base else "–" for own in judged]
        cells = [row.what, *map(_spread, row.values), *ratios, _verdict(row.goal, judged, base)]
        return "| " + " | ".join(cells) + " |"


def _verdict(goal: Goal | None, judged: Sequence[float | None], base: float | None) -> str:
    if goal is None:
        return ""
    are_met = [own is not None and goal.is_met(own, base or 0.0) for own in judged]
    return f"{goal.text}: {'met' if all(are_met) else '**missed**'}"


def _spread(values: Sequence[float]) -> str:
    """Median, and the least and most where there are several."""
    if not values:
        return "–"
    digits = next(digits for digits, least in ((0, 100.0), (1, 10.0), (2, 0.0)) if max(values) >= least)
    median = f"{statistics.median(values):,.{digits}f}"
    return median if len(values) == 1 else f"{median} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]
