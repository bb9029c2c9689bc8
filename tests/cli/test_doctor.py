"""`mta doctor` as a person runs it, in a small internet of its own."""

import asyncio
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from mta.app.doctor import FAR_AWAY
from mta.dns.reachability import source_to
from mta.policy.networks import Standing, plain, standing
from tests.cli.test_main import MTA
from tests.support.dns_server import DnsServer, Zones
from tests.support.mx import ScriptedMx, Step, server_tls
from tests.support.ports import free_port

OUTWARD = [it for it in map(source_to, FAR_AWAY) if it and standing(plain(it)) is Standing.PUBLIC]
"""What this machine would be seen as, wherever the test runs."""
ADDRESSES = OUTWARD or ["203.0.113.5"]
ZONES: Zones = {
    ("mail.shop.test", "A"): [it for it in ADDRESSES if ":" not in it] or None,
    ("mail.shop.test", "AAAA"): [it for it in ADDRESSES if ":" in it] or None,
    **{(ipaddress.ip_address(it).reverse_pointer, "PTR"): ["mail.shop.test."] for it in ADDRESSES},
    ("shop.test", "TXT"): ['"v=spf1 a:mail.shop.test -all"'],
    ("friends.test", "MX"): ["10 mx.friends.test."],
    ("mx.friends.test", "A"): ["127.0.0.1"],
}


CONFIG = """\
hostname = "mail.shop.test"
postmaster = "pat@shop.test"
[dns]
nameservers = ["127.0.0.1:{names}"]
[delivery]
port = {port}
allow_private_addresses = true
[submission]
listen = ["127.0.0.1:{door}"]
"""


async def run(folder: Path, port: int, *words: str, zones: Zones = ZONES, more: str = "") -> tuple[int, str]:
    async with DnsServer(zones) as names:
        config = folder / "mta.toml"
        config.write_text(CONFIG.format(names=names.address[1], port=port, door=free_port()) + more)
        command = (MTA, "doctor", "--config", str(config), *words)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()


async def test_all_that_decides_is_looked_at_and_said_line_by_line(tmp_path: Path) -> None:
    async with ScriptedMx(tls=server_tls("mx.friends.test")) as mx:
        code, output = await run(tmp_path, mx.port, "Friends.test")
        lines = output.splitlines()
        assert code == 1
        assert "ok       the name mail.shop.test: has the addresses " + ", ".join(ADDRESSES) in lines
        assert "ok       the way to friends.test: leads to mx.friends.test" in lines
        assert "warning  DKIM: nothing is signed: large receivers ask for it" in lines
        assert "         -> make a key: `mta dkim keygen DOMAIN`" in lines
        (tls,) = [line for line in lines if "TLS at mx.friends.test" in line]
        assert tls.startswith("note     TLS at mx.friends.test: TLSv1.3 ")
        assert "the certificate proves nothing" in tls
        assert not any(connection.verbs.count("MAIL") for connection in mx.connections)


async def test_json_has_the_same(tmp_path: Path) -> None:
    async with ScriptedMx() as mx:
        code, output = await run(tmp_path, mx.port, "--json", "friends.test")
    findings = json.loads(output)["findings"]
    assert code == 1, findings
    assert {"level", "about", "what", "advice"} == set(findings[0])
    assert "TLS at mx.friends.test" in {it["about"] for it in findings if it["level"] == "warning"}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"BANNER": "554 5.7.1 go away\x1b[2J"}, "turns us away: 554 5.7.1 go away\\x1b[2J"),
        ({"EHLO": "550 5.7.1 who are you"}, "refuses our EHLO: 550 5.7.1 who are you"),
    ],
)
async def test_what_a_server_says_of_us_is_told_and_fails(tmp_path: Path, script: dict[str, Step], words: str) -> None:
    async with ScriptedMx(script) as mx:
        code, output = await run(tmp_path, mx.port, "friends.test")
    assert code == 2
    assert words in output


async def test_a_closed_port_says_what_may_be_the_matter(tmp_path: Path) -> None:
    code, output = await run(tmp_path, free_port(), "friends.test")
    assert code == 2
    assert "mx.friends.test (127.0.0.1, port " in output
    assert "as at most clouds" in output


@pytest.mark.parametrize(("domain", "words"), [("nobody.test", "no such domain"), ("no domain", "5.1.3")])
async def test_a_domain_without_a_way(tmp_path: Path, domain: str, words: Sequence[str]) -> None:
    code, output = await run(tmp_path, free_port(), domain)
    assert code == 2
    assert words in output


@pytest.mark.parametrize("words", [(), ("--json",)])
async def test_what_a_zone_says_moves_no_terminal_and_is_not_endless(tmp_path: Path, words: Sequence[str]) -> None:
    hostile = r"\194\155[2J\226\128\174" + '" "'.join(["x" * 200] * 25)
    zones: Zones = {**ZONES, ("shop.test", "TXT"): [f'"v=spf1 -all {hostile}"']}
    _, output = await run(tmp_path, free_port(), *words, "nobody.test", zones=zones)
    assert "does not let" in output
    assert "\x9b" not in output and "\u202e" not in output
    assert len(output) < 5000


async def test_a_key_that_only_the_service_sees_is_no_obstacle(tmp_path: Path) -> None:
    table = '[[dkim]]\ndomain = "shop.test"\nselector = "s"\nkey = "credential:dkim"\n'
    _, output = await run(tmp_path, free_port(), "nobody.test", more=table)
    assert "note     DKIM: credential:dkim can only be looked at by the service" in output


async def test_where_mail_leaves_by_a_relay_our_own_address_is_not_judged(tmp_path: Path) -> None:
    async with ScriptedMx() as mx:
        zones: Zones = {("relay.test", "A"): ["127.0.0.1"], ("shop.test", "TXT"): ['"v=spf1 include:relay.test -all"']}
        route = f'[[route]]\nmatch = "*"\nvia = "smtp://relay.test:{mx.port}"\n'
        code, output = await run(tmp_path, free_port(), "friends.test", zones=zones, more=route)
    assert code == 1, output
    assert f"note     our address: mail leaves by smtp://relay.test:{mx.port}: others see its address" in output
    assert "note     SPF of shop.test: has to let the relay send: v=spf1 include:relay.test -all" in output
    assert "the name mail.shop.test" not in output
    assert "ok       the way to friends.test: leads to relay.test" in output
