"""Mail by the servers of `[[route]]` tables: fallback, login, encryption, whose sessions carry what (B20's smarthost, CLI-01
to CLI-04 for relays, Table A with NEXT over several vias)."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mta.model.events import Trouble
from mta.model.lifecycle import Status
from mta.model.tls import TlsLevel
from mta.policy.destinations import DestinationRule, Destinations, Relay, RouteRule
from mta.ports.names import AddressAnswer, Lookup, MxAnswer
from mta.ports.scheduling import Crowded
from tests.delivery.house import BRISK, House, house
from tests.support.mx import Close, Reset, ScriptedMx, Silence, server_tls
from tests.support.ports import free_port
from tests.support.tls import issued_to, trust_file

USER, PASSWORD = "shop", "correct horse"
NAME = "relay.example.net"


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(trust_file(tmp_path)))


def at(mx: ScriptedMx, host: str = "", **how: Any) -> Relay:
    return Relay(host or mx.address, mx.port, **how)


def route(home: House, *vias: Relay | None, source: tuple[str, ...] = (), tls: TlsLevel = TlsLevel.MAY) -> None:
    home.router.destinations = Destinations((DestinationRule(("*",), tls=tls),), (RouteRule(("*",), vias, source),))


def login_at(mx: ScriptedMx, password: str = PASSWORD, **how: Any) -> Relay:
    return at(mx, NAME, user=USER, password=password, **how)


def secure(script: dict[str, Any] | None = None, **how: Any) -> ScriptedMx:
    return ScriptedMx(script, **{"tls": issued_to(NAME), "login": (USER, PASSWORD), **how})


async def once(home: House, *recipients: str, **how: Any) -> str:
    queue_id = await home.submit(*(recipients or ("ann@example.org",)), **how)
    await home.deliver(recipients[0].partition("@")[2] if recipients else "example.org")
    return queue_id


def complaints(home: House) -> list[Trouble]:
    return [it for it in home.facts if isinstance(it, Trouble)]


# ---------------------------------------------------------------- where to
async def test_mail_for_everybody_goes_by_the_relay_in_one_session(tmp_path: Path) -> None:
    """No MX record is asked for; the domains share the session."""
    async with ScriptedMx() as relay, house(tmp_path, 25) as home:
        route(home, at(relay))
        first = await once(home, "ann@example.org")
        await once(home, "bob@nowhere.test")
        assert [message.forward_paths for message in relay.messages] == [["ann@example.org"], ["bob@nowhere.test"]]
        assert len(relay.connections) == 1
        sent = await home.recipient(first)
        assert (sent.status, sent.remote_host, sent.remote_address) == (Status.SENT, relay.address, relay.address)
        assert sent.remote_id == "MX123"


async def test_the_name_of_a_relay_is_looked_up_by_its_addresses_alone(tmp_path: Path) -> None:
    async with ScriptedMx() as relay, house(tmp_path, 25) as home:
        home.names.zones["elsewhere"] = [(0, NAME, relay.address)]
        home.names.zones[NAME] = MxAnswer(Lookup.TROUBLE, detail="must not be asked")
        route(home, at(relay, NAME))
        sent = await home.recipient(await once(home))
        assert (sent.status, sent.remote_host) == (Status.SENT, NAME)


@pytest.mark.parametrize("domain", ["x..test", "[127.0.0.1", "sales", "☃.test"])
async def test_b25_an_old_row_with_no_mail_domain_ends_here_or_is_the_relays_to_refuse(tmp_path: Path, domain: str) -> None:
    async with ScriptedMx({"RCPT": "550 5.1.2 no such domain"}) as relay, house(tmp_path, 25) as home:
        route(home, at(relay))
        queue_id = await home.submit("ann@old.test")
        with closing(sqlite3.connect(tmp_path / "spool.db", isolation_level=None)) as spool:
            spool.execute("UPDATE recipients SET destination = ?, address = ?", (domain, f"ann@{domain}"))
            spool.execute("UPDATE destinations SET destination = ?", (domain,))
        await home.deliver(domain)
        view = await home.show(queue_id)
        assert view.damaged or view.recipients[0].status is Status.FAILED
        assert not complaints(home)


ANSWERS = [Lookup.NXDOMAIN, Lookup.NODATA, Lookup.TROUBLE, Lookup.MALFORMED]


@pytest.mark.parametrize("lookup", ANSWERS)
async def test_b20_a_relay_that_the_name_service_does_not_find_is_an_operators_error(
    tmp_path: Path, lookup: Lookup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary, also NXDOMAIN; there is no fallback that was not configured."""

    async def addresses(host: str) -> AddressAnswer:
        return AddressAnswer(lookup, detail="as it is")

    async with ScriptedMx() as own, house(tmp_path, own.port) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", own.address)]
        monkeypatch.setattr(home.names, "addresses", addresses)
        route(home, Relay(NAME, 587))
        waits = await home.recipient(await once(home))
        assert waits.status is Status.PENDING and waits.attempts == 1
        assert waits.reply is not None and waits.reply.enhanced == ("4.4.3" if lookup is Lookup.TROUBLE else "4.4.4")
        assert NAME in waits.reply.text
        assert not own.connections


