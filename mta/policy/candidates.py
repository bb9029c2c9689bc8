"""From what DNS says of mail servers to the addresses to try (Table B; RFC 5321 sections 5.1 and 5.2, RFC 3974).

Rules, behind those of `routing`:
- Whatever may be otherwise later (a lookup that failed, no route, hosts not looked up) is transient and outweighs every
  permanent finding beside it.
- Our own listener ends the list at its preference, as our own name does.
- At most `RoutingRules.max_addresses` addresses are tried; every host gets its first address into the list before one gets
  its second, and a host's families alternate, so that one dead host or family does not use up the attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct

from mta.model.address import IpAddress
from mta.model.outcome import Verdict
from mta.model.tls import TlsDemand
from mta.policy.destinations import Relay
from mta.policy.networks import Standing, plain, standing
from mta.policy.routing import HOST_LIMIT, Route, RoutingRules, dead_end, transient
from mta.ports.names import AddressAnswer, Lookup, MailExchanger
from mta.ports.system import Reach


class Candidate(Struct, frozen=True):
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


class _Host(Struct, frozen=True):
    """What became of one exchanger."""

    exchanger: MailExchanger
    addresses: Sequence[IpAddress] = ()
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
    before = hosts if own is None else [host for host in hosts if host.exchanger.preference < own]
    if chosen := _choose(before, rules):
        return tuple([_candidate(host.exchanger, address, route, known, rules) for host, address in chosen])
    looped_at = next((host.exchanger.host for host in hosts if host.own), route.looped_at)
    return _no_way(route, before, looped_at, not_asked=route.not_asked if own is None else 0)


def _candidate(
    exchanger: MailExchanger, address: IpAddress, route: Route, answers: Mapping[str, AddressAnswer], rules: RoutingRules
) -> Candidate:
    """With what DNSSEC says of it."""
    answer = answers[exchanger.host]
    return Candidate(
        exchanger.host,
        str(address),
        exchanger.preference,
        secure_name=route.secure,
        secure=route.secure and answer.secure,
        canonical=answer.canonical,
        port=rules.port,
    )


def _judge(exchanger: MailExchanger, answer: AddressAnswer, rules: RoutingRules, reach: Reach) -> _Host:
    if answer.lookup is Lookup.TROUBLE:
        return _Host(exchanger, trouble=f"{exchanger.host}: address lookup failed: {answer.detail}")
    if not answer.addresses:
        return _Host(exchanger, skipped=(f"{exchanger.host} has no address",))
    targets = [(address, plain(address)) for address in answer.addresses]
    usable: list[IpAddress] = []
    skipped: dict[str, None] = {}
    unroutable = False
    for address, target in targets:
        if _is_own_address(address, target, rules, reach):
            return _Host(exchanger, own=True)
        if refusal := _refusal(address, target, rules):
            skipped[f"{exchanger.host}: {refusal}"] = None
        elif address in reach.unroutable:
            unroutable = True
        else:
            usable.append(target)
    return _Host(exchanger, addresses=_alternate(usable), skipped=tuple(skipped), unroutable=unroutable)


def _is_own_address(address: str, target: IpAddress, rules: RoutingRules, reach: Reach) -> bool:
    listens = (str(target), rules.port) in rules.own_endpoints
    return listens or (address in reach.own and _listens_everywhere(target.version, rules))


def _listens_everywhere(version: int, rules: RoutingRules) -> bool:
    """At 0.0.0.0 for IPv4, at :: for both: a socket there may take IPv4 too."""
    places = [plain(address) for address, port in rules.own_endpoints if port == rules.port]
    return any(place.is_unspecified and place.version >= version for place in places)


def _refusal(address: str, target: IpAddress, rules: RoutingRules) -> str:
    where = standing(target)
    if where is Standing.PUBLIC or (where is Standing.PRIVATE and rules.allow_private_addresses):
        return ""
    return f"{address} is {'a private' if where is Standing.PRIVATE else 'no usable'} address"


def _alternate(addresses: Iterable[IpAddress]) -> Sequence[IpAddress]:
    """Each once; the order kept inside each family, the families by turns, beginning with that of the first."""
    families: dict[int, dict[IpAddress, None]] = {}
    for address in addresses:
        families.setdefault(address.version, {})[address] = None
    if len(families) == 1:
        return list(*families.values())
    return [address for turn in zip_longest(*families.values()) for address in turn if address is not None]


def _choose(hosts: Sequence[_Host], rules: RoutingRules) -> Sequence[tuple[_Host, IpAddress]]:
    """At most `max_addresses`, each once: every host's first, then every host's second, and so on; tried in the order
    of the hosts."""
    if len(hosts) == 1:
        return [(hosts[0], address) for address in hosts[0].addresses[: rules.max_addresses]]
    seen: set[IpAddress] = set()
    entries: list[tuple[int, int, IpAddress]] = []
    for place, host in enumerate(hosts):
        fresh = [address for address in host.addresses if address not in seen]
        seen.update(fresh)
        entries += [(rank, place, address) for rank, address in enumerate(fresh)]
    taken = sorted(entries, key=lambda entry: entry[:2])[: rules.max_addresses]
    return [(hosts[place], address) for _, place, address in sorted(taken, key=lambda entry: (entry[1], entry[0]))]


def _no_way(route: Route, hosts: Sequence[_Host], looped_at: str, not_asked: int) -> Verdict:
    """No address to try. What may be better later comes first, then our own loop, then the plain lack."""
    domain = route.domain
    if troubles := [host.trouble for host in hosts if host.trouble]:
        return transient("4.4.3", f"{domain}: {'; '.join(troubles)}")
    if any(host.unroutable for host in hosts):
        return transient("4.4.1", f"{domain}: no route to any of its mail servers' addresses")
    if not_asked:
        return transient("4.4.4", f"{domain}: none of its first {HOST_LIMIT} mail servers is usable, {not_asked} not asked")
    return dead_end(route, looped_at, [reason for host in hosts for reason in host.skipped])
