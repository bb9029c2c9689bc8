"""Which table holds for a destination."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.tls import TlsLevel
from mta.policy.destinations import DestinationRule, Destinations, Relay, RouteRule, matches
from mta.policy.rates import Rate


@pytest.mark.parametrize(
    ("pattern", "destination", "fits"),
    [
        ("example.org", "example.org", True),
        ("example.org", "mail.example.org", False),
        ("*.example.org", "mail.example.org", True),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "badexample.org", False),
        ("*", "example.org", True),
        ("*", "[192.0.2.1]", True),
    ],
)
def test_what_a_pattern_fits(pattern: str, destination: str, fits: bool) -> None:
    assert matches((pattern,), destination) is fits


def test_the_first_table_that_matches_holds_and_without_one_the_defaults() -> None:
    relay = Relay("relay.example.net", 587, "mta")
    strict, loose = DestinationRule(("bank.example",), tls=TlsLevel.VERIFY), DestinationRule(("*",), max_sessions=2)
    tables = Destinations((strict, loose), (RouteRule(("*.example",), (relay, None)),))
    assert tables.rule("bank.example") is strict
    assert tables.rule("shop.example") is loose
    assert tables.route("bank.example").vias == (relay, None)
    assert tables.route("example.org").vias == (None,)
    assert Destinations().rule("bank.example").tls is TlsLevel.MAY


def test_a_relay_is_named_without_user_and_password() -> None:
    assert str(Relay("2001:db8::1", 465, "mta", True, "secret")) == "smtps://[2001:db8::1]:465"
    assert "secret" not in repr(Relay("relay.example.net", 587, "mta", password="secret"))


def test_who_shares_limits_and_which_they_are() -> None:
    relay, other = Relay("relay.example.net", 587), Relay("other.example.net", 25)
    provider = DestinationRule(("gmail.example", "*.gmail.example"), max_sessions=7, shared=True)
    by_servers = DestinationRule(("*.mx.example",), messages_per_session=3, by_servers=True)
    of_relay = DestinationRule(("relay.example.net",), max_sessions=4, rate=Rate(1, 60, 1))
    plain = DestinationRule(("*",), max_sessions=9)
    tables = Destinations(
        (provider, by_servers, of_relay, plain), (RouteRule(("*.out.example",), (relay, other, None)),)
    )
    assert tables.group("gmail.example") == tables.group("eu.gmail.example") == "*shared:gmail.example,*.gmail.example"
    assert not tables.limits("gmail.example").one_site and tables.limits("gmail.example").sessions == 7
    assert tables.group("a.mx.example") == "a.mx.example"
    assert tables.group("a.mx.example", "mx1.host") == tables.group("b.mx.example", "mx1.host") != "a.mx.example"
    assert tables.limits("a.mx.example").messages == 3
    assert tables.group("a.out.example") == tables.group("smtp://relay.example.net:587") == "smtp://relay.example.net:587"
    assert tables.limits("a.out.example").sessions == 4 == tables.limits("smtp://relay.example.net:587").sessions
    assert tables.limits("smtp://other.example.net:25").sessions == 9
    assert (tables.group("example.org"), tables.limits("example.org").sessions) == ("example.org", 9)


@given(
    st.lists(st.sampled_from(["*", "a.test", "b.a.test", "*.test", "*.a.test", "*.b.a.test", "[192.0.2.1]"]), max_size=5),
    st.sampled_from(["a.test", "b.a.test", "c.b.a.test", "xa.test", "test", "[192.0.2.1]"]),
)
def test_the_first_table_that_matches_holds(patterns: list[str], destination: str) -> None:
    tables = tuple(DestinationRule((pattern,), max_sessions=n) for n, pattern in enumerate(patterns))
    fitting = [
        n
        for n, it in enumerate(patterns)
        if it in ("*", destination) or (it.startswith("*.") and destination.endswith(it[1:]))
    ]
    assert Destinations(tables).rule(destination).max_sessions == min(fitting, default=None)


def test_a_hop_is_that_of_its_own_relay_whatever_users_are_called() -> None:
    """A user's name is any text, and may look like the rest of another hop."""
    relay = Relay("relay.example.net", 587, "mta")
    other = Relay("other.example.net", 25, f"{relay.login} from mta")
    tables = Destinations((), (RouteRule(("a.test",), (relay,)), RouteRule(("b.test",), (other, None), ("192.0.2.5",))))
    for destination, via in (("a.test", relay), ("b.test", other)):
        hop = tables.route(destination).hop(via, TlsLevel.MAY)
        assert tables.group(hop) == tables.group(destination) == str(via)
