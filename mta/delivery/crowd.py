"""Whether a server refused us because of our own other sessions, as one attempt has found it.

Rules: with no other connection there is no crowd, whatever is said (`policy.crowding` reads it).
"""

from collections.abc import Callable
from dataclasses import dataclass

from mta.model.outcome import Verdict
from mta.policy.crowding import crowded

WAIT = 10.0
"""Seconds after which mail that found a crowd is tried again at the latest; the sessions before it end sooner or later."""


@dataclass(slots=True)
class Crowd:
    """`others`: how many connections were open beside the refused one; `refusal`: what was said."""

    others: int = 0
    refusal: str = ""

    def look(self, verdict: Verdict, others: Callable[[], int], *, fresh: bool = True) -> None:
        """`others` are counted where it matters; `fresh`: the session had carried nothing before."""
        if crowded(verdict, fresh=fresh) and (count := others()) > 0:
            self.others, self.refusal = count, str(verdict.reply)

    def met(self, verdict: Verdict) -> bool:
        """Whether `verdict` is such a refusal."""
        return bool(self.others) and crowded(verdict)
