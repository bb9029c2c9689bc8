"""Time, chance, passwords and keys, the routing table, and who is told."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mta.model.events import Fact


class Clock(Protocol):
    """Wall time. Waits use the event loop, whose clock is monotonic."""

    def now(self) -> float:
        """Seconds since the epoch, UTC; may step."""
        ...


class Randomness(Protocol):
    """What is used of `random.Random`."""

    def random(self) -> float: ...
    def uniform(self, a: float, b: float) -> float: ...
    def getrandbits(self, k: int) -> int: ...
    def shuffle(self, x: list[object]) -> None: ...


class Passwords(Protocol):
    """Says whether a password is right; it takes its time, and nobody else's."""

    async def fits(self, password: str, hashed: str) -> bool | None:
        """Whether `hashed` was made of `password`; None: too many ask at once. May raise where it can't be found out."""
        ...


class Entropy(Protocol):
    """One independent stream per purpose, so that a new use of chance does not disturb the others."""

    def stream(self, purpose: str) -> Randomness: ...


Observer = Callable[[Fact], None]
"""Is told every fact; must not raise or block."""


class Signer(Protocol):
    """A key for DKIM. `name` is "domain/selector", `algorithm` as in `a=`."""

    @property
    def name(self) -> str: ...
    @property
    def algorithm(self) -> str: ...
    def sign(self, data: bytes, /) -> bytes:
        """The same signature for the same octets. What it raises is its library's."""
        ...


# ---------------------------------------------------------------- this machine in the network
@dataclass(frozen=True, slots=True)
class Reach:
    """What this machine's routing table says of some addresses: `own` are its own (whoever listens at 0.0.0.0 or ::
    listens there), `unroutable` those that it has no way to."""

    own: frozenset[str] = frozenset()
    unroutable: frozenset[str] = frozenset()


Reachability = Callable[[Iterable[str]], Reach]
"""Looks at the moment's routing table; sends nothing."""


# ---------------------------------------------------------------- a person is called, beside mail
@dataclass(frozen=True, slots=True)
class Called:
    """Whether an alert was taken, and what there is to say of it: the answer, the beginning of a program's output."""

    taken: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Callers:
    """Both take a whole JSON document, are limited in time, and never raise for what is at the other end."""

    run: Callable[[Sequence[str], bytes], Awaitable[Called]]
    """Runs a program (words, for no shell) with the document on its standard input; taken: it exited with 0."""
    post: Callable[[str, bytes], Awaitable[Called]]
    """POSTs the document to a URL; taken: the answer was 2xx."""
