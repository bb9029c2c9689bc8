"""How each destination is to be treated: what the configuration's `[[destination]]` and `[[route]]` tables come to.

Rules: of the tables of a kind the first that matches holds, whole; what it does not say has its default.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from mta.model.tls import TlsLevel
from mta.policy.rates import Rate


@dataclass(frozen=True, slots=True)
class Relay:
    """A server that takes our mail on, whoever it is for. `user` "" where nobody logs in there; `implicit_tls`: TLS begins
    with the first octet, else by STARTTLS. `host` is a name or an IP address."""

    host: str
    port: int
    user: str = ""
    implicit_tls: bool = False
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        """As the configuration has it, without the user; also the name of what all that goes there shares."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"smtp{'s' if self.implicit_tls else ''}://{host}:{self.port}"

    @property
    def login(self) -> str:
        """Who we are there, and where: what a session may carry the mail of."""
        return f"{self.user}@{self}" if self.user else str(self)


@dataclass(frozen=True, slots=True)
class DestinationRule:
    """A `[[destination]]` table. None: not said. `shared`: all that matches has these limits together; `by_servers`: what
    has the same mail servers has; else each for itself."""

    patterns: tuple[str, ...]
    max_sessions: int | None = None
    messages_per_session: int | None = None
    rate: Rate | None = None
    tls: TlsLevel = TlsLevel.MAY
    shared: bool = False
    by_servers: bool = False


@dataclass(frozen=True, slots=True)
class RouteRule:
    """A `[[route]]` table: the `vias` to be tried in their order, None being the destination's own servers by MX; `source`
    the addresses to send from, at most one of each family."""

    patterns: tuple[str, ...]
    vias: tuple[Relay | None, ...] = (None,)
    source: tuple[str, ...] = ()

    @property
    def relayed(self) -> bool:
        """Whether one of them is a relay."""
        return any(self.vias)

    def hop(self, via: Relay | None, level: TlsLevel) -> str:
        """The name of the mail that a session opened for this route at `via` may carry; "" that of one destination. What
        was asked of its encryption is the same for all of it: a login asks for the most."""
        if via is None:
            return ""
        asked = "" if via.user else f" tls {level}"
        return f"{via.login}{asked} from {','.join(self.source)}"


class Limits(Struct, frozen=True):
    """Of all that share them: `sessions` at once, `messages` of each session, messages in a time; None: not said.
    `one_site`: they go to the same servers, so that what befalls one befalls all."""

    sessions: int | None = None
    messages: int | None = None
    rate: Rate | None = None
    one_site: bool = True


_DIRECTLY = RouteRule(())
_PLAINLY = DestinationRule(())


@dataclass(frozen=True, slots=True)
class Destinations:
    """All tables, in the order of the configuration."""

    rules: tuple[DestinationRule, ...] = ()
    routes: tuple[RouteRule, ...] = ()
    _rule_of: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _route_of: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """By pattern, the first table that has it: each message asks several times, of however many tables."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rule_of", _first_of(it.patterns for it in self.rules))
        object.__setattr__(self, "_route_of", _first_of(it.patterns for it in self.routes))

    def rule(self, destination: str) -> DestinationRule:
        place = _place(self._rule_of, destination)
        return _PLAINLY if place is None else self.rules[place]

    def route(self, destination: str) -> RouteRule:
        place = _place(self._route_of, destination)
        return _DIRECTLY if place is None else self.routes[place]

    # ------------------------------------------------ shared limits
    def group(self, destination: str, servers: str = "", *, directly: bool = False) -> str:
        """The name of all that share their limits with `destination`, or with a relay (`str(Relay)`, or a hop there):
        whatever goes by the same relay first, what a table with `share` matches, else it alone. `servers` are its mail
        servers, where they are known. `directly`: at its own servers, whatever its route begins with."""
        if relay := self._relay(destination, directly=directly):
            return str(relay)
        rule = self.rule(destination)
        if rule.shared:
            return f"*shared:{','.join(rule.patterns)}"
        return f"*mx:{','.join(rule.patterns)}:{servers}" if rule.by_servers and servers else destination

    def limits(self, destination: str, *, directly: bool = False) -> Limits:
        """Those of its group. What goes by a relay has those of the table that matches the relay's host."""
        relay = self._relay(destination, directly=directly)
        rule = self.rule(relay.host.lower() if relay else destination)
        one_site = relay is not None or not rule.shared
        return Limits(rule.max_sessions, rule.messages_per_session, rule.rate, one_site)

    def by_servers(self, destination: str) -> bool:
        return self.rule(destination).by_servers and self._relay(destination) is None

    def _relay(self, destination: str, *, directly: bool = False) -> Relay | None:
        if "://" not in destination:
            return None if directly else self.route(destination).vias[0]
        vias = (via for route in self.routes for via in route.vias if via is not None)
        return next((via for via in vias if destination == str(via) or destination.startswith(f"{via.login} ")), None)


def matches(patterns: Sequence[str], destination: str) -> bool:
    """Whether one of them is `destination` (a domain in lower case, or a literal), `*`, or `*.` and a domain that it lies
    below."""
    return _place(_first_of([patterns]), destination) is not None


def _first_of(tables: Iterable[Sequence[str]]) -> dict[str, int]:
    """By pattern, the place of the first of `tables` that has it."""
    places: dict[str, int] = {}
    for place, patterns in enumerate(tables):
        for pattern in patterns:
            places.setdefault(pattern, place)
    return places


def _place(places: Mapping[str, int], destination: str) -> int | None:
    """Of the first table that `matches`."""
    if not places:
        return None
    found = [places[it] for it in ("*", destination) if it in places]
    parent = destination
    while dot := parent.find(".") + 1:
        parent = parent[dot:]
        if (place := places.get(f"*.{parent}")) is not None:
            found.append(place)
    return min(found, default=None)
