"""Servers of the configuration's `[[route]]` tables on the way to a destination: where they are, what is asked of them, and
what their refusals mean (RFC 5321 section 5.1, RFC 4954, RFC 8314; field case B20).

Rules: a relay is found by A and AAAA alone, at any address but our own listeners'; whatever is wrong with it, or with how
we stand with it, is a person's mistake or a passing trouble and fails no mail, but such as its sender wants to fail rather
than go that way. What it says of the mail itself is believed as any server's. A password is given inside TLS alone, to
whoever can prove to be the relay.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.model.tls import TlsDemand, TlsLevel, TlsPolicy
from mta.policy.candidates import Candidate, plan_candidates
from mta.policy.classify import NO_LOGIN
from mta.policy.destinations import Relay, RouteRule
from mta.policy.networks import plain
from mta.policy.routing import Route, RoutingRules
from mta.ports.names import AddressAnswer, Lookup, MailExchanger
from mta.ports.smtp import LOGIN_MECHANISMS
from mta.ports.system import Reach

Outcome = tuple[Candidate, ...] | Verdict
"""Where to, never nowhere; or why there is no way."""


# ---------------------------------------------------------------- where to
def known_address(relay: Relay) -> AddressAnswer | None:
    """Where its host is an address, or this machine (RFC 6761 section 6.3). None: ask."""
    if relay.host == "localhost":
        return AddressAnswer(Lookup.FOUND, ("127.0.0.1", "::1"))
    try:
        return AddressAnswer(Lookup.FOUND, (str(ipaddress.ip_address(relay.host)),))
    except ValueError:
        return None


def plan_relay(relay: Relay, level: TlsLevel, answer: AddressAnswer, rules: RoutingRules, reach: Reach) -> Outcome:
    """The relay's addresses in the order to be tried; or a temporary verdict. `level` is the destination's."""
    itself = Route(f"the relay {relay}", (MailExchanger(0, relay.host),))
    own = replace(rules, port=relay.port, allow_private_addresses=True)
    found = plan_candidates(itself, {relay.host: answer}, own, reach)
    if isinstance(found, Verdict):
        return _later(found)
    demand = demand_at(relay, level)
    return tuple(structs.replace(candidate, relay=relay, demand=demand) for candidate in found)


def demand_at(relay: Relay, level: TlsLevel) -> TlsDemand:
    """What is asked of the encryption with a relay: what its login needs, or what the destination's mail needs, if that is
    more."""
    verified = bool(relay.user) or level in (TlsLevel.VERIFY, TlsLevel.DANE)
    if verified or relay.implicit_tls or level is TlsLevel.ENCRYPT:
        return TlsDemand(TlsPolicy.CONFIGURED, required=True, names=(relay.host,) if verified else ())
    if level is TlsLevel.NONE:
        return TlsDemand(TlsPolicy.NONE, wanted=False)
    return TlsDemand()


def one_after_another(route: RouteRule, outcomes: Sequence[Outcome], level: TlsLevel) -> Outcome:
    """What the vias of a route come to together, each one's candidates behind those of the one before. Where there are
    none, what may be better later outweighs what is final. `level` is the destination's."""
    found: list[Candidate] = []
    verdicts: list[Verdict] = []
    for via, outcome in zip(route.vias, outcomes, strict=True):
        if isinstance(outcome, Verdict):
            verdicts.append(outcome)
        else:
            hop = route.hop(via, level)
            found += (_by(it, hop, route.source) for it in outcome) if hop or route.source else outcome
    if found:
        return tuple(found)
    return next((it for it in verdicts if it.disposition is Disposition.TRANSIENT), verdicts[0])


def _by(candidate: Candidate, hop: str, sources: Sequence[str]) -> Candidate:
    return structs.replace(candidate, source=source_for(candidate.address, sources), hop=hop)


def source_for(address: str, sources: Sequence[str]) -> str:
    """Where to connect to `address` from; "" as the system likes, also where there is none of its family."""
    version = plain(address).version
    return next((it for it in sources if plain(it).version == version), "")


# ---------------------------------------------------------------- what it says
def offers_login(extensions: Mapping[str, str]) -> bool:
    """Whether it offers AUTH in a way that we know (RFC 4954 section 3)."""
    return not set(LOGIN_MECHANISMS).isdisjoint(extensions.get("AUTH", "").upper().split())


def no_login(extensions: Mapping[str, str]) -> Verdict:
    """On a relay that does not `offers_login`."""
    offered = f"only AUTH {extensions['AUTH']}" if extensions.get("AUTH") else "no AUTH"
    text = f"the relay offers {offered} (wanted: {' or '.join(LOGIN_MECHANISMS)})"
    return Verdict(Disposition.TRANSIENT, Scope.SESSION, NO_LOGIN, finding(NO_LOGIN, text), Phase.AUTH)


def is_about_login(verdict: Verdict) -> bool:
    """Whether a relay does not take us for who we are, for good as far as it knows."""
    return verdict.status == NO_LOGIN


def softened(verdict: Verdict) -> Verdict:
    """A host's refusal of us, on a route that has a relay: temporary. What we find ourselves, that this mail can't go by
    what the host offers, stays what it is (REQUIRETLS without STARTTLS: RFC 8689 section 4.2.1 has it fail)."""
    refuses = verdict.disposition is Disposition.PERMANENT and verdict.reply.code is not None
    return structs.replace(verdict, disposition=Disposition.TRANSIENT) if refuses else verdict


def _later(verdict: Verdict) -> Verdict:
    status = f"4{verdict.status[1:]}"
    reply = finding(status, verdict.reply.text)
    return Verdict(Disposition.TRANSIENT, Scope.DESTINATION, status, reply, verdict.phase)
