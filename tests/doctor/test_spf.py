"""What SPF records say of an address (RFC 7208)."""

import ipaddress

import pytest

from mta.dns.resolver import DnsResolver
from mta.doctor.spf import Evaluation, Spf
from tests.support.dns_server import DnsServer, Zones

ZONES: Zones = {
    ("mx.e.test", "A"): ["192.0.2.10"],
    ("mx.e.test", "AAAA"): ["2001:db8::10"],
    ("e.test", "MX"): ["10 mx.e.test."],
    ("e.test", "A"): ["192.0.2.20"],
    ("pass.test", "TXT"): ['"v=spf1 ip4:192.0.2.0/24 -all"'],
    ("fail.test", "TXT"): ['"v=spf1 -all"'],
    ("trouble.test", "TXT"): "SERVFAIL",
    **{(f"c{n}.test", "TXT"): [f'"v=spf1 include:c{n + 1}.test -all"'] for n in range(12)},
    ("many.test", "MX"): [f"10 m{n}.many.test." for n in range(11)],
    ("slow.test", "A"): "SERVFAIL",
    ("two.test", "TXT"): ['"v=spf1 -all"', '"v=spf1 +all"'],
    ("other.test", "TXT"): ['"google-site-verification=x"', '"v=spf10 -all"'],
}


@pytest.mark.parametrize(
    ("record", "address", "result"),
    [
        ("v=spf1 ip4:192.0.2.1 -all", "192.0.2.1", Spf.PASS),
        ("v=spf1 ip4:192.0.2.1 -all", "192.0.2.2", Spf.FAIL),
        ("v=spf1 ip4:192.0.2.0/24 ~all", "192.0.3.2", Spf.SOFTFAIL),
        ("v=spf1 IP6:2001:db8::/32 -ALL", "2001:db8:1::1", Spf.PASS),
        ("v=spf1 ip6:2001:db8::/32 -all", "192.0.2.1", Spf.FAIL),
        ("v=spf1 ip4:192.0.2.1", "192.0.2.2", Spf.NEUTRAL),
        ("v=spf1 ?all", "192.0.2.2", Spf.NEUTRAL),
        ("v=spf1 a:e.test -all", "192.0.2.20", Spf.PASS),
        ("v=spf1 a:e.test/28 -all", "192.0.2.21", Spf.PASS),
        ("v=spf1 a:e.test/32 -all", "192.0.2.21", Spf.FAIL),
        ("v=spf1 mx:e.test -all", "192.0.2.10", Spf.PASS),
        ("v=spf1 mx:e.test//64 -all", "2001:db8::99", Spf.PASS),
        ("v=spf1 include:pass.test -all", "192.0.2.7", Spf.PASS),
        ("v=spf1 include:fail.test ip4:192.0.2.7 -all", "192.0.2.7", Spf.PASS),
        ("v=spf1 redirect=pass.test", "192.0.2.7", Spf.PASS),
        ("v=spf1 redirect=pass.test", "192.0.3.7", Spf.FAIL),
        ("v=spf1 redirect=nothing.test", "192.0.3.7", Spf.PERMERROR),
        ("v=spf1 include:nothing.test -all", "192.0.3.7", Spf.PERMERROR),
        ("v=spf1 include:trouble.test -all", "192.0.3.7", Spf.TEMPERROR),
        ("v=spf1 include:c0.test -all", "192.0.3.7", Spf.PERMERROR),
        ("v=spf1 ip4:999.0.2.1 -all", "192.0.2.1", Spf.PERMERROR),
        ("v=spf1 a:e.test/x -all", "192.0.2.1", Spf.PERMERROR),
        ("v=spf1 nonsense -all", "192.0.2.1", Spf.PERMERROR),
        ("v=spf1 mx:many.test -all", "192.0.2.1", Spf.PERMERROR),
        ("v=spf1 a:x.test a:y.test ip4:192.0.2.1 -all", "192.0.2.1", Spf.PASS),
        ("v=spf1 a:x.test a:y.test a:z.test ip4:192.0.2.1 -all", "192.0.2.1", Spf.PERMERROR),
        ("v=spf1 a:slow.test -all", "192.0.2.1", Spf.TEMPERROR),
        ("v=spf1 include:s.test -all", "192.0.2.1", Spf.PERMERROR),
        ("v=spf1 exists:%{i}.e.test -all", "192.0.2.1", Spf.UNKNOWN),
        ("v=spf1 include:%{d}.e.test -all", "192.0.2.1", Spf.UNKNOWN),
        ("v=spf1 exp=why.test unknown=x -all", "192.0.2.1", Spf.FAIL),
    ],
)
async def test_a_record_and_an_address(record: str, address: str, result: Spf) -> None:
    async with DnsServer({**ZONES, ("s.test", "TXT"): [f'"{record}"']}) as server:
        resolver = DnsResolver([server.address], 2.0)
        assert await Evaluation(resolver, ipaddress.ip_address(address)).of("s.test") is result


@pytest.mark.parametrize(
    ("domain", "result"),
    [("nothing.test", Spf.NONE), ("other.test", Spf.NONE), ("two.test", Spf.PERMERROR), ("trouble.test", Spf.TEMPERROR)],
)
async def test_a_domain_without_one_good_record(domain: str, result: Spf) -> None:
    async with DnsServer(ZONES) as server:
        resolver = DnsResolver([server.address], 2.0)
        assert await Evaluation(resolver, ipaddress.ip_address("192.0.2.1")).of(domain) is result
