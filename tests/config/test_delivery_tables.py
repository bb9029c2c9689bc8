"""The tables of delivery: destinations, routes, keys."""

from pathlib import Path

import pytest

from mta.app import settings
from mta.config.checks import warnings
from mta.config.describe import effective
from mta.config.load import load
from mta.config.model import Config
from mta.config.problems import ConfigError
from mta.model.tls import TlsLevel
from mta.policy.destinations import DestinationRule, Relay, RouteRule
from mta.policy.rates import Rate

ENVIRON = {"HOME": "/home/ann"}
TABLES = """
[[destination]]
match = ["example.com", "*.Example.com"]
share = true
first_sessions = 3
max_sessions = 5
messages_per_session = 20
rate = "100/1m"
burst = 10
tls = "verify"
[[destination]]
match = "*"
[[route]]
match = "*"
via = ["smtps://us%40er@relay.example.net", "smtp://[2001:db8::1]:26", "mx"]
password = "credential:relay"
source = ["192.0.2.5", "2001:db8::5"]
[[dkim]]
domain = "Example.com"
selector = "2026"
key = "dkim.pem"
[tls]
report = true
[suppression]
keep = "30d"
"""


def read(folder: Path, text: str) -> Config:
    path = folder / "mta.toml"
    path.write_text(text)
    return load(path, ENVIRON)


def test_the_tables_are_read(tmp_path: Path) -> None:
    config = read(tmp_path, TABLES)
    found = settings.destinations(config)
    rate = Rate(100, 60.0, 10)
    rule = DestinationRule(("example.com", "*.example.com"), 5, 20, rate, TlsLevel.VERIFY, True, first_sessions=3)
    assert found.rules == (rule, DestinationRule(("*",)))
    vias = (Relay("relay.example.net", 465, "us@er", True), Relay("2001:db8::1", 26), None)
    assert found.routes == (RouteRule(("*",), vias, ("192.0.2.5", "2001:db8::5")),)
    (dkim,) = config.dkim
    assert (dkim.domain, dkim.selector, dkim.key) == ("example.com", "2026", str(tmp_path / "dkim.pem"))
    assert (config.tls.report, config.suppression.keep) == (True, 30 * 86400.0)


def test_the_tables_are_told_in_words(tmp_path: Path) -> None:
    found = dict(effective(read(tmp_path, TABLES)))
    assert found["destination[1].rate"] == "100 in 1 minute"
    assert found["destination[1].messages_per_session"] == "20"
    assert found["destination[1].first_sessions"] == "3"
    assert found["route[1].via"] == (
        "smtps://relay.example.net:465, logged in there as us@er (inside TLS, with a certificate for relay.example.net), "
        "else smtp://[2001:db8::1]:26 (inside TLS if it has it), else the servers of its domain (mx)"
    )
    assert dict(effective(read(tmp_path, "")))["suppression.keep"] == "no address is suppressed but by `mta suppression add`"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[[destination]]\nmatch = "exa mple.com"', "destination"),
        ('[[destination]]\nmatch = "*.*.example.com"', "destination"),
        ('[[destination]]\nmatch = []', "destination"),
        ('[[destination]]\nmatch = "*"\ntls = "strict"', "destination"),
        ('[[destination]]\nmatch = "*"\nrate = "fast"', "destination"),
        ('[[route]]\nmatch = "*"\nvia = "http://relay.example.net"', "route"),
        ('[[route]]\nmatch = "*"\nvia = "smtp://relay.example.net:0"', "route"),
        ('[[route]]\nmatch = "*"\nvia = "smtp://rel ay"', "route"),
        ('[[route]]\nmatch = "*"\nsource = "0.0.0.0"', "route"),
        ('[[dkim]]\ndomain = "localhost"\nselector = "s"\nkey = "k"', "dkim"),
        ('[[dkim]]\ndomain = "example.com"\nselector = "-"\nkey = "k"', "dkim"),
        ('[[dkim]]\ndomain = "example.com"\nselector = "a..b"\nkey = "k"', "dkim"),
        ('[[route]]\nmatch = "*"\nvia = "smtp://us%0d%0aer@relay.example.net"\npassword = "p"', "route"),
        ('[[dkim]]\ndomain = "example.com"', "dkim"),
        ('[tls]\nreport = "yes"', "tls"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert any(str(problem).startswith(key) for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    ("share", "shared", "by_servers"), [("true", True, False), ("false", False, False), ('"mx"', False, True)]
)
def test_who_shares_is_said_in_three_ways(tmp_path: Path, share: str, shared: bool, by_servers: bool) -> None:
    (rule,) = settings.destinations(read(tmp_path, f'[[destination]]\nmatch = "*"\nshare = {share}')).rules
    assert (rule.shared, rule.by_servers) == (shared, by_servers)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[destination]]\nmatch = "*"\nshare = "all"', 'expected true, false or "mx"'),
        ('[[destination]]\nmatch = "*"\nshare = 1', 'expected true, false or "mx"'),
        ('[[destination]]\nmatch = "*"\nburst = 5', "burst says nothing without rate"),
        ('[[destination]]\nmatch = "*"\nfirst_sessions = 0', "expected 1 or more"),
        ('[[destination]]\nmatch = "*"\nfirst_sessions = 6\nmax_sessions = 5', "is above max_sessions (6 > 5)"),
    ],
)
def test_a_mistake_in_limits_says_what_was_expected(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert any(says in str(problem) for problem in caught.value.problems), caught.value.problems


def test_limits_of_what_goes_by_a_relay_are_warned_of(tmp_path: Path) -> None:
    route = '[[route]]\nmatch = ["*.example.com", "example.org"]\nvia = "smtp://relay.example.net:587"\n'
    tables = (
        '[[destination]]\nmatch = ["*.example.com", "other.example"]\nrate = "1/1s"\n'
        '[[destination]]\nmatch = "relay.example.net"\nmax_sessions = 3\n[[destination]]\nmatch = "*"\nmax_sessions = 2\n'
    )
    (warned,) = [it for it in warnings(read(tmp_path, route + tables)) if it.key == "destination"]
    assert "*.example.com" in str(warned) and 'match = "relay.example.net"' in str(warned)
