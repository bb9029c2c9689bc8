"""A scenario: who submits what, which remote servers there are, what goes wrong and when. Data alone, as JSON too.

Rules: a run is a function of its scenario; a scenario is a function of its seed, until it is shrunk. Instants are
seconds from the start. Nothing goes wrong after `heals_at`, but for the domains that are never well (`until` None).
"""

from typing import TypeAlias

import msgspec

DAY = 86400.0
EPOCH = 1_800_000_000.0
"""Wall time at the beginning."""


class HostPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server of a domain, as its MX record and its EHLO show it."""

    name: str
    address: str
    preference: int
    extensions: tuple[str, ...]
    tls: str


class DomainPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`character` holds from `since` to `until` (None: for ever), before and after it is an honest one. In the same time TLS
    is as its hosts have it where the configuration demands it (`tls`) or DANE does (`dane`), else good; and the DANE
    records are those of another key where `dane` is "rolled"."""

    name: str
    hosts: tuple[HostPlan, ...]
    character: str = "honest"
    since: float = 0.0
    until: float | None = 0.0
    latency: float = 0.02
    tls: str = ""
    dane: str = ""
    max_sessions: int = 0
    """0: as everywhere."""
    rate: str = ""
    burst: int = 0

    @property
    def needs_tls(self) -> bool:
        return bool(self.tls or self.dane)


class Email(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One logical email. `recipients` are (number, domain). `manner` is how its program submits, `tries` how often at most
    while it does not know what became of it."""

    number: int
    at: float
    sender: str
    recipients: tuple[tuple[int, str], ...]
    key: str = ""
    manner: str = "plain"
    size: int = 200
    mail_class: str = ""
    in_doubt: str = ""
    tries: int = 1
    by: str = ""
    """How its deadline is asked for: "header", "R", "N", "" for none; `deliver_by` seconds after MAIL."""
    deliver_by: int = 0
    hold: str = ""
    """How its release is asked for: "header", "for", "" for at once; `release` seconds after MAIL."""
    release: int = 0
    priority: int | None = None
    notify: str = ""
    """NOTIFY's value, for each recipient; "" for none."""
    chunks: bool = False
    """The content comes by BDAT."""


class Outage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="outage"):
    """No connection to a host: refused, unreachable, or dark (nothing comes back)."""

    at: float
    until: float | None
    host: str
    kind: str


class Noise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="noise"):
    """That share of all connections breaks at some octet; `local`: those of the submitting programs, else the others."""

    at: float
    until: float
    share: float
    local: bool


class DnsTrouble(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="dns"):
    """`domain` "" is all of them."""

    at: float
    until: float | None
    domain: str
    kind: str


class DiskTrouble(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="disk"):
    at: float
    until: float
    kind: str


class Crash(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="crash"):
    """The `count`-th event of a `kind` (step, statement, commit, send) after `at` is the last; up again after `down`
    seconds. `silently`: a power cut, of which the peers learn nothing until it is up."""

    at: float
    kind: str
    count: int
    down: float
    silently: bool


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="restart"):
    """Stopped in order, and started again after `down` seconds."""

    at: float
    down: float


class ClockStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="clock"):
    at: float
    by: float


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="order"):
    """A person's command; `{id}` stands for the queue id of `email`."""

    at: float
    words: str
    email: int = 0


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one domain. 0 and "": as everywhere; `tls` "": as its plan has it."""

    max_sessions: int = 0
    rate: str = ""
    burst: int = 0
    tls: str = ""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of the daemon."""

    in_doubt: str = "retry"
    max_sessions: int = 20
    max_sessions_per_destination: int = 5
    max_connections: int = 100
    urgent_reserve: float = 0.2
    bulk_share: float = 0.1
    fair_by: str = "destination"
    stop_timeout: float = 15.0
    in_doubt_delay: float = 600.0
    relayed: bool = True
    """Whether mail for the scenario's `by_relay` goes to the relay."""
    limits: dict[str, Limits] = {}
    """By domain, where they are not those of its plan."""

    def of(self, domain: DomainPlan) -> Limits:
        if (limits := self.limits.get(domain.name)) is None:
            return Limits(domain.max_sessions, domain.rate, domain.burst, domain.tls)
        return msgspec.structs.replace(limits, tls=limits.tls or domain.tls)

    def cap(self, domain: DomainPlan | None) -> int:
        """How many sessions it may have."""
        return (domain and self.of(domain).max_sessions) or self.max_sessions_per_destination


class Reload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="reload"):
    """The configuration is another one from now on, for each later start too; a daemon that runs is told (SIGHUP).
    `fair_by` is as it was: that takes a restart."""

    at: float
    settings: Settings


Fault: TypeAlias = Outage | Noise | DnsTrouble | DiskTrouble | Crash | Restart | ClockStep | Order | Reload


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seed: int
    days: float
    heals_at: float
    settings: Settings
    domains: tuple[DomainPlan, ...]
    emails: tuple[Email, ...]
    faults: tuple[Fault, ...]
    relay: DomainPlan | None = None
    """A server that takes mail for everybody; that for `by_relay` is to go there, else straight to its servers."""
    by_relay: tuple[str, ...] = ()

    def domain(self, name: str) -> DomainPlan | None:
        known = (*self.domains, *([self.relay] if self.relay else ()))
        return next((it for it in known if it.name == name), None)


def encode(scenario: Scenario) -> bytes:
    return msgspec.json.format(msgspec.json.encode(scenario), indent=1)


def decode(octets: bytes) -> Scenario:
    """Raises `msgspec.ValidationError`."""
    return msgspec.json.decode(octets, type=Scenario)


def size(scenario: Scenario) -> str:
    troubled = sum(it.character != "honest" for it in scenario.domains)
    return f"{len(scenario.emails)} emails, {len(scenario.faults)} faults, {troubled} troubled domains"

