"""What a name server says it has validated, and who is believed (RFC 7672 section 2.1, RFC 6840 section 5.7)."""

import dns.flags
import pytest

from mta.dns.resolver import DnsResolver
from mta.model.tls import Tlsa
from mta.ports.names import Lookup
from tests.support.dns_server import DnsServer

ZONES = {
    ("e.test", "MX"): ["10 mx.e.test."],
    ("mx.e.test", "A"): ["192.0.2.1"],
    ("a.test", "CNAME"): ["mx.e.test."],
    ("_25._tcp.mx.e.test", "TLSA"): ["3 1 1 " + "ab" * 32],
    ("e.test", "TXT"): ['"v=spf1 " "-all"'],
    ("1.2.0.192.in-addr.arpa", "PTR"): ["mail.E.test."],
}


@pytest.mark.parametrize("validated", [True, False])
async def test_the_ad_bit_of_a_local_server_is_believed(validated: bool) -> None:
    async with DnsServer(ZONES) as server:
        server.flags |= dns.flags.AD if validated else 0
        resolver = DnsResolver([server.address], 2.0)
        assert (await resolver.mail_exchangers("e.test")).secure is validated
        assert (await resolver.addresses("mx.e.test")).secure is validated
        tlsa = await resolver.tlsa("mx.e.test", 25)
        assert (tlsa.lookup, tlsa.records, tlsa.secure) == (Lookup.FOUND, (Tlsa(3, 1, 1, b"\xab" * 32),), validated)
        denial = await resolver.tlsa("e.test", 25)
        assert (denial.lookup, denial.secure) == (Lookup.NODATA, validated) or denial.lookup is Lookup.NXDOMAIN
        assert denial.secure is validated


async def test_texts_names_and_aliases() -> None:
    async with DnsServer(ZONES) as server:
        resolver = DnsResolver([server.address], 2.0)
        assert (await resolver.texts("e.test")).texts == ("v=spf1 -all",)
        assert (await resolver.names("192.0.2.1")).texts == ("mail.e.test",)
        assert (await resolver.names("no address")).lookup is Lookup.MALFORMED
        assert (await resolver.addresses("a.test")).canonical == "mx.e.test"
        assert (await resolver.addresses("mx.e.test")).canonical == ""
