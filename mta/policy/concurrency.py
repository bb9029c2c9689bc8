"""How many sessions a destination gets, and when it rests (RFC 5321 section 4.5.4.1: bounded, unreachability remembered).

Rules: a destination that is well has all its sessions; one that is in trouble rests, longer with each failure in a row,
and is then probed by one session; what succeeds doubles what is allowed. Several sessions that fail in one rest count as
one failure. Instants are of a monotonic clock, in seconds.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Standing:
    """How a destination stands: `allowed` sessions at once, `failures` in a row, resting until an instant."""

    allowed: int
    failures: int = 0
    rests_until: float = 0.0

    def rests(self, now: float) -> bool:
        return now < self.rests_until


def after_progress(standing: Standing, cap: int) -> Standing:
    """A session got through to the destination, whatever it said of the recipients."""
    if not standing.failures and standing.allowed == cap:
        return standing
    return Standing(allowed=max(1, min(standing.allowed * 2, cap)))


def after_trouble(standing: Standing, now: float, rest: float) -> Standing:
    """The destination as a whole could not be used; `rest` is the wait that is due for this failure."""
    if standing.rests(now):
        return standing
    return replace(standing, allowed=1, failures=standing.failures + 1, rests_until=now + rest)
