"""How many messages a rate leaves: a token bucket whose tokens are made durable before they are used.

Rules: tokens leave the books in blocks, and only those that the spool has taken off its own books are used; so a crash loses
what was left of a block, and after it less is sent, never more. A block is a tenth of the burst at most, and is fetched when
half of the one before is used; where tokens come singly, one second's together, so that no message costs a write. What
is fetched and unused counts as being in the bucket. Instants are of a monotonic clock, in seconds, but for what is kept.
"""

from dataclasses import dataclass
from math import ceil, floor

from mta.policy.rates import Rate

_ROUNDING = 1e-9


@dataclass(slots=True)
class Allowance:
    """`level`: tokens on the books as of `at`; `ready`: what may be used; `asked`: what is on its way off the books. `ready`
    below 0: used and not yet taken off."""

    rate: Rate
    level: float
    at: float
    ready: int = 0
    asked: int = 0

    @property
    def block(self) -> int:
        return max(1, self.rate.burst // 10)

    @property
    def lump(self) -> int:
        """The fewest tokens that are fetched at a time."""
        return min(self.block, max(1, ceil(self.rate.amount / self.rate.period)))

    def change(self, rate: Rate, now: float) -> None:
        """Another rate from now on; what is there stays, up to its burst."""
        self._refill(now)
        self.rate, self.ready = rate, min(self.ready, rate.burst)
        self._refill(now)

    def use(self, now: float) -> None:
        """One message begins. What came until now came to a bucket that had this token still in it."""
        self._refill(now)
        self.ready -= 1

    def used(self, messages: int) -> None:
        """So many were sent where one had begun. A token that comes back finds the bucket full at most."""
        self.ready = min(self.ready + 1 - messages, self.rate.burst)

    def wants(self) -> bool:
        """Whether more should be fetched."""
        return not self.asked and self.ready <= self.block // 2

    def next_at(self, now: float) -> float:
        """When enough for a fetch is there: `now`, or later."""
        self._refill(now)
        lacking = min(self.lump, self.rate.burst) - self.level
        return now if lacking <= _ROUNDING else now + lacking * self.rate.period / self.rate.amount

    def ask(self, now: float) -> float:
        """Takes a block off the books, as far as it is there; what is left there, which is to be made durable before
        `grant`."""
        self._refill(now)
        self.asked = min(self.block, floor(self.level + _ROUNDING))
        self.level = max(0.0, self.level - self.asked)
        return self.level

    def grant(self) -> None:
        """It is durable."""
        self.ready, self.asked = self.ready + self.asked, 0

    def withdraw(self) -> None:
        """It is not: nothing of it was used."""
        self.level, self.asked = self.level + self.asked, 0

    def put_back(self, now: float) -> float:
        """What is unused goes onto the books again, which are to be made durable."""
        self._refill(now)
        self.level, self.ready = max(0.0, self.level + self.ready), 0
        return self.level

    def full(self, now: float) -> bool:
        """Whether it need not be remembered."""
        self._refill(now)
        return not self.asked and self.level + self.ready >= self.rate.burst - _ROUNDING

    def full_after(self) -> float:
        """Seconds after which what is on the books is full."""
        return (self.rate.burst - self.level) * self.rate.period / self.rate.amount

    def _refill(self, now: float) -> None:
        room = self.rate.burst - self.ready - self.asked
        come = max(0.0, now - self.at) * self.rate.amount / self.rate.period
        self.level, self.at = max(0.0, min(self.level + come, float(room))), now


def full_allowance(rate: Rate, now: float) -> Allowance:
    return Allowance(rate, float(rate.burst), now)


def recalled(text: str, age: float, rate: Rate, now: float) -> Allowance:
    """From what was kept `age` seconds ago: a clock that was set back has added nothing. Raises ValueError where it is
    nothing that we wrote."""
    level = float(text)
    if not 0 <= level < float("inf"):
        raise ValueError("no level")
    come = max(0.0, age) * rate.amount / rate.period
    return Allowance(rate, min(level + come, float(rate.burst)), now)
