"""AUTH: what is said, what is offered, who may submit, and what guessing costs."""

import asyncio
import base64
import smtplib
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.listener import auth
from mta.listener.auth import Credentials
from mta.listener.gate import FAILURES, TURN_WAIT, Gate
from mta.listener.server import Listener
from mta.model.events import Accepted, Refused, Trouble
from mta.model.reply import Reply
from mta.passwords import Argon2Passwords, hash_password
from mta.spool.base import Spool
from tests.support import submission
from tests.support.memory_transport import MemoryTransport
from tests.support.passwords import USERS, PlainPasswords
from tests.support.smtp_client import SmtpClient
from tests.support.submission import Bench, FixedClock, MemorySpool, SeededEntropy
from tests.support.virtual import run_virtual, until

Start = Callable[..., Any]
GOOD = "\0shop\0tr0ub4dor"


def b64(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def plain(text: str) -> str:
    return f"AUTH PLAIN {b64(text)}"


async def inside_tls(running: Bench) -> SmtpClient:
    """A client whose session counts as secure, after EHLO."""
    client = await SmtpClient.connect(running.endpoint)
    newest = list(running.listener._sessions)[-1]
    newest._conversation.began_tls()
    await client.command("EHLO client.test")
    return client


@pytest.fixture
async def running(start: Start) -> Bench:
    return cast(Bench, await start(users=USERS, passwords=PlainPasswords(), allow=()))


# ---------------------------------------------------------------- what is said
async def test_ext15_plain_with_its_initial_response_and_without(running: Bench) -> None:
    async with await inside_tls(running) as client:
        assert await client.command(plain(GOOD)) == "235 2.7.0 Authentication successful"
    async with await inside_tls(running) as client:
        assert await client.command("auth plain") == "334 "
        assert await client.command(b64("shop\0shop\0tr0ub4dor")) == "235 2.7.0 Authentication successful"
    async with await inside_tls(running) as client:
        assert (await client.command(plain("\0ann@example.com\0pässwort"))).startswith("235 ")


async def test_ext15_login_with_its_initial_response_and_without(running: Bench) -> None:
    async with await inside_tls(running) as client:
        assert await client.command("AUTH LOGIN") == f"334 {b64('Username:')}"
        assert await client.command(b64("shop")) == f"334 {b64('Password:')}"
        assert (await client.command(b64("tr0ub4dor"))).startswith("235 2.7.0 ")
    async with await inside_tls(running) as client:
        assert await client.command(f"AUTH LOGIN {b64('shop')}") == f"334 {b64('Password:')}"
        assert (await client.command(b64("tr0ub4dor"))).startswith("235 2.7.0 ")


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("AUTH", "501 5.5.4"),
        ("AUTH PLAIN a b", "501 5.5.4"),
        ("AUTH CRAM-MD5", "504 5.5.4"),
        ("AUTH PLAIN =", "501 5.5.2"),
        ("AUTH PLAIN *", "501 5.7.0"),
        (f"AUTH PLAIN {b64(GOOD)[:-1]}", "501 5.5.2"),
        (f"AUTH PLAIN {b64(GOOD)}=", "501 5.5.2"),
        (f"AUTH PLAIN -{b64(GOOD)}", "501 5.5.2"),
        (f"AUTH PLAIN {b64('shop')}", "501 5.5.2"),
        (f"AUTH PLAIN {b64(GOOD + chr(0))}", "501 5.5.2"),
        (f"AUTH PLAIN {b64(b'' + bytes([0]) + b'shop' + bytes([0, 0xFF]))}", "501 5.5.2"),
    ],
)
async def test_ext15_what_is_no_authentication(running: Bench, line: str, reply: str) -> None:
    """The session goes on, and nothing of it was a guess."""
    async with await inside_tls(running) as client:
        for _ in range(4):
            assert (await client.command(line)).startswith(reply)
        assert (await client.command(plain(GOOD))).startswith("235")


async def test_ext15_a_client_may_cancel(running: Bench) -> None:
    async with await inside_tls(running) as client:
        await client.command("AUTH LOGIN")
        assert (await client.command("*")).startswith("501 5.7.0 ")
        assert (await client.command("NOOP")).startswith("250")
        await client.command("AUTH PLAIN")
        assert (await client.command("NOOP ")).startswith("501 5.5.2 "), "it is no command here"
        assert (await client.command("NOOP")).startswith("250")


