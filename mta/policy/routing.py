"""From what DNS says of a domain to its mail servers (Table B; RFC 5321 sections 5.1 and 5.2, RFC 7505).

The first two steps of three, pure: `plan_directly` (what needs no MX lookup) and `plan_exchangers` (what the MX answer
means). Each ends the destination with a `Verdict` or hands on, in the end to `candidates.plan_candidates`.

Rules:
- Only a clean answer is permanent. Whatever may be otherwise later (SERVFAIL, a timeout) is transient.
- The domain's own addresses are used only when the MX answer was a genuine empty list, never when it failed.
- Mail never comes back to us: our own name ends the list at its preference (RFC 5321 section 5.1).
- Equal preferences are shuffled for each attempt; the order of the answer means nothing.
- At most `HOST_LIMIT` hosts are resolved.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct, field

from mta.model.address import AddressError, check_domain, parse_literal
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.ports.names import AddressAnswer, Lookup, MailExchanger, MxAnswer
from mta.ports.system import Randomness

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


class Route(Struct, frozen=True):
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
        return permanent("5.1.3", f"{domain}: {error}")
    if "." not in domain:
        return permanent("5.1.2", f"{domain} is not a full domain name")
    return None


def _literal(domain: str) -> Route:
    answer = AddressAnswer(Lookup.FOUND, (str(parse_literal(domain)),))
    return Route(domain, (MailExchanger(0, domain),), {domain: answer})


# ---------------------------------------------------------------- what the MX answer means
def plan_exchangers(domain: str, answer: MxAnswer, rules: RoutingRules, chance: Randomness) -> Route | Verdict:
    """The hosts to look up, by preference; equal ones in an order that `chance` decides."""
    match answer.lookup:
        case Lookup.FOUND:
            return _plan_found(domain, answer, rules, chance)
        case Lookup.NODATA:
            return _narrow(domain, (MailExchanger(0, domain.lower()),), (), rules, secure=answer.secure)
        case Lookup.NXDOMAIN:
            return permanent("5.1.2", f"{domain}: no such domain")
        case Lookup.MALFORMED:
            return permanent("5.1.3", f"{domain} is no domain name: {answer.detail}")
        case Lookup.TROUBLE:
            return transient("4.4.3", f"{domain}: MX lookup failed: {answer.detail}")


def best_exchangers(answer: MxAnswer) -> list[str]:
    """All hosts of the best preference, however many of them are tried: what tells servers from others does not change by
    chance, or with a name server's trouble."""
    best = min((it.preference for it in answer.exchangers), default=0)
    return sorted({it.host.lower() for it in answer.exchangers if it.preference == best})


def _plan_found(domain: str, answer: MxAnswer, rules: RoutingRules, chance: Randomness) -> Route | Verdict:
    named = [exchanger for exchanger in answer.exchangers if exchanger.host]
    if not named:
        return permanent("5.1.10", f"{domain} takes no mail (null MX)")
    ordered = sorted(named, key=lambda exchanger: (exchanger.preference, chance.random()))
    skipped = [f"{exchanger.host} is no host name" for exchanger in ordered if not _is_host(exchanger.host)]
    if len(named) < len(answer.exchangers):
        skipped.append("a null MX beside others")
    return _narrow(domain, _distinct(ordered), tuple(skipped), rules, secure=answer.secure)


def _narrow(
    domain: str, exchangers: Sequence[MailExchanger], skipped: tuple[str, ...], rules: RoutingRules, *, secure: bool
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
        secure=secure,
    )
    return route if before else dead_end(route, route.looped_at)


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


# ---------------------------------------------------------------- verdicts
def dead_end(route: Route, looped_at: str, skipped: Sequence[str] = ()) -> Verdict:
    """Nothing to try, for good: mail leads back to us, by the name `looped_at`, or there is plainly nothing; `skipped` says
    further what was left out and why."""
    if looped_at:
        return permanent("5.4.6", f"{route.domain}: its mail leads back to this server ({looped_at})")
    return permanent("5.4.4", f"{route.domain} has no usable mail server: {'; '.join((*route.skipped, *skipped))}")


def transient(status: str, text: str) -> Verdict:
    return Verdict(Disposition.TRANSIENT, Scope.DESTINATION, status, finding(status, text), Phase.ROUTE)


def permanent(status: str, text: str) -> Verdict:
    return Verdict(Disposition.PERMANENT, Scope.TRANSACTION, status, finding(status, text), Phase.ROUTE)
