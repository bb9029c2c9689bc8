"""How the destinations of an agenda stand, as `status` shows it."""

from dataclasses import dataclass

from mta.policy.agenda import Agenda
from mta.policy.places import Destination
from mta.policy.rates import Rate


@dataclass(frozen=True, slots=True)
class DestinationStanding:
    """What `status` shows of a destination; `rests_for` in seconds, 0 when it does not rest (urgent mail rests for a second
    at most). It shares with others as `group`, "" where it stands alone: `allowed` sessions now of at most `cap`, which was
    `learned` from what a server said, or is `configured`, else the default; `rate` of messages, the next in `next_in`
    seconds where it has to wait for it."""

    sessions: int
    rests_for: float
    last_reply: str
    group: str = ""
    allowed: int = 0
    cap: int = 0
    learned: str = ""
    configured: bool = False
    rate: Rate | None = None
    next_in: float | None = None

    @property
    def limited(self) -> bool:
        return bool(self.learned) or self.next_in is not None


def standings(agenda: Agenda, now: float) -> dict[str, DestinationStanding]:
    """Those with sessions, in a rest, or held back by what was learned or by a rate."""
    found = {name: _standing(agenda, name, it, now) for name, it in agenda.destinations.items()}
    return {name: it for name, it in found.items() if it.sessions or it.rests_for or it.limited}


def _standing(agenda: Agenda, name: str, it: Destination, now: float) -> DestinationStanding:
    cap, group = agenda.cap(name), it.group
    return DestinationStanding(
        sessions=sum(it.running),
        rests_for=max(0.0, it.standing.rests_until - now),
        last_reply=it.last_reply,
        group=group.name if group.name != name else "",
        allowed=min(it.site.window.allowed, cap.sessions),
        cap=cap.sessions,
        learned=cap.learned,
        configured=cap.configured,
        rate=group.limits.rate,
        next_in=agenda.next_message_in(name, now),
    )