async def test_b21_a_relay_that_is_our_own_listener_is_a_loop_to_be_mended(tmp_path: Path) -> None:
    async with ScriptedMx() as relay, house(tmp_path, 25) as home:
        home.router.rules = type(home.router.rules)(frozenset(), frozenset({(relay.address, relay.port)}))
        route(home, at(relay))
        waits = await home.recipient(await once(home))
        assert waits.status is Status.PENDING
        assert waits.reply is not None and waits.reply.enhanced == "4.4.6"
        assert not relay.connections


# ---------------------------------------------------------------- fallback
DEAD = {"banner": {"BANNER": "554 5.7.1 not you"}, "busy": {"BANNER": "421 4.3.2 full"}, "mail": {"MAIL": "451 4.3.0 later"},
        "gone": {"DATA": Close()}, "reset": {"RCPT": Reset()}, "silent": {"EHLO": Silence()}}  # fmt: skip


@pytest.mark.parametrize("how", DEAD)
async def test_the_next_via_is_tried_in_the_same_attempt(tmp_path: Path, how: str) -> None:
    """Relay, relay, then the domain's own server; also where a relay dies in the middle."""
    async with ScriptedMx(DEAD[how]) as first, ScriptedMx(DEAD[how], host="127.0.0.2") as second:
        async with ScriptedMx(host="127.0.0.3") as own, house(tmp_path, own.port, timeouts=BRISK) as home:
            home.names.zones["example.org"] = [(10, "mx.example.org", own.address)]
            route(home, at(first), at(second), None)
            queue_id = await once(home)
            sent = await home.recipient(queue_id)
            assert (sent.status, sent.attempts, sent.remote_host) == (Status.SENT, 1, "mx.example.org")
            assert await home.events(queue_id) == ["accepted", "attempt", "attempt", "sent"]


async def test_a_relay_at_the_address_of_a_dead_mail_server_is_tried(tmp_path: Path) -> None:
    """One machine is both, and port 25 is closed on the way, as at most clouds."""
    async with ScriptedMx() as relay, house(tmp_path, free_port(), timeouts=BRISK) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", relay.address)]
        route(home, None, at(relay))
        for _ in range(2):
            assert (await home.recipient(await once(home))).status is Status.SENT


async def test_a_relay_at_the_address_of_a_server_whose_tls_fails_is_spoken_to_with_tls(tmp_path: Path) -> None:
    """One machine is both; the server's TLS is broken, the relay's is not."""
    async with ScriptedMx({"TLS": Close()}, tls=server_tls("mx")) as own, ScriptedMx(tls=server_tls("mx")) as relay:
        async with house(tmp_path, own.port) as home:
            home.names.zones["example.org"] = [(10, "mx.example.org", own.address)]
            await once(home, "ann@example.org")
            route(home, at(relay))
            await once(home, "bob@other.test")
            assert own.address == relay.address
            assert [[it.tls for it in mx.messages] for mx in (own, relay)] == [[False], [True]]


async def test_a_relay_at_the_address_of_a_server_that_can_not_take_a_mail_is_asked_itself(tmp_path: Path) -> None:
    """The server offers no SMTPUTF8, the relay does."""
    relay = ScriptedMx(extensions=("SMTPUTF8", "8BITMIME"))
    async with ScriptedMx(extensions=()) as own, relay, house(tmp_path, own.port) as home:
        assert own.address == relay.address
        home.names.zones["example.org"] = [(10, "mx.example.org", own.address)]
        route(home, None, at(relay))
        await once(home)
        sent = await home.recipient(await once(home, "jörg@example.org", utf8=True))
        assert (sent.status, len(own.messages), len(relay.messages)) == (Status.SENT, 1, 1)


async def test_a_domain_that_can_not_be_found_goes_by_the_relay_behind(tmp_path: Path) -> None:
    async with ScriptedMx() as relay, house(tmp_path, 25) as home:
        route(home, None, at(relay))
        assert (await home.recipient(await once(home, "ann@unknown.test"))).status is Status.SENT