async def test_ext15_a_second_auth_and_one_within_a_transaction_are_503(start: Start) -> None:
    running = await start(users=USERS, passwords=PlainPasswords())
    async with await inside_tls(running) as client:
        await client.command("MAIL FROM:<a@example.com>")
        assert (await client.command(plain(GOOD))).startswith("503 5.5.1 ")
        await client.command("RSET")
        assert (await client.command(plain(GOOD))).startswith("235")
        assert (await client.command(plain(GOOD))).startswith("503 5.5.1 ")


async def test_ext15_auth_without_ehlo_is_503(running: Bench) -> None:
    async with await inside_tls(running) as client:
        await client.command("HELO client.test")
        assert (await client.command(plain(GOOD))).startswith("503 5.5.1 ")


async def test_ext01_ext15_nothing_is_offered_or_taken_in_clear(running: Bench) -> None:
    async with await SmtpClient.connect(running.endpoint) as client:
        assert client.greeting.startswith("220 ")
        assert "AUTH" not in await client.command("EHLO client.test")
        for line in (plain(GOOD), "AUTH LOGIN", "AUTH plain"):
            assert (await client.command(line)).startswith("538 5.7.11 ")
        assert (await client.command("AUTH CRAM-MD5")).startswith("504 5.5.4 ")
        assert (await client.command("MAIL FROM:<a@example.com>")).startswith("530 5.7.0 ")


async def test_ext01_auth_is_offered_inside_tls_until_it_was_used(running: Bench) -> None:
    async with await inside_tls(running) as client:
        assert "AUTH PLAIN LOGIN" in [line[4:] for line in (await client.command("EHLO c.test")).split("\n")]
        await client.command(plain(GOOD))
        assert "AUTH" not in await client.command("EHLO c.test")
        assert (await client.command("MAIL FROM:<a@example.com>")).startswith("250"), "EHLO keeps who it is"


async def test_ext01_auth_is_unknown_where_there_are_no_users(start: Start) -> None:
    async with await inside_tls(await start()) as client:
        assert "AUTH" not in await client.command("EHLO client.test")
        assert (await client.command(plain(GOOD))).startswith("500 5.5.2 ")


async def test_lin10_lin11_long_lines(running: Bench) -> None:
    """LIN-10: up to 12288 octets with CRLF; LIN-11: one 500 5.5.6 for a longer one, and the session is in step."""
    fits = "AUTH PLAIN " + "A" * (12288 - 13)
    async with await inside_tls(running) as client:
        assert (await client.command(fits)).startswith("501 5.5.2 ")
        assert (await client.command(fits + "A")).startswith("500 5.5.6 ")
        assert (await client.command("auth plain " + "A" * 100_000)).startswith("500 5.5.6 ")
        await client.command("AUTH LOGIN")
        assert await client.command("A" * 12284) == f"334 {b64('Password:')}"
        assert (await client.command("A" * 12287)).startswith("500 5.5.6 ")
        assert (await client.command("NOOP " + "x" * 5000)).startswith("500 5.5.2 "), "other lines are as short as before"
        assert (await client.command(plain(GOOD))).startswith("235")


@given(st.binary(max_size=60))
def test_ext15_what_a_client_says_is_answered_with_a_reply_or_is_credentials(line: bytes) -> None:
    for mechanism in auth.MECHANISMS:
        exchange = auth.Exchange(mechanism)
        step: Any = exchange.challenge()
        for _ in range(3):
            step = exchange.hear(line)
            assert isinstance(step, Credentials) or step.code in (334, 501)
            if isinstance(step, Credentials) or step.code != 334:
                break
        else:
            raise AssertionError("the exchange does not end")


def test_a_password_is_not_shown() -> None:
    begun = auth.begin(plain(GOOD).removeprefix("AUTH "))
    assert not isinstance(begun, Reply)
    assert "tr0ub4dor" not in repr(begun)
    assert "tr0ub4dor" not in repr(submission.settings(users=USERS))


@pytest.mark.parametrize("initial_response", [True, False])
@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
async def test_smtplib_logs_in_with_a_real_hash(start: Start, mechanism: str, initial_response: bool) -> None:
    password = "one two"
    running = await start(users={"shop": hash_password(password)}, passwords=Argon2Passwords(), allow=())

    def log_in() -> None:
        with smtplib.SMTP(*running.endpoint, local_hostname="c.test") as client:
            [session] = running.listener._sessions
            session._conversation.began_tls()
            client.ehlo()
            client.user, client.password = "shop", password
            assert mechanism in client.esmtp_features["auth"].split()
            authenticate = client.auth_plain if mechanism == "PLAIN" else client.auth_login
            code, _ = client.auth(mechanism, authenticate, initial_response_ok=initial_response)
            assert code == 235
            client.sendmail("a@shop.test", ["b@example.org"], b"Subject: x\r\n\r\nx\r\n")

    await asyncio.to_thread(log_in)
    assert running.spool.last[0].submitter == "shop"


