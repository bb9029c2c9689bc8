"""The tables of delivery: destinations, routes, keys."""

from pathlib import Path

import pytest

from mta.app import settings
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
    rule = DestinationRule(("example.com", "*.example.com"), 5, 20, Rate(100, 60.0, 10), TlsLevel.VERIFY, True)
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
        ('[[dkim]]\ndomain = "example.com"\nselector = "-"\nkey = "k"', "dkim"),
        ('[[dkim]]\ndomain = "example.com"', "dkim"),
        ('[tls]\nreport = "yes"', "tls"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert any(str(problem).startswith(key) for problem in caught.value.problems), caught.value.problems
