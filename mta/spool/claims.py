"""Who is being worked on: claims live in memory alone, so after a crash nothing is claimed.

Rules: a search for a claim holds the lock from before it reads until the claim is entered, so no recipient is in two.
A claim ends only after the commit that ends it, under the same lock, so a search that sees a recipient as free also sees
what that commit made of it. Verbs of persons hold the lock from their look until their commit. It is held over statements
alone, never over an await, and so a loop that runs them itself may take it.
"""

import threading
from collections.abc import Collection, Iterable


class Claims:
    """The claimed recipients of one daemon. All but `holds` are called with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._last = 0
        self._held: dict[int, tuple[str, frozenset[int]]] = {}
        self._busy: dict[str, set[int]] = {}
        self._suspects: frozenset[int] = frozenset()

    def enter(self, destination: str, recipients: Iterable[int]) -> int:
        """A new claim; its id."""
        self._last += 1
        ids = frozenset(recipients)
        self._held[self._last] = (destination, ids)
        self._busy.setdefault(destination, set()).update(ids)
        return self._last

    def end(self, claims: Iterable[int]) -> None:
        """These are over and their commit is durable."""
        for claim in claims:
            destination, ids = self._held.pop(claim, ("", frozenset()))
            if busy := self._busy.get(destination):
                busy -= ids
                if not busy:
                    del self._busy[destination]

    def holds(self, claim: int) -> frozenset[int]:
        """The recipients of a claim, none when it is over."""
        return self._held.get(claim, ("", frozenset()))[1]

    def abandoned(self, working: Collection[int]) -> frozenset[int]:
        """Claims that are not among those `working`, now and when this was asked before: one look may miss a claim that
        is on its way to who asked for it."""
        idle = frozenset(self._held) - frozenset(working)
        found, self._suspects = idle & self._suspects, idle
        return found

    def busy(self, destination: str) -> Collection[int]:
        """The claimed recipients at a destination; the set itself, not a copy."""
        return self._busy.get(destination, ())

    def everyone(self, without: Collection[int] = ()) -> frozenset[int]:
        """All claimed recipients, but for those of the claims in `without` (which the transaction at hand ends)."""
        return frozenset().union(*(ids for claim, (_, ids) in self._held.items() if claim not in without))
