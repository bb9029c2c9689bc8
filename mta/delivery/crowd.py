"""Whether a server refused us because of our own other sessions, as one attempt has found it.

Rules: with no other connection there is no crowd, whatever is said (`policy.crowding` reads it).
"""

from collections.abc import Callable
from dataclasses import dataclass

from mta.model.outcome import Verdict
from mta.policy.crowding import crowded
from mta.ports.scheduling import Crowded

WAIT = 10.0
"""Seconds after which mail that found a crowd is tried again at the latest; the sessions before it end sooner or later."""


@dataclass(slots=True)
class Crowd:
    """`refusal`: the last one, None without any."""

    refusal: Crowded | None = None

    def look(self, hop: str, verdict: Verdict, others: Callable[[], int], *, fresh: bool = True) -> None:
        """`others` are counted where it matters; `fresh`: the session had carried nothing before."""
        if crowded(verdict, fresh=fresh) and (count := others()) > 0:
            self.refusal = Crowded(hop, count, str(verdict.reply))

    def met(self, verdict: Verdict) -> bool:
        """Whether `verdict` is such a refusal."""
        return self.refusal is not None and crowded(verdict)
