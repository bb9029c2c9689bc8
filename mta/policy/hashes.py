"""Hashes of passwords as text: what one costs to verify, and whether it can be verified at all.

Rules: argon2id's, in the form of its reference implementation, within the bounds of RFC 9106 section 3.1; costs are those
that a daemon can bear which verifies two at a time. What could not be verified is no hash: it would be answered unlike a
wrong password, and so tell that its name is known.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

_ANY = "[A-Za-z0-9+/]"
_BASE64 = f"(?:{_ANY}{{4}})*(?:{_ANY}[AQgw]|{_ANY}{{2}}[AEIMQUYcgkosw048])?"  # without padding, no bit of it is left over
_COSTS = r"m=([1-9][0-9]{0,8}),t=([1-9][0-9]{0,2}),p=([1-9][0-9]?)"
_HASH = re.compile(rf"\$argon2id\$v=19\${_COSTS}\$(?=[^$]{{11}}){_BASE64}\$(?=.{{6}}){_BASE64}\Z")
"""A salt of at least 8 octets and a tag of at least 4."""
_LEAST_MEMORY = 8
"""KiB for each lane."""


class Cost(NamedTuple):
    """`memory` in KiB; `lanes` are worked on at the same time, `rounds` one after the other."""

    memory: int
    rounds: int
    lanes: int

    def __str__(self) -> str:
        return f"m={self.memory},t={self.rounds},p={self.lanes}"


HIGHEST = Cost(64 * 1024, 20, 16)
"""Of what is taken; each of its numbers is a limit of its own."""


def cost(hashed: str) -> Cost | None:
    """None: it is no hash that can be verified."""
    found = _HASH.match(hashed)
    if found is None:
        return None
    it = Cost(int(found[1]), int(found[2]), int(found[3]))
    return it if it.memory >= _LEAST_MEMORY * it.lanes else None


def is_bearable(it: Cost) -> bool:
    return all(number <= limit for number, limit in zip(it, HIGHEST, strict=True))


def costliest(hashes: Iterable[str]) -> str:
    """The one that takes longest to verify. There is one at least."""
    return max(hashes, key=_work)


def _work(hashed: str) -> tuple[int, int]:
    it = cost(hashed) or Cost(0, 0, 0)
    return it.memory * it.rounds, -it.lanes
