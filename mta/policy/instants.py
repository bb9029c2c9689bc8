"""The next instant of each of many names, and the earliest of all: a heap that forgets what was replaced."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

N = TypeVar("N")

STALE_LIMIT = 1000
"""Replaced instants that are kept until they have come; they wait for hours where a busy destination has deferred mail."""


class Instants(Generic[N]):
    """Of several instants of one name only the earliest counts. Names can be ordered."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, N]] = []
        self._next: dict[N, float] = {}

    def __contains__(self, name: N) -> bool:
        return name in self._next

    def __len__(self) -> int:
        """What is kept, replaced ones too."""
        return len(self._heap)

    @property
    def earliest(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def add(self, name: N, at: float) -> None:
        if at < self._next.get(name, float("inf")):
            self._next[name] = at
            heapq.heappush(self._heap, (at, name))
        if len(self._heap) > 2 * len(self._next) + STALE_LIMIT:  # mostly instants that an earlier one has replaced
            self._heap = [(at, name) for name, at in self._next.items()]
            heapq.heapify(self._heap)

    def past(self, now: float) -> Iterator[N]:
        """Takes out the names whose instant has come."""
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._next.get(name) == at:
                del self._next[name]
                yield name