# ---------------------------------------------------------------- who may submit
async def test_ext14_who_is_not_allowed_may_log_in_and_then_submit(running: Bench) -> None:
    async with await inside_tls(running) as client:
        assert (await client.command("MAIL FROM:<a@example.com>")).startswith("530 5.7.0 ")
        assert (await client.command("RCPT TO:<b@example.org>")).startswith("503 ")
        await client.command(plain(GOOD))
        await client.command("RSET")
        assert (await client.submit(b"Idempotency-Key: k1\r\n\r\nx\r\n")).startswith("250 2.0.0 Ok: queued as")
    message, content = running.spool.last
    assert (message.submitter, message.scope) == ("shop", "shop")
    assert b"with ESMTPSA id" in content
    [accepted] = [fact for fact in running.facts if isinstance(fact, Accepted)]
    assert accepted.user == "shop"
    [refused] = [fact for fact in running.facts if isinstance(fact, Refused)]
    assert refused.reply.startswith("530 5.7.0") and refused.user == ""


async def test_ext14_who_is_allowed_need_not_log_in(start: Start) -> None:
    running = await start(users=USERS, passwords=PlainPasswords())
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(b"\r\nx\r\n")).startswith("250")
    assert running.spool.last[0].submitter == ""


async def test_ses29_without_users_who_is_not_allowed_is_greeted_with_554(start: Start) -> None:
    running = await start(allow=())
    async with await SmtpClient.connect(running.endpoint) as client:
        assert client.greeting.startswith("554 5.7.1 ")


# ---------------------------------------------------------------- what guessing costs
class Site:
    """A listener whose clients come over transports in memory, in virtual time."""

    def __init__(self, **changes: Any) -> None:
        self.facts: list[Any] = []
        self.clock = FixedClock()
        self.passwords = PlainPasswords()
        rules, nowhere = submission.settings(**{"users": USERS, "allow": (), **changes}), cast(Any, None)
        self.listener = Listener(
            rules, cast(Spool, MemorySpool()), self.clock, SeededEntropy(), self.facts.append, nowhere, self.passwords
        )

    def client(self, address: str = "192.0.2.1") -> "Line":
        session = self.listener._session()
        transport = MemoryTransport(session, (address, 50000))
        session._conversation.began_tls()
        line = Line(transport)
        transport.feed(b"EHLO c.test\r\n")
        return line


class Line:
    def __init__(self, transport: MemoryTransport) -> None:
        self.transport, self.read = transport, 0

    async def ask(self, line: str) -> tuple[str, float]:
        """The reply, and how many seconds it took."""
        await until(lambda: b"\r\n250 " in self.transport.written)
        seen, begun = len(self.transport.written), asyncio.get_running_loop().time()
        self.transport.feed(line.encode() + b"\r\n")
        await until(lambda: len(self.transport.written) > seen, step=0.01)
        return bytes(self.transport.written[seen:]).decode(), asyncio.get_running_loop().time() - begun


def test_ses28_each_guess_takes_longer_and_the_third_ends_the_session() -> None:
    async def run() -> None:
        site = Site()
        client = site.client()
        for guess, seconds in (("shop", 1.0), ("nobody", 2.0)):
            reply, took = await client.ask(plain(f"\0{guess}\0x"))
            assert reply == "535 5.7.8 Authentication credentials invalid\r\n"
            assert took == pytest.approx(seconds, abs=0.1)
        reply, took = await client.ask(plain("\0shop\0y"))
        assert reply == "421 4.7.0 mail.out.test Too many failed authentications\r\n"
        assert took == pytest.approx(4.0, abs=0.1)
        assert client.transport.closed.is_set()
        assert [fact.reason for fact in site.facts] == ["AUTH as shop", "AUTH as nobody", "AUTH as shop"]
        assert {fact.client for fact in site.facts} == {"192.0.2.1"}

    run_virtual(run())


def test_b56_which_names_are_known_is_not_to_be_told_by_the_time_it_takes() -> None:
    """A known name's hash may be cheaper than the one that stands in for an unknown name."""

    async def run() -> None:
        site = Site(users={"cheap": "<x>", "dear": "$argon2id$v=19$m=8192,t=2,p=1$c2FsdHNhbHQ$aGFzaA"})

        async def verify() -> None:
            await asyncio.sleep(0.05 if site.passwords.asked[-1][1] == "<x>" else 0.4)

        site.passwords.before = verify
        for name in ("cheap", "nobody", "dear"):
            client = site.client()
            for seconds in (1.0, 2.0, 4.0):
                _, took = await client.ask(plain(f"\0{name}\0y"))
                assert took == pytest.approx(seconds, abs=0.02)

    run_virtual(run())


