"""Counters since start and over the last minute, from facts.

Rules: constant memory; a fact costs an addition. Names are the timeline's events, besides `refused`, `reports` (mail of
our own) and `troubles`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mta.model.events import Accepted, Fact, Refused, Repeated, Reported, Settled, Trouble

WINDOW = 60
"""Seconds that a rate is taken over."""
NAMES = (
    "accepted", "duplicates", "sent", "deferred", "failed", "dead", "in_doubt", "held", "cancelled", "refused", "reports",
    "troubles",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`accepted` counts messages, what is settled recipients. `per_minute` has the last full `WINDOW` seconds. `categories`
    counts refusals since the start by their kind, the most frequent first."""

    since_start: Mapping[str, int]
    per_minute: Mapping[str, int]
    categories: Mapping[str, int]


class Metrics:
    """An observer. `monotonic` gives seconds that never step."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._totals: Counter[str] = Counter()
        self._categories: Counter[str] = Counter()
        self._seconds: list[Counter[str]] = [Counter() for _ in range(WINDOW)]
        self._second = int(monotonic())
        self._this_second = self._seconds[self._second % WINDOW]

    def __call__(self, fact: Fact) -> None:
        if isinstance(fact, Settled) and fact.category:
            self._categories[fact.category] += 1
        if name := _name(fact):
            self._totals[name] += 1
            if int(self._now()) > self._second:
                self._go_on()
            self._this_second[name] += 1

    def snapshot(self) -> Snapshot:
        self._go_on()
        rates = Counter[str]()
        for second in self._seconds:
            rates.update(second)
        categories = dict(self._categories.most_common())
        return Snapshot(
            {name: self._totals[name] for name in NAMES}, {name: rates[name] for name in NAMES}, categories
        )

    def _go_on(self) -> None:
        """To this second's counter; those that are older than the window are emptied."""
        second = int(self._now())
        for passed in range(max(self._second + 1, second - WINDOW + 1), second + 1):
            self._seconds[passed % WINDOW].clear()
        self._second = max(second, self._second)
        self._this_second = self._seconds[self._second % WINDOW]


def _name(fact: Fact) -> str:
    match fact:
        case Accepted():
            return "accepted"
        case Settled():
            return fact.outcome if fact.outcome in NAMES else ""
        case Repeated():
            return "duplicates"
        case Refused():
            return "refused"
        case Reported():
            return "reports"
        case Trouble():
            return "" if fact.severity in ("debug", "info") else "troubles"
        case _:
            return ""
