"""How many sessions a destination gets, and when it rests (RFC 5321 section 4.5.4.1: bounded, unreachability remembered).

The law, and why. A server's limits are not announced, so they are found by trying: a few sessions to begin with, one more
when as many as there are have succeeded in a row (+1/n for each), one less with every failure, at once.
- The step up is a whole cohort's proof, so twice as many sessions need twice as much of it: the load grows in a straight
  line, and what is found is overstepped by one session, not by as many again. Up to `FIRST_SESSIONS` every success counts
  one, as everybody is given these without any proof.
- The step down is one failure's, and what was gathered for a step up is lost with it: the two thresholds lie a cohort apart,
  so chance failures don't make it swing. Where a part p of the sessions fails it settles near 1/p of them, whatever n is.
- Nothing grows that is not used: a window counts as proof only while mail waits for one more session.

That finds a server that has too much. A destination that is down is another thing: nobody gets through. It rests, longer
with each time in a row, when the failures since the last success are a cohort: each counts one part of the sessions there
at that moment, so a lonely session's failure is enough, and one of twenty is not while the others succeed. Then one session
probes it. Failures in a rest do not count again. Urgent mail rests for a second only, by one session at a time: a code is
not to wait for what befell a newsletter. Instants are of a monotonic clock, in seconds.
"""

from msgspec import Struct
from msgspec.structs import replace

from mta.model.envelope import MailClass
from mta.policy.schedule import URGENT_REST

FIRST_SESSIONS = 5
"""What a destination begins with (Postfix's initial_destination_concurrency)."""
_ROUNDING = 1e-9


# ---------------------------------------------------------------- how many
class Window(Struct, frozen=True):
    """`allowed` sessions at once; `credit` is the part of one more that was earned."""

    allowed: int
    credit: float = 0.0


def fresh(cap: int) -> Window:
    return Window(min(FIRST_SESSIONS, cap))


def wider(window: Window, cap: int, *, wanted: bool) -> Window:
    """After a session that got through. `wanted`: more mail waits than there are sessions for."""
    if window.allowed >= cap:
        return window
    if window.allowed < FIRST_SESSIONS:
        return Window(window.allowed + 1)
    if not wanted:
        return window
    credit = window.credit + 1 / window.allowed
    return Window(window.allowed + 1) if credit >= 1 - _ROUNDING else replace(window, credit=credit)


def narrower(window: Window) -> Window:
    """After one that did not."""
    return Window(max(1, window.allowed - 1))


PROBE = Window(1)
"""For a destination that was down."""


# ---------------------------------------------------------------- when none
class Standing(Struct, frozen=True):
    """How a destination stands: `failures` in a row that were a cohort's, and how much of one is gathered (`missed`);
    resting until an instant, for urgent mail until another."""

    failures: int = 0
    missed: float = 0.0
    rests_until: float = 0.0
    urgent_until: float = 0.0

    def rests(self, now: float, mail_class: MailClass = MailClass.NORMAL) -> bool:
        return now < (self.urgent_until if mail_class is MailClass.URGENT else self.rests_until)


WELL = Standing()


def after_trouble(standing: Standing, sessions: int, now: float, rest: float) -> Standing:
    """The destination as a whole could not be used, by one of `sessions`; `rest` is the wait that is due where it is for
    all of them."""
    urgent_until = now + min(rest, URGENT_REST)
    if standing.rests(now):
        return replace(standing, urgent_until=urgent_until)
    missed = standing.missed + 1 / max(sessions, 1)
    if missed < 1 - _ROUNDING:
        return replace(standing, missed=missed)
    return Standing(standing.failures + 1, 0.0, now + rest, urgent_until)


def probed(standing: Standing) -> Standing:
    """A person ends the rest: one session tries."""
    return Standing(standing.failures)