def test_b56_a_wrong_name_costs_as_much_as_a_wrong_password_and_none_acts_for_another() -> None:
    async def run() -> None:
        site = Site()
        client = site.client()
        assert (await client.ask(plain("\0nobody\0tr0ub4dor")))[0].startswith("535")
        assert site.passwords.asked == [("tr0ub4dor", "<tr0ub4dor>")], "a hash was compared all the same"
        assert (await client.ask(plain("boss\0shop\0tr0ub4dor")))[0].startswith("535")

    run_virtual(run())


def test_ses27_a_client_that_waits_for_its_guess_holds_up_nobody() -> None:
    async def run() -> None:
        site = Site()
        guessing, other = site.client(), site.client("192.0.2.2")
        pending = asyncio.create_task(guessing.ask(plain("\0shop\0x")))
        await site.passwords.arrived.wait()
        reply, took = await other.ask("NOOP")
        assert reply.startswith("250") and took < 0.1 and not pending.done()
        assert (await pending)[0].startswith("535")

    run_virtual(run())


def test_a_client_that_hangs_up_while_it_waits_is_over_at_once_and_was_counted() -> None:
    async def run() -> None:
        site = Site()
        client = site.client()
        client.transport.feed(plain("\0shop\0x").encode() + b"\r\n")
        await site.passwords.arrived.wait()
        client.transport.reset()
        begun = asyncio.get_running_loop().time()
        await until(lambda: site.listener.sessions == 0, step=0.01)
        assert asyncio.get_running_loop().time() - begun < 0.5
        assert len(site.facts) == 1

    run_virtual(run())


def test_failures_are_counted_by_address_over_sessions() -> None:
    """Who has failed too often is not listened to, though it knew the password; others are, and so is it later."""

    async def run() -> None:
        site = Site()
        for number in range(FAILURES.burst):
            client = site.client()
            assert (await client.ask(plain(f"\0shop\0{number}")))[0].startswith("535")
        compared = len(site.passwords.asked)
        locked_out, took = await site.client().ask(plain(GOOD))
        assert locked_out.startswith("421 4.7.0 ") and took == pytest.approx(1.0, abs=0.1)
        assert len(site.passwords.asked) == compared
        assert (await site.client("192.0.2.2").ask(plain(GOOD)))[0].startswith("235")
        site.clock.at += FAILURES.period / FAILURES.amount
        assert (await site.client().ask(plain(GOOD)))[0].startswith("235")
        assert (await site.client().ask(plain(GOOD)))[0].startswith("235"), "success costs nothing"

    run_virtual(run())


def test_guesses_that_come_at_once_are_judged_one_by_one_and_no_more_than_the_share() -> None:
    """More sessions than the share, all before the first verdict."""

    async def run() -> None:
        site = Site(max_connections=500)
        busy, most = [0], [0]

        async def verify() -> None:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
            await asyncio.sleep(0.1)
            busy[0] -= 1

        site.passwords.before = verify
        lines = [site.client() for _ in range(3 * FAILURES.burst)]
        replies = await asyncio.gather(*(line.ask(plain("\0shop\0x")) for line in lines))
        assert len(site.passwords.asked) == FAILURES.burst
        codes = [reply[:3] for reply, _ in replies]
        assert (codes.count("535"), codes.count("421")) == (FAILURES.burst, 2 * FAILURES.burst)
        assert most[0] == 1

    run_virtual(run())


def test_who_knows_the_password_waits_for_its_turn_however_many_come_at_once() -> None:
    async def run() -> None:
        site = Site(max_connections=500)
        site.passwords.before = lambda: asyncio.sleep(0.1)
        lines = [site.client() for _ in range(5 * FAILURES.burst)]
        replies = await asyncio.gather(*(line.ask(plain(GOOD)) for line in lines))
        assert {reply[:3] for reply, _ in replies} == {"235"}

    run_virtual(run())


def test_an_address_that_asks_much_holds_up_itself_alone_and_not_for_long() -> None:
    async def run() -> None:
        site = Site()
        site.passwords.before = lambda: asyncio.sleep(2 * TURN_WAIT)
        first = asyncio.create_task(site.client().ask(plain(GOOD)))
        await site.passwords.arrived.wait()
        second = asyncio.create_task(site.client().ask(plain(GOOD)))
        site.passwords.before = None
        reply, took = await site.client("192.0.2.2").ask(plain(GOOD))
        assert reply.startswith("235") and took < 0.1
        reply, took = await second
        assert reply.startswith("454 4.7.0 ") and took == pytest.approx(TURN_WAIT, abs=0.1)
        assert (await first)[0].startswith("235")
        assert (await site.client().ask(plain(GOOD)))[0].startswith("235")

    run_virtual(run())


