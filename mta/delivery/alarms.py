"""Whose distrust a person hears of: a server that does not trust us tells only us, so somebody has to be called.

Rules: one call for an operator of servers and day; which were called for is kept in memory alone, so a restart may call
once more. What is no mail of others' (a report, an alert) calls nobody: whoever would be called waits for it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from mta.model.category import Category
from mta.model.envelope import Kind, Notice
from mta.model.lifecycle import Event
from mta.spool.base import Claim, RecipientResult

INTERVAL = 86400.0
"""Seconds."""
OPERATORS = 1000
"""That are remembered; beyond it the one called for longest ago is forgotten."""


class Alarms:
    def __init__(self) -> None:
        self._called: dict[str, float] = {}

    def raised(
        self, claim: Claim, results: Sequence[RecipientResult], ways: tuple[Notice, ...], now: float
    ) -> list[RecipientResult]:
        """The results of an attempt, the first of a server that does not trust us with marks that call a person in these
        `ways`, where that is due at `now`. Who is called for a recipient anyway hears of the server so."""
        if claim.kind not in (Kind.MAIL, Kind.DSN):
            return list(results)
        return [self._raised(claim, it, ways, now) if it.category == Category.REPUTATION else it for it in results]

    def _raised(self, claim: Claim, result: RecipientResult, ways: tuple[Notice, ...], now: float) -> RecipientResult:
        is_told = result.event not in (Event.DEFERRED, Event.REFUSED) or not result.counted
        if is_told or not self.is_due(_operator(result.host) or claim.destination, now):
            return result
        return replace(result, notices=(*result.notices, *ways))

    def is_due(self, operator: str, now: float) -> bool:
        """Whether `operator` was not called for within the `INTERVAL` before `now`; then it is from now on."""
        at = self._called.get(operator)
        if at is not None and 0 <= now - at < INTERVAL:
            return False
        self._called.pop(operator, None)
        self._called[operator] = now
        if len(self._called) > OPERATORS:
            del self._called[next(iter(self._called))]
        return True


def _operator(host: str) -> str:
    """The name that a server has in common with its siblings: many domains share them."""
    _, _, rest = host.lower().partition(".")
    return rest if "." in rest else host.lower()
