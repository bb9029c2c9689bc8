"""With whom a destination shares its limits, and which these are: the configuration, what was learned of servers, and where
name service leads.

Rules: the first table that matches holds (`policy.destinations`); it is looked for once, as a configuration answers the same
for as long as it holds. A cap is the least of what is configured and what was learned. Where domains share by their mail
servers, a domain stands for itself until it has been routed once; how many are remembered is bounded, the longest unused is
forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from mta.policy.ceilings import Ceilings
from mta.policy.concurrency import Bounds
from mta.policy.destinations import Destinations, Limits
from mta.ports.scheduling import Crowded
from mta.ports.smtp import Share

ROUTED_LIMIT = 10_000
NAMES_LIMIT = 1000
"""Characters of the servers' names that a group is called by."""
SESSIONS = 20
"""At one destination, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The most sessions, and why: `learned` from what the servers said, else `configured` for these, or for every one."""

    sessions: int
    learned: str = ""
    configured: bool = False


class Shares:
    """One for all parts of a daemon."""

    def __init__(self, destinations: Destinations | None = None, sessions: int = SESSIONS) -> None:
        self._servers: OrderedDict[str, str] = OrderedDict()
        self.ceilings = Ceilings()
        self.reconfigure(destinations or Destinations(), sessions)

    def reconfigure(self, destinations: Destinations, sessions: int) -> None:
        self._destinations, self._sessions = destinations, sessions
        self._group = lru_cache(ROUTED_LIMIT)(destinations.group)
        self._limits = lru_cache(ROUTED_LIMIT)(destinations.limits)

    def name(self, destination: str, *, directly: bool = False) -> str:
        """What all that share limits with `destination` are known by; `destination` may be the name of a relay. `directly`:
        at its own servers, though a relay may come before them in its route."""
        return self._group(destination, self._servers.get(destination, ""), directly=directly)

    def limits(self, destination: str) -> Limits:
        return self._limits(destination)

    def routed(self, destination: str, servers: Iterable[str]) -> None:
        """The hosts of the best preference that mail for `destination` goes to."""
        if not self._destinations.by_servers(destination):
            return
        self._servers[destination] = _name_of(servers)
        self._servers.move_to_end(destination)
        while len(self._servers) > ROUTED_LIMIT:
            self._servers.popitem(last=False)

    def cap(self, name: str, limits: Limits) -> Cap:
        """Of the sessions of all that share `limits` as `name`."""
        most, ceiling = self.most(name, limits), self.ceilings.of(name)
        if ceiling is not None and ceiling.sessions == most:
            return Cap(most, learned=ceiling.reply or "the server had too many")
        return Cap(most, configured=limits.sessions is not None)

    def most(self, name: str, limits: Limits) -> int:
        """The sessions of `cap`."""
        own, ceiling = limits.sessions, self.ceilings.of(name)
        most = self._sessions if own is None else own
        return most if ceiling is None else min(most, ceiling.sessions)

    def bounds(self, name: str, limits: Limits) -> Bounds:
        """Between which the sessions of a site are found."""
        return Bounds(limits.first, self.most(name, limits), self.ceilings.of(name) is not None)

    def share(self, hop: str) -> Share:
        """What the pool of sessions is to keep to. At the servers of a domain these are the domain's own limits, though a
        relay may come before them in its route."""
        name, limits = self.name(hop, directly=True), self._limits(hop, directly=True)
        return Share(name, self.most(name, limits), limits.messages)

    def crowded(self, it: Crowded) -> None:
        """Which may teach how many sessions those bear that share with the hop; where these are no one site, it is nobody
        else's limit."""
        if self._limits(it.hop, directly=True).one_site:
            self.ceilings.refused(self.name(it.hop, directly=True), it.others, it.reply)


def _name_of(servers: Iterable[str]) -> str:
    """Bounded, however many servers a domain names."""
    names = ",".join(sorted(set(servers)))
    return names if len(names) <= NAMES_LIMIT else f"sha256:{sha256(names.encode()).hexdigest()}"
