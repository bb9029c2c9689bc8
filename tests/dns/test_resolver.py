"""Table B, the adapter's part: what the wire says and what becomes of it. Time is virtual, the packets are real."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import dns.flags
import dns.message
import pytest
import uvloop

from mta.dns.resolver import ADDRESSES_KEPT, QUESTIONS_AT_ONCE, DnsResolver
from mta.dns.servers import REST
from mta.ports.names import AddressAnswer, Lookup, MailExchanger
from tests.support.dns_server import DROP, GARBAGE, TRUNCATE, DnsServer, Query, Zones
from tests.support.virtual import run_virtual

TIMEOUT = 4.0
MANY = [f"{i} mx{i}.{'x' * 40}.test." for i in range(60)]
LOOP = {("a.test", "CNAME"): ["b.test."], ("b.test", "CNAME"): ["a.test."]}
CHAIN = {(f"c{i}.test", "CNAME"): [f"c{i + 1}.test."] for i in range(9)}


@asynccontextmanager
async def serving(zones: Zones) -> AsyncIterator[tuple[DnsServer, DnsResolver]]:
    async with DnsServer(zones) as server:
        yield server, DnsResolver([server.address], TIMEOUT)


def elapsed(since: float) -> float:
    return asyncio.get_running_loop().time() - since


def now() -> float:
    return asyncio.get_running_loop().time()


# ---------------------------------------------------------------- each outcome
MX_OUTCOMES: list[tuple[str, Zones, str, Lookup]] = [
    ("records", {("e.test", "MX"): ["10 mx.e.test."]}, "e.test", Lookup.FOUND),
    ("no records but the name", {("e.test", "A"): ["192.0.2.1"]}, "e.test", Lookup.NODATA),
    ("names below only", {("w.e.test", "A"): ["192.0.2.1"]}, "e.test", Lookup.NODATA),
    ("no such name", {}, "e.test", Lookup.NXDOMAIN),
    ("b20 SERVFAIL", {("e.test", "MX"): "SERVFAIL", ("e.test", "A"): ["192.0.2.80"]}, "e.test", Lookup.TROUBLE),
    ("b20 REFUSED", {("e.test", "MX"): "REFUSED"}, "e.test", Lookup.TROUBLE),
    ("b20 FORMERR", {("e.test", "MX"): "FORMERR"}, "e.test", Lookup.TROUBLE),
    ("NOTIMP", {("e.test", "MX"): "NOTIMP"}, "e.test", Lookup.TROUBLE),
    ("b20 silence", {("e.test", "MX"): DROP}, "e.test", Lookup.TROUBLE),
    ("no DNS message", {("e.test", "MX"): GARBAGE}, "e.test", Lookup.TROUBLE),
    ("cut, then silence over TCP", {("e.test", "MX"): TRUNCATE}, "e.test", Lookup.TROUBLE),
    ("an alias with records", {("a.test", "CNAME"): ["b.test."], ("b.test", "MX"): ["1 m.test."]}, "a.test", Lookup.FOUND),
    ("an alias without", {("a.test", "CNAME"): ["b.test."], ("b.test", "A"): ["192.0.2.1"]}, "a.test", Lookup.NODATA),
    ("an alias to nothing", {("a.test", "CNAME"): ["b.test."]}, "a.test", Lookup.NXDOMAIN),
    ("an alias to trouble", {("a.test", "CNAME"): ["b.test."], ("b.test", "*"): "SERVFAIL"}, "a.test", Lookup.TROUBLE),
    ("8 aliases", {**CHAIN, ("c8.test", "CNAME"): None, ("c8.test", "MX"): ["1 m.test."]}, "c0.test", Lookup.FOUND),
    ("9 aliases", {**CHAIN, ("c9.test", "MX"): ["1 m.test."]}, "c0.test", Lookup.TROUBLE),
    ("an alias loop", {**LOOP}, "a.test", Lookup.TROUBLE),
    *(
        (f"b25 {name[:20]!r}", {}, name, Lookup.MALFORMED)
        for name in (f"{'a' * 64}.test", "example..test", "a" * 250, "a." * 127 + "test", "[127.0.0.1]", "[IPv6:::1]",
                     "-x.example.test", "☃.example", "e.test.", "", "a\\.b.test")
    ),
    ("b25 localhost", {}, "localhost", Lookup.NXDOMAIN),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "name", "lookup"), [o[1:] for o in MX_OUTCOMES], ids=[o[0] for o in MX_OUTCOMES])
def test_mx_outcomes(zones: Zones, name: str, lookup: Lookup) -> None:
    async def scenario() -> None:
        async with serving(zones) as (server, resolver):
            started = now()
            answer = await resolver.mail_exchangers(name)
            assert answer.lookup is lookup, answer
            assert bool(answer.exchangers) is (lookup is Lookup.FOUND)
            assert bool(answer.detail) is (lookup in (Lookup.TROUBLE, Lookup.MALFORMED))
            assert elapsed(started) <= TIMEOUT
            assert server.count("A") + server.count("AAAA") == 0
            assert bool(server.queries) is (lookup is not Lookup.MALFORMED)

    run_virtual(scenario())


@pytest.mark.parametrize("word", ["SERVFAIL", "REFUSED", "FORMERR"])
def test_trouble_names_the_code_and_the_server(word: str) -> None:
    async def scenario() -> None:
        async with serving({("e.test", "MX"): word}) as (server, resolver):
            answer = await resolver.mail_exchangers("e.test")
            assert answer.detail == f"{word} (127.0.0.1)"
            assert len(server.queries) == 1

    run_virtual(scenario())


FOUR, SIX = ["192.0.2.1", "192.0.2.2"], ["2001:db8::1"]
ADDRESS_OUTCOMES: list[tuple[str, Any, Any, Lookup, list[str]]] = [
    ("both families", FOUR, SIX, Lookup.FOUND, FOUR + SIX),
    ("A alone", FOUR, None, Lookup.FOUND, FOUR),
    ("AAAA alone", None, SIX, Lookup.FOUND, SIX),
    ("A, and AAAA fails", FOUR, "SERVFAIL", Lookup.FOUND, FOUR),
    ("AAAA, and A is silent", DROP, SIX, Lookup.FOUND, SIX),
    ("neither", None, None, Lookup.NODATA, []),
    ("b20 both fail", "SERVFAIL", "SERVFAIL", Lookup.TROUBLE, []),
    ("b20 A clean, AAAA fails", None, "SERVFAIL", Lookup.TROUBLE, []),
    ("A does not exist, AAAA fails", "NXDOMAIN", "REFUSED", Lookup.TROUBLE, []),
    ("no such host", "NXDOMAIN", "NXDOMAIN", Lookup.NXDOMAIN, []),
    ("a server that denies one family alone", None, "NXDOMAIN", Lookup.NODATA, []),
]


@pytest.mark.parametrize(
    ("four", "six", "lookup", "addresses"), [o[1:] for o in ADDRESS_OUTCOMES], ids=[o[0] for o in ADDRESS_OUTCOMES]
)
def test_address_outcomes(four: Any, six: Any, lookup: Lookup, addresses: list[str]) -> None:
    async def scenario() -> None:
        zones: Zones = {("h.test", "A"): four, ("h.test", "AAAA"): six, ("h.test", "TXT"): ["x"]}
        async with serving(zones) as (server, resolver):
            started = now()
            answer = await resolver.addresses("h.test")
            assert (answer.lookup, list(answer.addresses)) == (lookup, addresses)
            assert elapsed(started) <= TIMEOUT
            assert server.count("MX") == 0

    run_virtual(scenario())


def test_an_alias_s_addresses_are_those_of_its_target() -> None:
    async def scenario() -> None:
        zones: Zones = {("h.test", "CNAME"): ["t.test."], ("t.test", "A"): FOUR}
        async with serving(zones) as (_, resolver):
            assert (await resolver.addresses("h.test")).addresses == tuple(FOUR)
        async with serving(dict(LOOP)) as (_, resolver):
            assert (await resolver.addresses("a.test")).lookup is Lookup.TROUBLE

    run_virtual(scenario())


def test_b25_a_host_that_cannot_be_asked_for() -> None:
    async def scenario() -> None:
        async with serving({}) as (server, resolver):
            assert (await resolver.addresses("a..test")).lookup is Lookup.MALFORMED
            assert not server.queries

    run_virtual(scenario())


def test_b19_the_root_is_an_empty_host() -> None:
    async def scenario() -> None:
        async with serving({("e.test", "MX"): ["0 .", "10 MX.e.test."]}) as (_, resolver):
            answer = await resolver.mail_exchangers("e.test")
            assert set(answer.exchangers) == {MailExchanger(0, ""), MailExchanger(10, "mx.e.test")}

    run_virtual(scenario())


@pytest.mark.parametrize("typed", ["bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "XN--BCHER-KVA.example"])
def test_b38_the_a_label_is_asked_for(typed: str) -> None:
    async def scenario() -> None:
        async with serving({("xn--bcher-kva.example", "MX"): ["10 mx.test."]}) as (server, resolver):
            assert (await resolver.mail_exchangers(typed)).exchangers == (MailExchanger(10, "mx.test"),)
            assert server.queries == [Query("xn--bcher-kva.example", "MX", "udp")]

    run_virtual(scenario())


def test_a_cut_answer_is_asked_for_over_tcp() -> None:
    async def scenario() -> None:
        async with serving({("e.test", "MX"): MANY}) as (server, resolver):
            answer = await resolver.mail_exchangers("e.test")
            assert len(answer.exchangers) == len(MANY)
            assert [query.transport for query in server.queries] == ["udp", "tcp"]

    run_virtual(scenario())


def test_an_answer_that_is_larger_than_any_is_trouble() -> None:
    """Reading it would keep the others waiting."""

    async def scenario() -> None:
        async with serving({("e.test", "MX"): [f"10 mx{i}.{'x' * 60}.test." for i in range(1500)]}) as (_, resolver):
            answer = await resolver.mail_exchangers("e.test")
            assert answer.lookup is Lookup.TROUBLE and "octets" in answer.detail

    run_virtual(scenario())


def test_packets_that_do_not_answer_the_question_are_passed_over() -> None:
    async def scenario() -> None:
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        async with serving({("e.test", "MX"): ["10 mx.test."]}) as (server, resolver):
            other = dns.message.make_response(dns.message.make_query("e.test", "MX"))
            cut = dns.message.make_response(dns.message.make_query("e.test", "MX"))
            cut.flags |= dns.flags.TC
            server.noise = [b"", b"x", b"\xff" * 50, other.to_wire(), cut.to_wire()]
            assert (await resolver.mail_exchangers("e.test")).exchangers == (MailExchanger(10, "mx.test"),)
            assert len(server.queries) == 1
            assert not errors

    run_virtual(scenario())


def test_of_a_thousand_addresses_some_are_kept_of_both_families() -> None:
    async def scenario() -> None:
        zones: Zones = {("h.test", "A"): [f"192.0.{i // 250}.{i % 250}" for i in range(1000)], ("h.test", "AAAA"): SIX}
        async with serving(zones) as (_, resolver):
            assert len((await resolver.addresses("h.test")).addresses) == ADDRESSES_KEPT + len(SIX)

    run_virtual(scenario())


# ---------------------------------------------------------------- the cache
CACHED: list[tuple[str, Any, int, int | None, float, float]] = [
    ("a record for its TTL", ["10 m.test."], 60, 30, 59, 61),
    ("a short TTL for 5 seconds", ["10 m.test."], 0, 30, 4.5, 5.5),
    ("a long TTL for an hour", ["10 m.test."], 999_999, 30, 3599, 3601),
    ("NODATA for its SOA's", None, 60, 30, 29, 31),
    ("NXDOMAIN for its SOA's", "NXDOMAIN", 60, 30, 29, 31),
    ("a long denial for 5 minutes", "NXDOMAIN", 60, 86400, 299, 301),
    ("a denial without SOA for a second", "NXDOMAIN", 60, None, 0.9, 1.1),
    ("a failure for a second", "SERVFAIL", 60, 30, 0.9, 1.1),
]


@pytest.mark.parametrize(
    ("value", "ttl", "negative_ttl", "still", "again"), [c[1:] for c in CACHED], ids=[c[0] for c in CACHED]
)
def test_how_long_an_answer_is_remembered(
    value: Any, ttl: int, negative_ttl: int | None, still: float, again: float
) -> None:
    async def scenario() -> None:
        async with serving({("e.test", "MX"): value, ("e.test", "TXT"): ["x"]}) as (server, resolver):
            server.ttl, server.negative_ttl = ttl, negative_ttl
            first = await resolver.mail_exchangers("e.test")
            await asyncio.sleep(still)
            assert await resolver.mail_exchangers("E.test") == first
            assert server.count("MX") == 1
            await asyncio.sleep(again - still)
            assert await resolver.mail_exchangers("e.test") == first
            assert server.count("MX") == 2

    run_virtual(scenario())


def test_b20_when_dns_is_back_it_is_seen_within_a_second() -> None:
    async def scenario() -> None:
        async with serving({("e.test", "MX"): "SERVFAIL"}) as (server, resolver):
            assert (await resolver.mail_exchangers("e.test")).lookup is Lookup.TROUBLE
            server.zones["e.test", "MX"] = ["10 mx.test."]
            await asyncio.sleep(1)
            assert (await resolver.mail_exchangers("e.test")).lookup is Lookup.FOUND

    run_virtual(scenario())


# ---------------------------------------------------------------- shared questions
async def held(server: DnsServer, ask: Callable[[], Awaitable[Any]], callers: int) -> list[asyncio.Task[Any]]:
    """Callers whose question has reached the server, which has not answered."""
    server.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(ask()) for _ in range(callers)]
    await server.asked.wait()
    return tasks


def test_ten_equal_lookups_at_once_are_one_question() -> None:
    async def scenario() -> None:
        async with serving({("e.test", "MX"): ["10 mx.test."]}) as (server, resolver):
            tasks = await held(server, lambda: resolver.mail_exchangers("e.test"), 10)
            assert server.gate is not None
            server.gate.set()
            answers = await asyncio.gather(*tasks)
            assert len(set(answers)) == 1
            assert answers[0].lookup is Lookup.FOUND
            assert len(server.queries) == 1

    run_virtual(scenario())


def test_a_caller_that_goes_away_does_not_take_the_answer_from_the_others() -> None:
    async def scenario() -> None:
        async with serving({("e.test", "MX"): ["10 mx.test."]}) as (server, resolver):
            first, second = await held(server, lambda: resolver.mail_exchangers("e.test"), 2)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert server.gate is not None
            server.gate.set()
            assert (await second).lookup is Lookup.FOUND
            assert len(server.queries) == 1

    run_virtual(scenario())


def test_a_flood_of_questions_is_bounded_in_sockets_and_in_time() -> None:
    async def scenario() -> None:
        async with DnsServer({("test", "*"): DROP}) as server:
            server.zones.update({(f"d{i}.test", "MX"): DROP for i in range(3 * QUESTIONS_AT_ONCE)})
            resolver = DnsResolver([server.address], TIMEOUT)
            started = now()
            answers = await asyncio.gather(*(resolver.mail_exchangers(f"d{i}.test") for i in range(3 * QUESTIONS_AT_ONCE)))
            assert {answer.lookup for answer in answers} == {Lookup.TROUBLE}
            assert elapsed(started) <= TIMEOUT + 0.1
            assert len({query.name for query in server.queries}) <= QUESTIONS_AT_ONCE

    run_virtual(scenario())


# ---------------------------------------------------------------- several servers
def test_a_dead_first_server_costs_one_lookup_not_each() -> None:
    async def scenario() -> None:
        names = [f"d{i}.test" for i in range(4)]
        answers: Zones = {(name, "MX"): ["10 mx.test."] for name in names}
        async with DnsServer({(name, "*"): DROP for name in names}) as dead, DnsServer(answers) as alive:
            resolver = DnsResolver([dead.address, alive.address], TIMEOUT)
            for name in names[:3]:
                assert (await resolver.mail_exchangers(name)).lookup is Lookup.FOUND
            assert [query.name for query in dead.queries] == names[:1]
            dead.zones[names[3], "*"] = ["10 other.test."]
            await asyncio.sleep(REST)
            await resolver.mail_exchangers(names[3])
            assert dead.queries[-1].name == names[3]

    run_virtual(scenario())


def test_a_server_that_errs_is_passed_over_at_once() -> None:
    async def scenario() -> None:
        async with DnsServer({("e.test", "*"): "REFUSED"}) as bad, DnsServer({("e.test", "MX"): ["10 m.test."]}) as good:
            resolver = DnsResolver([bad.address, good.address], TIMEOUT)
            started = now()
            assert (await resolver.mail_exchangers("e.test")).lookup is Lookup.FOUND
            assert elapsed(started) < 1

    run_virtual(scenario())


def test_what_went_wrong_with_each_server_is_told() -> None:
    async def scenario() -> None:
        async with DnsServer({("e.test", "*"): "REFUSED"}) as refusing, DnsServer({("e.test", "*"): DROP}) as silent:
            resolver = DnsResolver([silent.address, refusing.address], TIMEOUT)
            started = now()
            answer = await resolver.mail_exchangers("e.test")
            assert answer.detail == "no answer (127.0.0.1); REFUSED (127.0.0.1)"
            assert elapsed(started) <= TIMEOUT

    run_virtual(scenario())


def test_a_lost_packet_is_sent_again() -> None:
    async def scenario() -> None:
        losses = [DROP]
        zones: Zones = {("e.test", "MX"): lambda: losses.pop() if losses else ["10 m.test."]}
        async with serving(zones) as (server, resolver):
            assert (await resolver.mail_exchangers("e.test")).lookup is Lookup.FOUND
            assert len(server.queries) == 2

    run_virtual(scenario())


def test_a_server_that_is_not_there_shows_at_once() -> None:
    async def scenario() -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            address = taken.getsockname()
        started = now()
        answer = await DnsResolver([address], TIMEOUT).mail_exchangers("e.test")
        assert answer.lookup is Lookup.TROUBLE
        assert elapsed(started) < 1

    run_virtual(scenario())


# ---------------------------------------------------------------- other loops, IPv6
async def both_transports_and_trouble() -> None:
    zones: Zones = {
        ("e.test", "MX"): MANY,
        ("h.test", "A"): FOUR,
        ("h.test", "AAAA"): SIX,
        ("s.test", "MX"): "SERVFAIL",
        ("d.test", "MX"): DROP,
    }
    async with DnsServer(zones) as server:
        resolver = DnsResolver([server.address], 1.0)
        assert len((await resolver.mail_exchangers("e.test")).exchangers) == len(MANY)
        assert await resolver.addresses("h.test") == AddressAnswer(Lookup.FOUND, tuple(FOUR + SIX))
        for name, lookup in (("s.test", Lookup.TROUBLE), ("d.test", Lookup.TROUBLE), ("n.test", Lookup.NXDOMAIN)):
            assert (await resolver.mail_exchangers(name)).lookup is lookup
    started = now()
    gone = await DnsResolver([server.address], 10.0).mail_exchangers("e.test")
    assert gone.lookup is Lookup.TROUBLE
    assert elapsed(started) < 2


async def over_ipv6() -> None:
    server = DnsServer({("e.test", "MX"): MANY})
    await server.start("::1")
    try:
        answer = await DnsResolver([server.address], TIMEOUT).mail_exchangers("e.test")
        assert len(answer.exchangers) == len(MANY)
    finally:
        await server.stop()


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("scenario", [both_transports_and_trouble, over_ipv6])
def test_on_the_loops_of_production(
    factory: Callable[[], asyncio.AbstractEventLoop], scenario: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(scenario())
