"""Relays: where they are, what is asked of their encryption, and what several vias come to together."""

import pytest

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import Reply, finding
from mta.model.tls import TlsLevel
from mta.policy.candidates import Candidate
from mta.policy.destinations import Relay, RouteRule
from mta.policy.relays import (
    Outcome,
    demand_at,
    known_address,
    offers_login,
    one_after_another,
    plan_relay,
    softened,
    source_for,
)
from mta.policy.routing import RoutingRules
from mta.ports.names import AddressAnswer, Lookup
from mta.ports.system import Reach

RULES = RoutingRules(frozenset({"mail.own.test", "r.test"}), frozenset({("192.0.2.25", 25), ("127.0.0.1", 2525)}))
RELAY = Relay("r.test", 587)
LATER = Verdict(Disposition.TRANSIENT, Scope.DESTINATION, "4.4.3", finding("4.4.3", "?"), Phase.ROUTE)
NEVER = Verdict(Disposition.PERMANENT, Scope.TRANSACTION, "5.1.2", finding("5.1.2", "none"), Phase.ROUTE)


def plan(*addresses: str, relay: Relay = RELAY, lookup: Lookup = Lookup.FOUND, reach: Reach | None = None) -> Outcome:
    return plan_relay(relay, TlsLevel.MAY, AddressAnswer(lookup, addresses), RULES, reach or Reach())


def test_a_relay_is_at_its_addresses_and_its_own_port_private_ones_too() -> None:
    found = plan("10.0.0.1", "2001:db8::1", "127.0.0.1", "192.0.2.25")
    assert isinstance(found, tuple)
    assert [it.address for it in found] == ["10.0.0.1", "2001:db8::1", "127.0.0.1", "192.0.2.25"]
    assert {(it.host, it.port, it.relay) for it in found} == {("r.test", 587, RELAY)}


@pytest.mark.parametrize(
    ("outcome", "status", "words"),
    [
        (plan(lookup=Lookup.NXDOMAIN), "4.4.4", "the relay smtp://r.test:587 has no usable mail server: r.test has no"),
        (plan(lookup=Lookup.NODATA), "4.4.4", "no address"),
        (plan(lookup=Lookup.MALFORMED), "4.4.4", "no address"),
        (plan(lookup=Lookup.TROUBLE), "4.4.3", "lookup failed"),
        (plan("0.0.0.0"), "4.4.4", "no usable address"),
        (plan("127.0.0.1", relay=Relay("r.test", 2525)), "4.4.6", "leads back to this server"),
        (plan("192.0.2.9", "192.0.2.25", relay=Relay("r.test", 25)), "4.4.6", "leads back"),
        (plan("192.0.2.9", reach=Reach(unroutable=frozenset({"192.0.2.9"}))), "4.4.1", "no route"),
    ],
)
def test_b20_b21_without_a_way_it_is_an_operators_error_and_temporary(outcome: Outcome, status: str, words: str) -> None:
    assert isinstance(outcome, Verdict), outcome
    assert (outcome.disposition, outcome.scope) == (Disposition.TRANSIENT, Scope.DESTINATION)
    assert outcome.status == outcome.reply.enhanced == status
    assert words in outcome.reply.text


@pytest.mark.parametrize(
    ("host", "addresses"),
    [("192.0.2.1", ("192.0.2.1",)), ("2001:DB8::1", ("2001:db8::1",)), ("localhost", ("127.0.0.1", "::1")), ("r.x", None)],
)
def test_what_needs_no_lookup(host: str, addresses: tuple[str, ...] | None) -> None:
    found = known_address(Relay(host, 25))
    assert (found and found.addresses) == addresses


@pytest.mark.parametrize("level", TlsLevel)
@pytest.mark.parametrize("implicit", [True, False])
def test_a_login_needs_tls_with_the_relay_itself_whatever_the_destination(level: TlsLevel, implicit: bool) -> None:
    demand = demand_at(Relay("r.test", 587, "shop", implicit), level)
    assert demand.wanted and demand.required and demand.names == ("r.test",)


@pytest.mark.parametrize(
    ("level", "implicit", "wanted", "required", "verified"),
    [
        (TlsLevel.MAY, False, True, False, False),
        (TlsLevel.NONE, False, False, False, False),
        (TlsLevel.ENCRYPT, False, True, True, False),
        (TlsLevel.VERIFY, False, True, True, True),
        (TlsLevel.DANE, False, True, True, True),
        (TlsLevel.MAY, True, True, True, False),
        (TlsLevel.NONE, True, True, True, False),
    ],
)
def test_without_a_login_the_destination_decides(
    level: TlsLevel, implicit: bool, wanted: bool, required: bool, verified: bool
) -> None:
    demand = demand_at(Relay("r.test", 25, implicit_tls=implicit), level)
    assert (demand.wanted, demand.required, demand.verified) == (wanted, required, verified)


# ---------------------------------------------------------------- several
A, B = (Candidate("a.test", "192.0.2.1", 0),), (Candidate("b.test", "2001:db8::1", 0),)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((A, B), ["a.test", "b.test"]),
        ((NEVER, B), ["b.test"]),
        ((A, LATER), ["a.test"]),
        ((NEVER, LATER), LATER),
        ((LATER, NEVER), LATER),
        ((NEVER,), NEVER),
    ],
)
def test_one_via_after_the_other(outcomes: tuple[Outcome, ...], expected: object) -> None:
    found = one_after_another(RouteRule(("*",), (None,) * len(outcomes)), outcomes, TlsLevel.MAY)
    assert (found if isinstance(found, Verdict) else [it.host for it in found]) == expected


def test_each_candidate_knows_its_source_and_whose_mail_it_may_carry() -> None:
    login = Relay("r.test", 587, "shop", password="secret")
    route = RouteRule(("*",), (login, None), ("192.0.2.5",))
    found = one_after_another(route, (A, B), TlsLevel.MAY)
    assert isinstance(found, tuple)
    assert [it.source for it in found] == ["192.0.2.5", ""]
    assert [it.hop for it in found] == ["shop@smtp://r.test:587 from 192.0.2.5", ""]


@pytest.mark.parametrize(
    ("address", "sources", "source"),
    [
        ("192.0.2.1", ("2001:db8::5", "192.0.2.5"), "192.0.2.5"),
        ("2001:db8::1", ("2001:db8::5", "192.0.2.5"), "2001:db8::5"),
        ("2001:db8::1", ("192.0.2.5",), ""),
        ("192.0.2.1", (), ""),
    ],
)
def test_a_source_is_of_the_family_of_the_address(address: str, sources: tuple[str, ...], source: str) -> None:
    assert source_for(address, sources) == source


# ---------------------------------------------------------------- what it says
@pytest.mark.parametrize(
    ("extensions", "offers"),
    [({}, False), ({"AUTH": ""}, False), ({"AUTH": "X"}, False), ({"AUTH": "login"}, True), ({"AUTH": "X PLAIN"}, True)],
)
def test_whether_we_can_log_in(extensions: dict[str, str], offers: bool) -> None:
    assert offers_login(extensions) is offers


@pytest.mark.parametrize("phase", Phase)
def test_what_a_host_says_of_us_is_softened_what_we_find_about_the_mail_is_not(phase: Phase) -> None:
    said = Verdict(Disposition.PERMANENT, Scope.SESSION, "5.7.1", Reply(554, "5.7.1", "no"), phase)
    found = Verdict(Disposition.PERMANENT, Scope.SESSION, "5.7.10", finding("5.7.10", "no STARTTLS"), phase)
    assert softened(said).disposition is Disposition.TRANSIENT
    assert softened(found) == found