async def test_a_verdict_that_nobody_waits_for_any_more_was_counted() -> None:
    passwords, settings, forever = PlainPasswords(), submission.settings(users=USERS), asyncio.Event()
    passwords.before = forever.wait
    gate = Gate(settings, passwords, FixedClock().now, print)
    for _ in range(FAILURES.burst):
        passwords.arrived.clear()
        guess = asyncio.create_task(gate.judge(Credentials("shop", "x"), None))
        await passwords.arrived.wait()
        guess.cancel()
        with pytest.raises(asyncio.CancelledError):
            await guess
    passwords.before = None
    assert (await gate.judge(Credentials("shop", "tr0ub4dor"), None)).code == 421


def test_b56_a_wrong_name_is_measured_against_the_hash_that_costs_most() -> None:
    """Whichever the file begins with, and after a reload too."""

    async def run() -> None:
        costs = ("m=512,t=1,p=1", "m=4096,t=3,p=1", "m=8192,t=2,p=1")
        cheap, dear, dearest = (f"$argon2id$v=19${cost}$c2FsdHNhbHQ$aGFzaA" for cost in costs)
        site = Site(users={"a": cheap, "b": dearest, "c": dear})
        client = site.client()
        await client.ask(plain("\0nobody\0x"))
        site.listener.settings = submission.settings(users={"a": cheap, "c": dear}, allow=())
        await site.client().ask(plain("\0nobody\0x"))
        await client.ask(plain("\0a\0x"))
        assert [hashed for _, hashed in site.passwords.asked] == [dearest, dear, cheap]

    run_virtual(run())


def test_an_ipv6_client_is_its_network() -> None:
    async def run() -> None:
        site = Site()
        for number in range(FAILURES.burst):
            await site.client(f"2001:db8::{number}").ask(plain("\0shop\0x"))
        assert (await site.client("2001:db8::ffff").ask(plain(GOOD)))[0].startswith("421")
        assert (await site.client("2001:db8:0:1::1").ask(plain(GOOD)))[0].startswith("235")

    run_virtual(run())


def test_ext15_what_can_t_be_found_out_is_454_and_no_guess() -> None:
    async def fail() -> None:
        raise MemoryError("64 MiB")

    async def run() -> None:
        site = Site()
        client = site.client()
        site.passwords.full = True
        for _ in range(5):
            reply, took = await client.ask(plain(GOOD))
            assert reply.startswith("454 4.7.0 ") and took < 0.1
        site.passwords.full, site.passwords.before = False, fail
        reply, _ = await client.ask(plain(GOOD))
        assert reply.startswith("454 4.7.0 ") and "64 MiB" not in reply
        assert any(isinstance(fact, Trouble) and "64 MiB" in fact.detail for fact in site.facts)
        site.passwords.before = None
        assert (await client.ask(plain(GOOD)))[0].startswith("235")

    run_virtual(run())


def test_ses25_the_timer_waits_for_a_verdict() -> None:
    async def run() -> None:
        site = Site(timeout=2.0)
        client = site.client()
        site.passwords.before = lambda: asyncio.sleep(10)
        assert (await client.ask(plain(GOOD)))[0].startswith("235")
        await until(lambda: b"421 4.4.2" in client.transport.written)

    run_virtual(run())


def test_ses24_a_stop_does_not_wait_for_a_guess() -> None:
    async def run() -> None:
        site = Site()
        client = site.client()
        client.transport.feed(plain("\0shop\0x").encode() + b"\r\n")
        await site.passwords.arrived.wait()
        begun = asyncio.get_running_loop().time()
        await site.listener.stop(5.0)
        assert asyncio.get_running_loop().time() - begun < 0.1
        assert b"421 4.3.2" in client.transport.written

    run_virtual(run())


async def test_a_name_is_made_safe_before_it_is_logged(start: Start) -> None:
    running = await start(users=USERS, passwords=PlainPasswords())
    async with await inside_tls(running) as client:
        assert (await client.command(plain("\0x\r\nlevel=error \x1b[31m\0y"))).startswith("535")
    [refused] = [fact for fact in running.facts if isinstance(fact, Refused)]
    assert refused.reason == "AUTH as x\\x0d\\x0alevel=error \\x1b[31m"