async def test_a_final_finding_about_the_domain_waits_for_a_relay_that_may_come_back(tmp_path: Path) -> None:
    async with house(tmp_path, 25) as home:
        route(home, Relay(NAME, 587), None)
        waits = await home.recipient(await once(home, "ann@unknown.test"))
        assert waits.status is Status.PENDING and waits.reply is not None and NAME in waits.reply.text


async def test_greetings_that_refuse_us_fail_no_mail_where_a_relay_is_on_the_route(tmp_path: Path) -> None:
    """Also with a 521 everywhere, which is final without a relay."""
    async with ScriptedMx({"BANNER": "521 5.3.2 no"}) as relay, house(tmp_path, 25) as home:
        route(home, at(relay))
        queue_id = await home.submit("ann@example.org")
        for count in range(1, 6):
            home.clock.at += 86400 / 4
            home.hosts.revive()
            await home.deliver()
            waits = await home.recipient(queue_id)
            assert (waits.status, waits.attempts) == (Status.PENDING, count)
            assert waits.reply is not None and waits.reply.code == 521


@pytest.mark.parametrize(
    ("script", "code"),
    [({"MAIL": "550 5.7.1 not this sender"}, 550), ({"RCPT": "550 5.1.1 nobody"}, 550), ({"FINAL": "554 5.6.0 spam"}, 554)],
)
async def test_what_a_relay_says_of_the_mail_is_final(tmp_path: Path, script: dict[str, Any], code: int) -> None:
    async with ScriptedMx(script) as relay, ScriptedMx(host="127.0.0.2") as other, house(tmp_path, 25) as home:
        route(home, at(relay), at(other))
        failed = await home.recipient(await once(home))
        assert failed.status is Status.FAILED and failed.reply is not None and failed.reply.code == code
        assert not other.connections


TOO_MANY = "421 4.7.0 too many connections"


async def test_a_crowd_at_the_domains_own_server_is_not_told_of_the_relay_before_it(tmp_path: Path) -> None:
    async with ScriptedMx({"BANNER": "421 4.3.2 no"}) as relay, ScriptedMx(host="127.0.0.2") as own:
        async with house(tmp_path, own.port) as home:
            own.script["BANNER"] = ["220 own ESMTP", TOO_MANY]
            home.names.zones["example.org"] = [(10, "mx.example.org", own.address)]
            route(home, at(relay), None)
            await once(home)
            await home.submit("bob@example.org", tls_optional=True)  # not for a session that is open already
            outcome = await home.deliver()
            assert (outcome.hop, outcome.crowded) == ("example.org", Crowded("example.org", 1, TOO_MANY))


async def test_a_crowd_at_a_relay_is_told_of_it_where_its_mail_goes_on_by_another_way(tmp_path: Path) -> None:
    async with ScriptedMx() as relay, ScriptedMx(host="127.0.0.2") as own, house(tmp_path, own.port) as home:
        relay.script["BANNER"] = ["220 relay ESMTP", TOO_MANY]
        home.names.zones["example.org"] = [(10, "mx.example.org", own.address)]
        route(home, at(relay), None)
        await once(home)
        await home.submit("bob@example.org", tls_optional=True)
        outcome = await home.deliver()
        assert outcome.trouble is None and outcome.hop == "example.org"
        assert outcome.crowded == Crowded(home.router.hop("example.org"), 1, TOO_MANY)


# ---------------------------------------------------------------- whose session
async def test_a_session_of_a_domains_own_server_carries_no_other_domains_mail(tmp_path: Path) -> None:
    """It was opened because the relay is down."""
    async with ScriptedMx({"BANNER": "421 4.3.2 no"}) as relay, ScriptedMx(host="127.0.0.2") as own:
        async with ScriptedMx(host="127.0.0.3", port=own.port) as other, house(tmp_path, own.port) as home:
            home.names.zones["example.org"] = [(10, "mx.example.org", own.address)]
            home.names.zones["other.test"] = [(10, "mx.other.test", other.address)]
            route(home, at(relay), None)
            await once(home, "ann@example.org")
            await once(home, "bob@other.test")
            await once(home, "ann@example.org")
            assert [message.forward_paths for message in own.messages] == [["ann@example.org"]] * 2
            assert len(own.connections) == 1
            assert [message.forward_paths for message in other.messages] == [["bob@other.test"]]


