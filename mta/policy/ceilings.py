"""How many sessions servers were seen to bear: what a refusal has taught, kept beyond the day's work.

Rules: a refusal teaches only when another session gets through at that time; else the server was down, not crowded. It
bears as many as were open beside the one that it refused. What was learned is forgotten a day after the last refusal, and
until then raised by one for every hour without a refusal in which more sessions were wanted. Instants are of a monotonic
clock, in seconds.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

DAY = 86400.0
RAISED_AFTER = 3600.0
LIMIT = 10_000
"""How many are kept; the oldest is forgotten first."""
_TEXT = 200


@dataclass(frozen=True, slots=True)
class Ceiling:
    """At most `sessions` since `since`, for what `reply` said; as if it were not there from `until` on."""

    sessions: int
    reply: str
    since: float
    until: float

    def to_text(self) -> str:
        return json.dumps({"sessions": self.sessions, "reply": self.reply})


class Ceilings:
    """By name of those that share their limits."""

    def __init__(self) -> None:
        self._known: dict[str, Ceiling] = {}
        self.of: Callable[[str], Ceiling | None] = self._known.get
        """What is known of a name; asked several times for each message."""
        self._suspected: dict[str, tuple[int, str]] = {}
        self.changed: set[str] = set()
        """Names of those that are to be kept otherwise than they are."""

    def refused(self, name: str, others: int, reply: str) -> None:
        """One more was refused as one too many, with `others` (at least one) open beside it."""
        known, suspected = self._known.get(name), self._suspected.get(name)
        most = min(others, known.sessions if known else others, suspected[0] if suspected else others)
        self._suspected[name] = most, reply[:_TEXT]

    def suspects(self, name: str) -> bool:
        """Whether a refusal has taught nothing yet."""
        return name in self._suspected

    def was_down(self, name: str) -> None:
        """Nobody got through, or nobody is there any more: what was refused teaches nothing."""
        self._suspected.pop(name, None)

    def got_through(self, name: str, now: float, *, wanted: bool) -> bool:
        """A session succeeded; whether that has changed the ceiling."""
        if name in self._suspected:
            sessions, reply = self._suspected.pop(name)
            self._keep(name, Ceiling(sessions, reply, now, now + DAY))
            return True
        known = self._known.get(name)
        if known is None or not wanted or now < known.since + RAISED_AFTER:
            return False
        self._keep(name, replace(known, sessions=known.sessions + 1, since=now))
        return True

    def forget(self, name: str) -> None:
        """As if nothing had been learned."""
        if self._known.pop(name, None) is not None:
            self.changed.add(name)

    def forget_old(self, now: float) -> list[str]:
        """The names of those that were."""
        old = [name for name, it in self._known.items() if now >= it.until]
        for name in old:
            del self._known[name]
        return old

    # ------------------------------------------------ kept over restarts
    def recalled(self, name: str, text: str, since: float, until: float) -> None:
        """What was kept before this start. Raises ValueError where it is nothing that we wrote."""
        found: Any = json.loads(text)
        if not isinstance(found, dict) or not isinstance(found.get("sessions"), int) or found["sessions"] < 1:
            raise ValueError("no ceiling")
        self._known[name] = Ceiling(found["sessions"], str(found.get("reply", ""))[:_TEXT], since, until)

    def take_changes(self) -> dict[str, Ceiling | None]:
        """What is to be kept (None: no more), since the last time."""
        changed, self.changed = self.changed, set()
        return {name: self._known.get(name) for name in changed}

    def not_kept(self, names: Iterable[str]) -> None:
        """They could not be written."""
        self.changed.update(names)

    def _keep(self, name: str, ceiling: Ceiling) -> None:
        self._known.pop(name, None)
        self._known[name] = ceiling
        self.changed.add(name)
        if len(self._known) > LIMIT:
            self.forget(next(iter(self._known)))
