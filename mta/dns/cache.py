"""Answers remembered until their time is up, the least used forgotten first.

Rules: bounded; time is given by the caller and never steps back (the event loop's clock).
"""

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TtlCache(Generic[Key, Value]):
    """At most `capacity` values, of no more than `weight` in all, each with the instant it expires at."""

    def __init__(self, capacity: int, weight: float = math.inf) -> None:
        self._capacity, self._most = capacity, weight
        self._weight = 0
        self._entries: OrderedDict[Key, tuple[float, Value, int]] = OrderedDict()

    def get(self, key: Key, now: float) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        expires_at, value, _ = entry
        if now >= expires_at:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: Key, value: Value, expires_at: float, weight: int = 0) -> None:
        self._drop(key)
        self._entries[key] = (expires_at, value, weight)
        self._weight += weight
        while len(self._entries) > self._capacity or self._weight > self._most:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._weight -= entry[2]

    def __len__(self) -> int:
        return len(self._entries)
