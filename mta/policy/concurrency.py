"""How many sessions a destination gets, and when it rests (RFC 5321 section 4.5.4.1: bounded, unreachability remembered).

Rules: a destination that nothing is known of begins with a few sessions; one that is well has all it may have; one that
is in trouble rests, longer with each failure in a row, and is then probed by one session; what succeeds doubles what is
allowed. Several sessions that fail in one rest count as one failure. Urgent mail rests for a second only, by one session
at a time: a code is not to wait for what befell a newsletter. Instants are of a monotonic clock, in seconds.
"""

from dataclasses import dataclass, replace

from mta.model.envelope import MailClass
from mta.policy.schedule import URGENT_REST

FIRST_SESSIONS = 5
"""What a destination begins with (Postfix's initial_destination_concurrency)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a destination stands: `allowed` sessions at once, `failures` in a row, resting until an instant, for urgent mail
    until another."""

    allowed: int
    failures: int = 0
    rests_until: float = 0.0
    urgent_until: float = 0.0

    def rests(self, now: float, mail_class: MailClass = MailClass.NORMAL) -> bool:
        return now < (self.urgent_until if mail_class is MailClass.URGENT else self.rests_until)


def fresh(cap: int) -> Standing:
    return Standing(allowed=min(FIRST_SESSIONS, cap))


def after_progress(standing: Standing, cap: int) -> Standing:
    """A session got through to the destination, whatever it said of the recipients."""
    if not standing.failures and standing.allowed >= cap:
        return standing
    return Standing(allowed=max(1, min(standing.allowed * 2, cap)))


def after_trouble(standing: Standing, now: float, rest: float) -> Standing:
    """The destination as a whole could not be used; `rest` is the wait that is due for this failure."""
    urgent_until = now + min(rest, URGENT_REST)
    if standing.rests(now):
        return replace(standing, allowed=1, urgent_until=urgent_until)
    return Standing(1, standing.failures + 1, now + rest, urgent_until)


def probed(standing: Standing) -> Standing:
    """A person ends the rest: one session tries."""
    return Standing(allowed=1, failures=standing.failures)