async def test_a_session_logged_in_as_one_carries_nobody_elses_mail(tmp_path: Path) -> None:
    async with ScriptedMx(tls=issued_to("127.0.0.1"), login=(USER, PASSWORD)) as relay, house(tmp_path, 25) as home:
        anonymous, known = at(relay), at(relay, user=USER, password=PASSWORD)
        home.router.destinations = Destinations(
            (), (RouteRule(("shop.test",), (known,)), RouteRule(("bank.test",), (anonymous,)))
        )
        await once(home, "ann@shop.test")
        waits = await home.recipient(await once(home, "ann@bank.test"))
        assert waits.status is Status.PENDING and len(relay.messages) == 1
        await once(home, "bob@shop.test")
        assert len(relay.messages) == 2 and len(relay.logins) == 1


async def test_a_session_that_was_not_verified_carries_no_mail_that_asks_for_it(tmp_path: Path) -> None:
    async with ScriptedMx(tls=server_tls("mx")) as relay, house(tmp_path, 25) as home:
        strict = DestinationRule(("bank.test",), tls=TlsLevel.VERIFY)
        home.router.destinations = Destinations((strict,), (RouteRule(("*",), (at(relay),)),))
        await once(home, "ann@shop.test")
        assert (await home.recipient(await once(home, "ann@bank.test"))).status is Status.PENDING
        assert len(relay.messages) == 1


# ---------------------------------------------------------------- login
@pytest.mark.parametrize("implicit", [False, True])
async def test_a_login_is_inside_tls_that_was_verified(tmp_path: Path, implicit: bool) -> None:
    async with secure(implicit=implicit) as relay, house(tmp_path, 25) as home:
        home.names.zones["elsewhere"] = [(0, NAME, relay.address)]
        route(home, login_at(relay, implicit_tls=implicit))
        sent = await home.recipient(await once(home))
        assert sent.status is Status.SENT
        assert relay.logins == [("PLAIN", USER, PASSWORD)] and relay.messages[0].tls
        assert not [command for command in relay.commands if PASSWORD in command]


LOGINS: dict[str, tuple[dict[str, Any], str, str]] = {
    "wrong password": ({"login": (USER, "another")}, "4.7.8", "535"),
    "temporary": ({"script": {"AUTH": "454 4.7.0 not now"}}, "4.7.0", "454"),
    "no AUTH": ({"login": None}, "4.7.8", "offers no AUTH"),
    "no AUTH that we know": ({"mechanisms": "CRAM-MD5 XOAUTH2"}, "4.7.8", "CRAM-MD5 XOAUTH2"),
    "no TLS": ({"tls": None}, "4.7.10", "does not offer STARTTLS"),
    "TLS refused": ({"script": {"STARTTLS": "454 4.7.0 not now"}}, "4.7.0", "454"),
    "TLS broken": ({"script": {"TLS": Close()}}, "4.7.5", "handshake failed"),
    "another's certificate": ({"tls": issued_to("mx.example.org")}, "4.7.5", "certificate is not valid"),
    "an unknown authority": ({"tls": server_tls(NAME)}, "4.7.5", "certificate is not valid"),
    "no EHLO": ({"script": {"EHLO": "500 5.5.2 what?"}}, "4.7.10", "500"),
    "asks again": ({"script": {"MAIL": "530 5.7.0 Authentication required"}}, "4.7.8", "530"),
}


@pytest.mark.parametrize("case", LOGINS)
async def test_a_relay_that_we_can_not_log_in_at_bounces_nothing(tmp_path: Path, case: str) -> None:
    """Temporary whatever it says; in clear neither the password nor mail goes; the next via has it."""
    how, status, words = LOGINS[case]
    async with secure(**how) as relay, ScriptedMx(host="127.0.0.2") as other, house(tmp_path, 25) as home:
        home.names.zones["elsewhere"] = [(0, NAME, relay.address)]
        route(home, login_at(relay))
        queue_id = await once(home)
        waits = await home.recipient(queue_id)
        assert waits.status is Status.PENDING and waits.reply is not None
        assert words in str(waits.reply), waits.reply
        assert not relay.messages
        assert [it.tls for it in relay.connections if "AUTH" in it.verbs] in ([], [True])
        assert [trouble.severity for trouble in complaints(home)] == (["error"] if status == "4.7.8" else [])
        assert PASSWORD not in repr(home.facts) + repr(await home.show(queue_id)) + repr(home.router)
        route(home, login_at(relay), at(other))
        assert (await home.recipient(await once(home, "bob@example.org"))).status is Status.SENT
        assert other.messages


