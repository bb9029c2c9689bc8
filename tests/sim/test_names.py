"""What name servers do, as the daemon's own resolver sees it."""

import asyncio
import random
from collections.abc import Callable

import pytest

from mta.dns.resolver import DnsResolver
from mta.ports.names import Lookup, MailExchanger
from tests.sim.conftest import Lab
from tests.sim.dns import NameService, OverTcp, Zone
from tests.sim.network import Route

SERVERS = (("192.0.2.53", 53), ("192.0.2.54", 53))
TIMEOUT = 10.0
HOST = "mx.here.example"
ZONES = {
    "here.example": Zone(((10, HOST), (20, "mx2.here.example")), {HOST: ("198.51.100.1", "2001:db8::1")}),
    "bare.example": Zone((), {}),
    "null.example": Zone(((0, ""),), {}),
}


class Names:
    """A name service whose faults can be set, and a resolver that asks it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.faults: dict[str, str] = {}
        self.zones = dict(ZONES)
        self.over_tcp = 0
        self.service = NameService(self._zone, lambda name: self.faults.get(name, ""), random.Random(3))
        self.resolver = DnsResolver(SERVERS, TIMEOUT)
        for place in SERVERS:
            lab.network.name_servers[place] = self.service
            lab.network.listen(self._over_tcp, *place)

    def _zone(self, name: str) -> Zone | None:
        return next((zone for apex, zone in self.zones.items() if name == apex or name.endswith("." + apex)), None)

    def _over_tcp(self) -> OverTcp:
        self.over_tcp += 1
        return OverTcp(self.service)

    def mx(self, domain: str = "here.example") -> Lookup:
        return self.lab.run(self.resolver.mail_exchangers(domain)).lookup

    def seconds(self, deed: Callable[[], object]) -> float:
        before = self.lab.loop.time()
        deed()
        return self.lab.loop.time() - before


@pytest.fixture
def names(lab: Lab) -> Names:
    return Names(lab)


def test_records_are_found(names: Names) -> None:
    answer = names.lab.run(names.resolver.mail_exchangers("here.example"))
    assert answer.lookup is Lookup.FOUND
    assert answer.exchangers == (MailExchanger(10, HOST), MailExchanger(20, "mx2.here.example"))
    assert names.lab.run(names.resolver.addresses(HOST)).addresses == ("198.51.100.1", "2001:db8::1")


def test_a_null_mx_is_one(names: Names) -> None:
    assert names.lab.run(names.resolver.mail_exchangers("null.example")).exchangers == (MailExchanger(0, ""),)


def test_what_is_not_there(names: Names) -> None:
    assert names.mx("bare.example") is Lookup.NODATA
    assert names.mx("nowhere.example") is Lookup.NXDOMAIN
    assert names.lab.run(names.resolver.addresses("mx9.here.example")).lookup is Lookup.NODATA


@pytest.mark.parametrize(
    ("fault", "lookup", "least", "most"),
    [
        ("servfail", Lookup.TROUBLE, 0, 1),
        ("refused", Lookup.TROUBLE, 0, 1),
        ("nxdomain", Lookup.NXDOMAIN, 0, 1),
        ("cut", Lookup.FOUND, 0, 1),
        ("silent", Lookup.TROUBLE, TIMEOUT - 1, TIMEOUT + 1),
        ("garbage", Lookup.TROUBLE, TIMEOUT - 1, TIMEOUT + 1),
    ],
)
def test_a_fault_of_a_domain(names: Names, fault: str, lookup: Lookup, least: float, most: float) -> None:
    names.faults["here.example"] = fault
    found: list[Lookup] = []
    assert least <= names.seconds(lambda: found.append(names.mx())) <= most
    assert found == [lookup]
    assert names.mx("null.example") is Lookup.FOUND
    assert not names.lab.loop.blocked


@pytest.mark.parametrize("fault", ["servfail", "silent", "garbage", "refused", "nxdomain"])
def test_a_fault_that_ends_is_over(names: Names, fault: str) -> None:
    names.faults["here.example"] = fault
    assert names.mx() is not Lookup.FOUND
    names.faults.clear()
    names.lab.run(asyncio.sleep(301))
    assert names.mx() is Lookup.FOUND


def test_a_zone_changes(names: Names) -> None:
    assert names.mx() is Lookup.FOUND
    names.zones["here.example"] = Zone(((5, "other.here.example"),), {})
    names.lab.run(asyncio.sleep(3601))
    found = names.lab.run(names.resolver.mail_exchangers("here.example"))
    assert found.exchangers == (MailExchanger(5, "other.here.example"),)


def test_a_cut_answer_is_asked_for_over_tcp(names: Names) -> None:
    assert names.mx() is Lookup.FOUND
    assert names.over_tcp == 0
    names.faults["null.example"] = "cut"
    assert names.mx("null.example") is Lookup.FOUND
    assert names.over_tcp == 1
    names.lab.run(asyncio.sleep(1))
    assert not names.lab.network.ends


def test_where_there_is_no_way_to_tcp_a_cut_answer_is_none(names: Names) -> None:
    names.faults["here.example"] = "cut"
    names.lab.network.route = lambda machine, place: Route("refused")
    assert names.mx() is Lookup.TROUBLE


def test_a_dead_server_leaves_the_other(names: Names) -> None:
    del names.lab.network.name_servers[SERVERS[0]]
    assert names.mx() is Lookup.FOUND


def test_questions_that_come_in_pieces_and_together_over_tcp(names: Names) -> None:
    question = bytes.fromhex("1234 0100 0001 0000 0000 0000 04 68657265 07 6578616d706c65 00 000f 0001")
    framed = len(question).to_bytes(2, "big") + question

    async def talk() -> list[bytes]:
        reader, writer = await asyncio.open_connection(*SERVERS[0])
        for piece in (framed[:1], framed[1:9], framed[9:] + framed * 9):
            writer.write(piece)
            await asyncio.sleep(1)
        answers = [await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big")) for _ in range(10)]
        writer.close()
        return answers

    async def in_time() -> list[bytes]:
        async with asyncio.timeout(60):
            return await talk()

    answers = names.lab.run(in_time())
    assert len(set(answers)) == 1
    assert answers[0][:2] == question[:2]
