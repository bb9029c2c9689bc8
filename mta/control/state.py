"""What `status` needs and the spool does not know: the daemon's present moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LimitState:
    """`allowed` sessions now, of at most `cap`, which was `learned` from what a server said ("": it was not), or is
    `configured` for it, else the default. `rate` of messages as it is configured, "" without one; `next_at` (seconds since
    the epoch) where mail waits for the next. `group`: what it shares these with others as, "" where it stands alone."""

    allowed: int
    cap: int
    learned: str = ""
    configured: bool = False
    rate: str = ""
    next_at: float | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class DestinationState:
    """One destination's sessions now (transactions under way and idle ones kept open), until when it rests (seconds since
    the epoch; None: it does not), and the last reply or finding that was trouble, "" if there was none."""

    sessions: int
    suspended_until: float | None
    last_reply: str
    limit: LimitState | None = None


class DaemonState(Protocol):
    """What a running daemon tells of itself, and the one thing it is told. Cheap, and never raises."""

    def uptime(self) -> float:
        """Seconds since the start."""
        ...

    def destinations(self) -> Mapping[str, DestinationState]:
        """Those with a session, or at rest."""
        ...

    def rates(self) -> Mapping[str, float]:
        """Events per minute over the last minute, by name: accepted, sent, deferred, failed ..."""
        ...

    def categories(self) -> Mapping[str, int]:
        """How many refusals there were since the start, by their kind (`model.category`), the most frequent first."""
        ...

    def loop_lag(self) -> float:
        """By how many seconds the event loop was late within the last minute, at the most."""
        ...

    def wake(self, destination: str) -> None:
        """A person wants this destination tried now, whatever its hosts have shown so far."""
        ...