async def test_one_complaint_a_minute_not_one_for_each_message(tmp_path: Path) -> None:
    async with secure(login=(USER, "another")) as relay, house(tmp_path, 25) as home:
        home.names.zones["elsewhere"] = [(0, NAME, relay.address)]
        route(home, login_at(relay))
        for name in ("ann", "bob", "cid"):
            home.hosts.revive()
            await once(home, f"{name}@{name}.test")
        (trouble,) = complaints(home)
        assert str(login_at(relay)) in trouble.what and USER in trouble.what and "535" in trouble.detail


async def test_a_relay_that_refuses_our_login_is_not_asked_by_each_destination(tmp_path: Path) -> None:
    """It would lock us out."""
    async with secure(login=(USER, "another")) as relay, house(tmp_path, 25) as home:
        home.names.zones["elsewhere"] = [(0, NAME, relay.address)]
        route(home, login_at(relay))
        for name in ("ann", "bob", "cid"):
            await once(home, f"{name}@{name}.test")
        assert len(relay.logins) == 1


# ---------------------------------------------------------------- encryption without a login
@pytest.mark.parametrize(
    ("level", "tls", "sent", "encrypted"),
    [
        (TlsLevel.MAY, None, True, False),
        (TlsLevel.MAY, server_tls("mx"), True, True),
        (TlsLevel.NONE, server_tls("mx"), True, False),
        (TlsLevel.ENCRYPT, server_tls("mx"), True, True),
        (TlsLevel.ENCRYPT, None, False, False),
        (TlsLevel.VERIFY, server_tls("mx"), False, False),
        (TlsLevel.VERIFY, issued_to("127.0.0.1"), True, True),
        (TlsLevel.DANE, server_tls("mx"), False, False),
    ],
)
async def test_what_the_destination_asks_of_encryption_holds_at_the_relay(
    tmp_path: Path, level: TlsLevel, tls: Any, sent: bool, encrypted: bool
) -> None:
    async with ScriptedMx(tls=tls) as relay, house(tmp_path, 25) as home:
        route(home, at(relay), tls=level)
        found = await home.recipient(await once(home))
        assert (found.status is Status.SENT) is sent
        assert [message.tls for message in relay.messages] == ([encrypted] if sent else [])


async def test_required_tls_that_breaks_again_and_again_never_ends_in_clear(tmp_path: Path) -> None:
    """Unlike opportunistic TLS from the second attempt on."""
    script = {"EHLO": [b"250-mx\r\n250 STARTTLS\r\n", Close(), b"250-mx\r\n250 STARTTLS\r\n", Close()] * 3}
    async with ScriptedMx(script, tls=server_tls("mx")) as relay, house(tmp_path, 25) as home:
        route(home, at(relay), tls=TlsLevel.ENCRYPT)
        queue_id = await home.submit("ann@example.org")
        for _ in range(3):
            home.clock.at += 86400
            home.hosts.revive()
            await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.PENDING
        assert not [it for connection in relay.connections for it in connection.verbs if it == "MAIL"]


# ---------------------------------------------------------------- source addresses
def peers(mx: ScriptedMx) -> Iterator[str]:
    return (connection.tcp.get_extra_info("peername")[0] for connection in mx.connections)


async def test_mail_comes_from_the_source_of_the_route_in_each_family(tmp_path: Path) -> None:
    """At a relay and at the domain's own server; where a family has none the system chooses."""
    async with ScriptedMx() as four, ScriptedMx(host="::1", port=four.port) as six, house(tmp_path, four.port) as home:
        home.names.zones["four.test"] = [(10, "mx.four.test", four.address)]
        home.names.zones["six.test"] = [(10, "mx.six.test", six.address)]
        route(home, None, source=("127.9.8.7",))
        for domain in ("four.test", "six.test"):
            assert (await home.recipient(await once(home, f"ann@{domain}"))).status is Status.SENT
        route(home, at(four), source=("::1", "127.9.8.6"))
        await once(home, "ann@other.test")
        assert [*peers(four)] == ["127.9.8.7", "127.9.8.6"] and [*peers(six)] == ["::1"]


async def test_a_source_that_is_not_there_is_temporary_and_no_fault_of_the_server(tmp_path: Path) -> None:
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", mx.address)]
        route(home, None, source=("192.0.2.5",))
        waits = await home.recipient(await once(home))
        assert waits.status is Status.PENDING and waits.reply is not None and "192.0.2.5" in waits.reply.text
        (trouble,) = complaints(home)
        assert trouble.severity == "error" and "192.0.2.5" in trouble.what
        assert home.hosts.dead((mx.address, mx.port)) is None
        route(home, None)
        assert (await home.recipient(await once(home, "bob@example.org"))).status is Status.SENT
