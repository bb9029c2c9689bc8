"""Whether DANE can be followed at all: B28, never trust a validation that came over a network by default."""

from pathlib import Path

import pytest

from mta.config.checks import dane_warnings
from tests.config.test_checks import QUIET, config

DEMANDED = '[[destination]]\nmatch = "*.example.com"\ntls = "dane"\n'


@pytest.mark.parametrize(
    ("text", "servers", "keys"),
    [
        ("", ["192.0.2.53"], ["tls.dane"]),
        ("", ["192.0.2.53", "127.0.0.1"], []),
        ("", ["::1"], []),
        ("[dns]\ntrust_ad = true\n", ["192.0.2.53"], []),
        ("[tls]\ndane = false\n", ["192.0.2.53"], []),
        (DEMANDED, ["192.0.2.53"], ["destination.tls", "tls.dane"]),
        (DEMANDED + "[tls]\ndane = false\n", ["fe80::1%eth0"], ["destination.tls"]),
        (DEMANDED, ["127.0.0.53"], []),
    ],
)
def test_b28_what_a_resolver_elsewhere_means(tmp_path: Path, text: str, servers: list[str], keys: list[str]) -> None:
    assert [it.key for it in dane_warnings(config(tmp_path, QUIET + text), servers)] == keys
