"""Which table holds for a destination."""

import pytest

from mta.model.tls import TlsLevel
from mta.policy.destinations import DestinationRule, Destinations, Relay, RouteRule, matches


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
