"""From what DNS says to the addresses to try (Table B; RFC 5321 sections 5.1 and 5.2, RFC 7505, RFC 3974).

Three steps, pure: `plan_directly` (what needs no MX lookup), `plan_exchangers` (what the MX answer means) and
`plan_candidates` (what the hosts' addresses mean). Each ends the destination with a `Verdict` or hands on.

Rules:
- Only a clean answer is permanent. Whatever may be otherwise later (SERVFAIL, a timeout, no route, hosts not looked up)
  is transient and outweighs every permanent finding beside it.
- The domain's own addresses are used only when the MX answer was a genuine empty list, never when it failed.
- Mail never comes back to us: our own name or listener ends the list at its preference (RFC 5321 section 5.1).
- Equal preferences are shuffled for each attempt; the order of the answer means nothing.
- At most `HOST_LIMIT` hosts are resolved and `RoutingRules.max_addresses` addresses tried; every host gets its first
  address into the list before one gets its second, and a host's families alternate, so that one dead host or family
  does not use up the attempt.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from mta.model.address import AddressError, check_domain, parse_literal
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.model.tls import TlsDemand
from mta.policy.destinations import Relay
from mta.policy.networks import Standing, plain, standing
from mta.ports import AddressAnswer, Lookup, MailExchanger, MxAnswer, Randomness, Reach

HOST_LIMIT = 10
"""How many mail exchangers are resolved for one attempt: an answer with hundreds is no reason to ask hundreds of times."""

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\Z")
_NUMBER = re.compile(r"(?:.*\.)?[0-9]+\Z")
"""No top-level domain is a number: such a host is an IP address that went into an MX record by mistake."""


@dataclass(frozen=True, slots=True)
class RoutingRules:
    """`own_names` are the names of this machine as a mail host, in lower case; `own_endpoints` where we listen, as
    (address, port), 0.0.0.0 and :: meaning every address of this machine. `port` is the one mail goes to;
    `max_addresses` (at least 2) how many addresses one attempt tries."""

    own_names: frozenset[str]
    own_endpoints: frozenset[tuple[str, int]]
    port: int = 25
    allow_private_addresses: bool = False
    max_addresses: int = 10


@dataclass(frozen=True, slots=True)
class Route:
    """The hosts for a domain, in the order to be tried. `answers` holds what needs no lookup (an address literal's).
    `skipped` says in words what was left out and why; `looped_at` is our own name where the list has it; `not_asked` is
    how many hosts there are beyond `HOST_LIMIT`. `secure`: DNSSEC vouches for them."""

    domain: str
    exchangers: tuple[MailExchanger, ...]
    answers: Mapping[str, AddressAnswer] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    looped_at: str = ""
    not_asked: int = 0
    secure: bool = False

    @property
    def lookups(self) -> tuple[str, ...]:
        """The hosts whose addresses are to be looked up."""
        return tuple(exchanger.host for exchanger in self.exchangers if exchanger.host not in self.answers)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An address to connect to. `host` is the exchanger's or relay's name, or the address literal. DNSSEC vouches for the
    name if `secure_name`, for the address too if `secure`; `canonical` is where the aliases of the name end, "" without any.
    `source` is where to connect from, "" wherever; `hop` names what mail a session there may carry, "" that of the
    destination alone; `demand` is what is asked of its encryption where the route decides that."""

    host: str
    address: str
    preference: int
    secure_name: bool = False
    secure: bool = False
    canonical: str = ""
    port: int = 25
    relay: Relay | None = None
    source: str = ""
    hop: str = ""
    demand: TlsDemand | None = None

    @property
    def endpoint(self) -> tuple[str, int]:
        return self.address, self.port


# ---------------------------------------------------------------- what needs no MX lookup
def plan_directly(domain: str) -> Route | Verdict | None:
    """An address literal (RFC 5321 section 4.1.3) leads straight to its address; what is no mail domain leads nowhere.
    None: ask for the MX records."""
    if not domain.isascii():
        return None  # the resolver knows the A-label, or that there is none
    try:
        if domain.startswith("["):
            return _literal(domain)
        check_domain(domain)
    except AddressError as error:
        return _permanent("5.1.3", f"{domain}: {error}")
    if "." not in domain:
        return _permanent("5.1.2", f"{domain} is not a full domain name")
    return None


def _literal(domain: str) -> Route:
    answer = AddressAnswer(Lookup.FOUND, (str(parse_literal(domain)),))
    return Route(domain, (MailExchanger(0, domain),), {domain: answer})


# ---------------------------------------------------------------- what the MX answer means
def plan_exchangers(domain: str, answer: MxAnswer, rules: RoutingRules, chance: Randomness) -> Route | Verdict:
    """The hosts to look up, by preference; equal ones in an order that `chance` decides."""
    route = _plan_exchangers(domain, answer, rules, chance)
    return replace(route, secure=answer.secure) if isinstance(route, Route) else route


def best_exchangers(answer: MxAnswer) -> list[str]:
    """All hosts of the best preference, however many of them are tried: what tells servers from others does not change by
    chance, or with a name server's trouble."""
    best = min((it.preference for it in answer.exchangers), default=0)
    return sorted({it.host.lower() for it in answer.exchangers if it.preference == best})


def _plan_exchangers(domain: str, answer: MxAnswer, rules: RoutingRules, chance: Randomness) -> Route | Verdict:
    match answer.lookup:
        case Lookup.NXDOMAIN:
            return _permanent("5.1.2", f"{domain}: no such domain")
        case Lookup.MALFORMED:
            return _permanent("5.1.3", f"{domain} is no domain name: {answer.detail}")
        case Lookup.TROUBLE:
            return _transient("4.4.3", f"{domain}: MX lookup failed: {answer.detail}")
        case Lookup.NODATA:
            return _narrow(domain, (MailExchanger(0, domain.lower()),), (), rules)
    named = [exchanger for exchanger in answer.exchangers if exchanger.host]
    if not named:
        return _permanent("5.1.10", f"{domain} takes no mail (null MX)")
    ordered = sorted(named, key=lambda exchanger: (exchanger.preference, chance.random()))
    skipped = [f"{exchanger.host} is no host name" for exchanger in ordered if not _is_host(exchanger.host)]
    if len(named) < len(answer.exchangers):
        skipped.append("a null MX beside others")
    return _narrow(domain, _distinct(ordered), tuple(skipped), rules)


def _narrow(
    domain: str, exchangers: Sequence[MailExchanger], skipped: tuple[str, ...], rules: RoutingRules
) -> Route | Verdict:
    """Cut where our own name is, and at the limit."""
    own = next((exchanger for exchanger in exchangers if _is_own_name(exchanger.host, rules)), None)
    before = [exchanger for exchanger in exchangers if own is None or exchanger.preference < own.preference]
    route = Route(
        domain,
        tuple(before[:HOST_LIMIT]),
        skipped=skipped,
        looped_at=own.host if own else "",
        not_asked=len(before[HOST_LIMIT:]),
    )
    return route if before else _dead_end(route)


def _distinct(ordered: Sequence[MailExchanger]) -> tuple[MailExchanger, ...]:
    """Real hosts in lower case, each once, with its best preference."""
    best: dict[str, MailExchanger] = {}
    for exchanger in ordered:
        host = exchanger.host.lower()
        if _is_host(host):
            best.setdefault(host, MailExchanger(exchanger.preference, host))
    return tuple(best.values())


def _is_host(text: str) -> bool:
    """Underscores pass: such hosts exist, are resolvable, and take mail (RFC 2181 section 11)."""
    return bool(_HOST.match(text)) and not _NUMBER.match(text)


def _is_own_name(host: str, rules: RoutingRules) -> bool:
    """`localhost` is this machine whoever says it (RFC 6761 section 6.3)."""
    return host in rules.own_names or host == "localhost" or host.endswith(".localhost")


# ---------------------------------------------------------------- what the addresses mean
@dataclass(frozen=True, slots=True)
class _Host:
    """What became of one exchanger."""

    exchanger: MailExchanger
    addresses: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    own: bool = False
    trouble: str = ""
    unroutable: bool = False


def plan_candidates(
    route: Route, answers: Mapping[str, AddressAnswer], rules: RoutingRules, reach: Reach
) -> tuple[Candidate, ...] | Verdict:
    """The addresses to try, in order, never none; `answers` holds one for each of `route.lookups`, `reach` what the
    machine says of their addresses."""
    known = {**route.answers, **answers}
    hosts = [_judge(exchanger, known[exchanger.host], rules, reach) for exchanger in route.exchangers]
    own = min((host.exchanger.preference for host in hosts if host.own), default=None)
    before = [host for host in hosts if own is None or host.exchanger.preference < own]
    chosen = _choose(before, rules)
    if chosen:
        return tuple(_vouched(candidate, route, known[candidate.host]) for candidate in chosen)
    looped_at = next((host.exchanger.host for host in hosts if host.own), route.looped_at)
    return _dead_end(route, before, looped_at, not_asked=route.not_asked if own is None else 0)


def _vouched(candidate: Candidate, route: Route, answer: AddressAnswer) -> Candidate:
    """With what DNSSEC says of it."""
    secure = route.secure and answer.secure
    return replace(candidate, secure_name=route.secure, secure=secure, canonical=answer.canonical)


def _judge(exchanger: MailExchanger, answer: AddressAnswer, rules: RoutingRules, reach: Reach) -> _Host:
    if answer.lookup is Lookup.TROUBLE:
        return _Host(exchanger, trouble=f"{exchanger.host}: address lookup failed: {answer.detail}")
    if not answer.addresses:
        return _Host(exchanger, skipped=(f"{exchanger.host} has no address",))
    if any(_is_own_address(address, rules, reach) for address in answer.addresses):
        return _Host(exchanger, own=True)
    refusals = {address: _refusal(address, rules) for address in answer.addresses}
    allowed = [address for address, refusal in refusals.items() if not refusal]
    return _Host(
        exchanger,
        addresses=tuple(_alternate([address for address in allowed if address not in reach.unroutable])),
        skipped=tuple(f"{exchanger.host}: {refusal}" for refusal in refusals.values() if refusal),
        unroutable=any(address in reach.unroutable for address in allowed),
    )


def _is_own_address(address: str, rules: RoutingRules, reach: Reach) -> bool:
    target = plain(address)
    listens = (str(target), rules.port) in rules.own_endpoints
    return listens or (address in reach.own and _listens_everywhere(target.version, rules))


def _listens_everywhere(version: int, rules: RoutingRules) -> bool:
    """At 0.0.0.0 for IPv4, at :: for both: a socket there may take IPv4 too."""
    places = [plain(address) for address, port in rules.own_endpoints if port == rules.port]
    return any(place.is_unspecified and place.version >= version for place in places)


def _refusal(address: str, rules: RoutingRules) -> str:
    where = standing(plain(address))
    if where is Standing.PUBLIC or (where is Standing.PRIVATE and rules.allow_private_addresses):
        return ""
    return f"{address} is {'a private' if where is Standing.PRIVATE else 'no usable'} address"


def _alternate(addresses: Sequence[str]) -> Iterator[str]:
    """The order kept inside each family, the families by turns, beginning with that of the first."""
    families: dict[int, list[str]] = {}
    for address in addresses:
        families.setdefault(plain(address).version, []).append(address)
    return (address for turn in zip_longest(*families.values()) for address in turn if address)


def _choose(hosts: Sequence[_Host], rules: RoutingRules) -> tuple[Candidate, ...]:
    """At most `max_addresses`, each once: every host's first, then every host's second, and so on; tried in the order
    of the hosts."""
    seen: set[str] = set()
    entries: list[tuple[int, int, Candidate]] = []
    for place, host in enumerate(hosts):
        fresh = [address for address in dict.fromkeys(map(_text, host.addresses)) if address not in seen]
        seen.update(fresh)
        for rank, address in enumerate(fresh):
            candidate = Candidate(host.exchanger.host, address, host.exchanger.preference, port=rules.port)
            entries.append((rank, place, candidate))
    taken = sorted(entries, key=lambda entry: entry[:2])[: rules.max_addresses]
    return tuple(candidate for _, _, candidate in sorted(taken, key=lambda entry: (entry[1], entry[0])))


def _text(address: str) -> str:
    return str(plain(address))


# ---------------------------------------------------------------- verdicts
def _dead_end(route: Route, hosts: Sequence[_Host] = (), looped_at: str = "", not_asked: int = 0) -> Verdict:
    """Nothing to try. What may be better later comes first, then our own loop, then the plain lack."""
    domain, looped_at = route.domain, looped_at or route.looped_at
    troubles = [host.trouble for host in hosts if host.trouble]
    if troubles:
        return _transient("4.4.3", f"{domain}: {'; '.join(troubles)}")
    if any(host.unroutable for host in hosts):
        return _transient("4.4.1", f"{domain}: no route to any of its mail servers' addresses")
    if not_asked:
        return _transient("4.4.4", f"{domain}: none of its first {HOST_LIMIT} mail servers is usable, {not_asked} not asked")
    if looped_at:
        return _permanent("5.4.6", f"{domain}: its mail leads back to this server ({looped_at})")
    reasons = (*route.skipped, *(reason for host in hosts for reason in host.skipped))
    return _permanent("5.4.4", f"{domain} has no usable mail server: {'; '.join(reasons)}")


def _transient(status: str, text: str) -> Verdict:
    return Verdict(Disposition.TRANSIENT, Scope.DESTINATION, status, finding(status, text), Phase.ROUTE)


def _permanent(status: str, text: str) -> Verdict:
    return Verdict(Disposition.PERMANENT, Scope.TRANSACTION, status, finding(status, text), Phase.ROUTE)
