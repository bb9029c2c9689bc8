"""Whether a server refused us because of our own other sessions, as one attempt has found it.

Rules: with no other connection open there is no crowd, whatever is said (`policy.crowding` reads it).
"""

from dataclasses import dataclass

from mta.model.outcome import Verdict
from mta.policy.crowding import crowded

WAIT = 10.0
"""Seconds after which mail that found a crowd is tried again at the latest; the sessions before it end sooner or later."""


@dataclass(slots=True)
class Crowd:
    """`sessions`: how many connections were open, with the refused one, 0 where none was; `refusal`: what was said."""

    sessions: int = 0
    refusal: str = ""

    def look(self, verdict: Verdict, sessions: int, *, fresh: bool = True) -> None:
        """`fresh`: the session had carried nothing before."""
        if sessions > 1 and crowded(verdict, fresh=fresh):
            self.sessions, self.refusal = sessions, str(verdict.reply)

    def met(self, verdict: Verdict) -> bool:
        """Whether `verdict` is such a refusal."""
        return bool(self.sessions) and crowded(verdict)
