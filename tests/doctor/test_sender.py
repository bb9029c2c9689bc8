"""What receivers find when they look us up, and what there is to do about it."""

import pytest

from mta.dns.resolver import DnsResolver
from mta.doctor.findings import Finding, Level
from mta.doctor.sender import (
    NAMES_AT_MOST,
    SigningKey,
    look_at_dkim,
    look_at_dmarc,
    look_at_name,
    look_at_spf,
    our_addresses,
)
from tests.support.dns_server import DnsServer, Zones

US = "203.0.113.5"
KEY = SigningKey("shop.test", "2026", "MCow")
GOOD: Zones = {
    ("mail.shop.test", "A"): [US],
    ("5.113.0.203.in-addr.arpa", "PTR"): ["mail.shop.test."],
    ("shop.test", "TXT"): [f'"v=spf1 ip4:{US} -all"'],
    ("2026._domainkey.shop.test", "TXT"): ['"v=DKIM1; k=ed25519; " "p=MC ow"'],
    ("_dmarc.shop.test", "TXT"): ['"v=DMARC1; p=reject"'],
}


async def examined(zones: Zones) -> list[Finding]:
    async with DnsServer(zones) as server:
        resolver = DnsResolver([server.address], 2.0)
        return [
            *await look_at_name(resolver, "mail.shop.test", (US,)),
            *await look_at_spf(resolver, "shop.test", (US,)),
            await look_at_dkim(resolver, KEY),
            await look_at_dmarc(resolver, "shop.test"),
        ]


async def test_where_all_is_well_nothing_is_to_be_done() -> None:
    found = await examined(GOOD)
    assert {it.level for it in found} == {Level.OK}
    assert not any(it.advice for it in found)


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({("mail.shop.test", "A"): None}, Level.FAILURE, "has no address in DNS"),
        ({("mail.shop.test", "A"): ["203.0.113.6"]}, Level.WARNING, f"does not lead to {US}"),
        ({("mail.shop.test", "A"): "SERVFAIL"}, Level.NOTE, "can't be looked up now"),
        ({("5.113.0.203.in-addr.arpa", "PTR"): None}, Level.FAILURE, "there is none"),
        ({("5.113.0.203.in-addr.arpa", "PTR"): ["x.isp.test."]}, Level.FAILURE, "does not lead back"),
        (
            {("5.113.0.203.in-addr.arpa", "PTR"): ["x.isp.test."], ("x.isp.test", "A"): [US]},
            Level.WARNING,
            "is x.isp.test, not mail.shop.test",
        ),
        ({("shop.test", "TXT"): None}, Level.FAILURE, "there is no record"),
        ({("shop.test", "TXT"): ['"v=spf1 -all"']}, Level.FAILURE, f"does not let {US} send (fail)"),
        ({("shop.test", "TXT"): ['"v=spf1 what"']}, Level.FAILURE, "is wrong"),
        ({("shop.test", "TXT"): "SERVFAIL"}, Level.NOTE, "could not be judged"),
        ({("2026._domainkey.shop.test", "TXT"): None}, Level.FAILURE, "is not in DNS"),
        ({("2026._domainkey.shop.test", "TXT"): ['"p="']}, Level.FAILURE, "is revoked"),
        ({("2026._domainkey.shop.test", "TXT"): ['"p=MCox"']}, Level.FAILURE, "is another key"),
        ({("2026._domainkey.shop.test", "TXT"): ['"t=y; p=MCow"']}, Level.WARNING, "is marked as a test"),
        ({("_dmarc.shop.test", "TXT"): None}, Level.WARNING, "there is no record"),
        ({("_dmarc.shop.test", "TXT"): ['"v=DMARC1; p=maybe"']}, Level.FAILURE, "has no policy"),
    ],
)
async def test_what_is_wrong_is_said_with_what_to_do(change: Zones, level: Level, words: str) -> None:
    found = await examined({**GOOD, **change})
    bad = [it for it in found if it.level is not Level.OK]
    assert (level, True) in {(it.level, words in it.what) for it in bad}, bad
    assert all(it.advice for it in bad if it.level is not Level.NOTE)


async def test_dmarc_of_the_domain_above_holds() -> None:
    async with DnsServer(GOOD) as server:
        found = await look_at_dmarc(DnsResolver([server.address], 2.0), "news.shop.test")
    assert (found.level, found.what) == (Level.OK, "p=reject, at _dmarc.shop.test")


@pytest.mark.parametrize(
    ("outward", "named", "addresses", "level"),
    [
        (["198.51.100.7"], [], ("198.51.100.7",), Level.OK),
        (["10.0.0.7"], ["198.51.100.9"], ("198.51.100.9",), Level.NOTE),
        (["10.0.0.7"], ["127.0.1.1"], (), Level.WARNING),
        ([], [], (), Level.WARNING),
    ],
)
def test_where_mail_comes_from(outward: list[str], named: list[str], addresses: tuple[str, ...], level: Level) -> None:
    known, (finding,) = our_addresses(outward, named)
    assert (known, finding.level) == (addresses, level)


async def test_an_address_with_a_thousand_names_is_looked_at_as_a_receiver_would() -> None:
    names = [f"n{n}.isp.test." for n in range(200)]
    async with DnsServer({**GOOD, ("5.113.0.203.in-addr.arpa", "PTR"): names}) as server:
        found = await look_at_name(DnsResolver([server.address], 2.0), "mail.shop.test", (US,))
        assert found[-1].level is Level.FAILURE
        assert len({it.name for it in server.queries if it.name.endswith(".isp.test")}) == NAMES_AT_MOST
