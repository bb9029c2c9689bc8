"""What the agenda knows of each destination, of those that share limits, and of a turn that runs.

Rules: a rest is a destination's own; how many sessions there may be is found for the servers (`Site`), and capped for all
that share (`Group`). Instants are of a monotonic clock, in seconds.
"""

from collections import OrderedDict

from msgspec import Struct, field

from mta.model.envelope import MailClass
from mta.policy.allowance import Allowance
from mta.policy.concurrency import WELL, Standing, Window
from mta.policy.destinations import Limits
from mta.policy.lanes import NO_TURNS, Turns

Line = OrderedDict[str, None]
"""Names, whoever waits longest first."""
Lines = tuple[Line, Line, Line]
"""By class."""


def zeros() -> list[int]:
    return [0, 0, 0]


def empty_lines() -> Lines:
    return OrderedDict(), OrderedDict(), OrderedDict()


class Site(Struct, eq=False):
    """Servers as far as they are known: what befalls one of their destinations befalls all."""

    window: Window
    running: int = 0


class Group(Struct, eq=False):
    """Destinations that share their limits. `site` is that of all of them, None where each has its own."""

    name: str
    limits: Limits
    site: Site | None = None
    members: int = 0
    running: list[int] = field(default_factory=zeros)
    lines: Lines = field(default_factory=empty_lines)
    turns: Turns = NO_TURNS
    allowance: Allowance | None = None


class Destination(Struct, eq=False):
    """`due`: turns that are believed to find something, by class; `news`: how often there was some."""

    group: Group
    site: Site
    standing: Standing = WELL
    running: list[int] = field(default_factory=zeros)
    due: list[int] = field(default_factory=zeros)
    news: list[int] = field(default_factory=zeros)
    last_reply: str = ""

    @property
    def busy(self) -> bool:
        return any(self.due) or any(self.running)

    def waits(self, mail_class: MailClass, now: float) -> bool:
        """Whether a turn may begin, as far as the destination itself is concerned. One that was down is probed."""
        if self.due[mail_class] <= 0:
            return False
        it, site = self.standing, self.site
        if it is not WELL and (it.rests(now, mail_class) or (it.failures and any(self.running))):
            return False
        return site is self.group.site or site.running < site.window.allowed


class Turn(Struct, frozen=True):
    """One that has begun. `news` is the lane's count at that moment; it counts in `group`, `site` and `allowance` to its
    end."""

    destination: str
    mail_class: MailClass
    news: int
    group: Group
    site: Site
    allowance: Allowance | None
