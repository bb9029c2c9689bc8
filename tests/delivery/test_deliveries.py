"""Deliveries to scripted servers: recipients, sessions, doubts, stops, troubles of our own."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mta.model.envelope import Notice
from mta.model.events import Settled, Trouble
from mta.model.lifecycle import Event, Status
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.ports.names import AddressAnswer
from mta.spool.base import Selection, SpoolError
from mta.spool.due import SMALL
from tests.delivery.house import CONTENT, POLICY, House, house
from tests.support.mx import Close, Hold, ScriptedMx, Silence, server_tls


def one_mx(home: House, domain: str = "example.org") -> None:
    home.names.zones[domain] = [(10, f"mx.{domain}", "127.0.0.1")]


# ---------------------------------------------------------------- recipients
async def test_b17_one_bad_recipient_spoils_nothing(tmp_path: Path):
    """B17: 250, 550 and 452 4.5.3 to three RCPT; the next transaction offers only what the server put off."""
    replies = ["250 2.1.5 ok", "550 5.1.1 no such user", "452 4.5.3 too many"]
    async with ScriptedMx({"RCPT": replies}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", "b@example.org", "c@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id, "c@example.org")).attempts == 0, "not a failure of anybody's"
        await home.deliver()
        states = [(it.address, it.status, it.attempts) for it in (await home.show(queue_id)).recipients]
        assert states == [
            ("a@example.org", Status.SENT, 1), ("b@example.org", Status.FAILED, 1), ("c@example.org", Status.SENT, 1),
        ]  # fmt: skip
        assert [it.forward_paths for it in mx.messages] == [["a@example.org"], ["c@example.org"]]
        assert len(mx.connections) == 1, "the session is used again"


async def test_b17_a_421_behind_an_accepted_recipient_delivers_to_nobody(tmp_path: Path):
    """B17, Q10: all wait, the 421's text is kept."""
    steps = ["250 2.1.5 ok", ("421 4.3.2 closing for lunch", Close())]
    async with ScriptedMx({"RCPT": steps}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", "b@example.org")
        outcome = await home.deliver()
        assert outcome.trouble is not None
        for it in (await home.show(queue_id)).recipients:
            assert (it.status, it.reply and it.reply.text) == (Status.PENDING, "closing for lunch")
        assert not mx.messages


async def test_b17_a_354_although_all_were_refused_gets_a_lone_dot(tmp_path: Path):
    """B17, CLI-11: pipelined DATA is answered 354 with no recipient accepted."""
    async with ScriptedMx({"RCPT": ["550 5.1.1 no"], "DATA": ["354 go"]}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("nobody@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.FAILED
        assert [it.raw for it in mx.messages] == [b""]


async def test_more_than_a_hundred_recipients_go_in_several_transactions(tmp_path: Path):
    """CLI-10: and each result is durable before the next batch (SPL-05)."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit(*(f"r{number}@example.org" for number in range(250)))
        sizes = []
        while not (await home.deliver()).idle:
            sizes.append(sum(it.status is Status.SENT for it in (await home.show(queue_id)).recipients))
        assert sizes == [100, 200, 250]
        assert [len(it.rcpts) for it in mx.messages] == [100, 100, 50]


async def test_rcptmax_of_the_server_is_obeyed(tmp_path: Path):
    async with ScriptedMx(extensions=("PIPELINING", "LIMITS RCPTMAX=2")) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit(*(f"r{number}@example.org" for number in range(5)))
        while not (await home.deliver()).idle:
            pass
        assert [len(it.rcpts) for it in mx.messages] == [2, 2, 1]


# ---------------------------------------------------------------- sessions
async def test_a_session_carries_one_message_after_the_other(tmp_path: Path):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        for number in range(5):
            await home.submit(f"r{number}@example.org")
            await home.deliver()
        assert len(mx.messages) == 5
        assert len(mx.connections) == 1


@pytest.mark.parametrize("end", [Close(), ("421 4.4.2 idle too long", Close())])
async def test_a_session_that_ended_while_idle_is_no_failed_attempt(tmp_path: Path, end: object):
    """The second MAIL finds the connection gone, or is told so: the message goes over a new one, in the same attempt."""
    async with ScriptedMx({"MAIL": ["250 ok", end]}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        for name in ("a@example.org", "b@example.org"):
            queue_id = await home.submit(name)
            await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.SENT, 1)
        assert await home.events(queue_id) == ["accepted", "sent"]
        assert len(mx.connections) == 2


async def test_a_dead_host_is_remembered_for_other_domains(tmp_path: Path):
    """B22, RTY-03: what was found out with one domain's mail spares the others the timeout."""
    async with ScriptedMx(host="127.0.0.2") as second, house(tmp_path, second.port) as home:
        for domain in ("a.test", "b.test"):
            home.names.zones[domain] = [(10, "mx1.test", "127.0.0.9"), (20, "mx2.test", "127.0.0.2")]
        first = await home.submit("x@a.test")
        await home.deliver("a.test")
        assert await home.events(first) == ["accepted", "attempt", "sent"]
        later = await home.submit("x@b.test")
        await home.deliver("b.test")
        assert await home.events(later) == ["accepted", "sent"], "the dead host was not tried again"


async def test_nothing_is_counted_when_every_host_rests(tmp_path: Path):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        for domain in ("a.test", "b.test"):
            home.names.zones[domain] = [(10, "mx1.test", "127.0.0.9")]
        await home.submit("x@a.test")
        assert (await home.deliver("a.test")).trouble is not None
        queue_id = await home.submit("x@b.test")
        assert (await home.deliver("b.test")).trouble is not None
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.PENDING, 0)
        assert it.next_attempt_at is not None
        assert it.next_attempt_at > home.clock.now()


# ---------------------------------------------------------------- doubts
async def test_b57_a_doubt_is_sent_to_the_same_host_first_with_the_same_bytes(tmp_path: Path):
    """B57: no other MX in this attempt; the copy is the same."""
    async with ScriptedMx({"FINAL": [Close()]}) as first, ScriptedMx(host="127.0.0.2", port=first.port) as second:
        async with house(tmp_path, first.port) as home:
            home.names.zones["example.org"] = [(10, "mx1.example.org", "127.0.0.1"), (10, "mx2.example.org", "127.0.0.2")]
            queue_id = await home.submit("ann@example.org")
            await home.deliver()
            it = await home.recipient(queue_id)
            doubtful = it.remote_address
            assert (it.status, it.doubts, it.next_attempt_at) == (Status.IN_DOUBT, 1, home.clock.now() + 600)
            assert len(first.messages) + len(second.messages) == 1
            home.clock.at += 601
            first.script.clear()
            second.script["FINAL"] = "250 2.0.0 Ok: queued as MX123"
            await home.deliver()
            it = await home.recipient(queue_id)
            assert (it.status, it.doubts, it.attempts, it.remote_address) == (Status.SENT, 1, 2, doubtful)
            copies = (first if doubtful == "127.0.0.1" else second).messages
            assert [copy.raw for copy in copies] == [CONTENT, CONTENT]


async def test_a_held_doubt_waits_for_a_person_and_is_told(tmp_path: Path):
    async with ScriptedMx({"FINAL": [Close()]}) as mx, house(tmp_path, mx.port, doubt_delay=None) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.next_attempt_at) == (Status.IN_DOUBT, None)
        home.clock.at += 10 * 86400
        assert (await home.deliver()).idle
        people, _ = await home.spool.needing_person(10)
        assert [it.queue_id for it in people] == [queue_id]
        await home.spool.order(Event.RESOLVE_RESEND, Selection((queue_id,)), home.clock.now())
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT


async def test_a_give_up_that_comes_while_in_doubt_sends_no_further_copy(tmp_path: Path):
    async with ScriptedMx({"FINAL": Close()}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        home.clock.at += 6 * 86400
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.doubts) == (Status.DEAD, 1)
        assert len(mx.messages) == 1


async def test_a_doubt_of_the_last_attempt_is_counted_and_told(tmp_path: Path):
    """The one dot that was sent may have been taken: dead with a doubt, so its key stays taken and its DSN says so."""
    async with ScriptedMx({"FINAL": Close()}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org")
        home.clock.at += 6 * 86400
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.doubts, it.attempts) == (Status.DEAD, 1, 1)
        (mark,) = await home.spool.notices([Notice.DSN_FAILED], 10, home.clock.now())
        assert mark.doubts == 1
        await home.spool.order(Event.RESOLVE_SENT, Selection((queue_id,)), home.clock.now())
        assert (await home.recipient(queue_id)).status is Status.SENT


# ---------------------------------------------------------------- stops
async def test_b50_before_the_dot_is_aborted_uncounted_and_after_it_is_awaited(tmp_path: Path):
    """B50: three kinds in flight when the stop comes."""
    before, after = Hold("250 2.1.0 ok"), Hold("250 2.0.0 Ok: queued as LATE")
    async with ScriptedMx({"MAIL": before}) as early, ScriptedMx({"FINAL": after}, host="127.0.0.2", port=early.port) as mx:
        async with house(tmp_path, early.port) as home:
            home.names.zones["early.test"] = [(10, "mx.early.test", "127.0.0.1")]
            home.names.zones["late.test"] = [(10, "mx.late.test", "127.0.0.2")]
            ids = [await home.submit("a@early.test"), await home.submit("a@late.test")]
            tasks = [asyncio.create_task(home.deliver(name)) for name in ("early.test", "late.test")]
            await before.reached.wait()
            await after.reached.wait()
            stop = asyncio.create_task(home.delivery.stop(10))
            await asyncio.wait([tasks[0]])
            assert not stop.done()
            after.release()
            await stop
            await asyncio.gather(*tasks, return_exceptions=True)
            states = [await home.recipient(it) for it in ids]
            assert [(it.status, it.attempts) for it in states] == [(Status.PENDING, 0), (Status.SENT, 1)]
            assert await home.spool.next_due("early.test", home.clock.now()) == home.clock.now(), "due at once"
            before.release()
    assert len(mx.messages) == 1


async def test_b50_a_reply_that_does_not_come_in_time_is_found_in_doubt_by_the_next_start(tmp_path: Path):
    async with ScriptedMx({"FINAL": Silence()}) as mx:
        async with house(tmp_path, mx.port) as home:
            one_mx(home)
            queue_id = await home.submit("a@example.org")
            task = asyncio.create_task(home.deliver())
            await mx.until(lambda: mx.messages)
            await home.delivery.stop(0.05)
            await asyncio.gather(task, return_exceptions=True)
        async with house(tmp_path, mx.port) as home:
            it = await home.recipient(queue_id)
            assert (it.status, it.doubts, it.attempts) == (Status.IN_DOUBT, 1, 1)


async def test_a_stop_without_patience_waits_until_what_it_has_ended_is_given_back(tmp_path: Path, monkeypatch):
    """Else that comes when the spool is closed: here from inside name service, some turns of the loop later."""
    async with house(tmp_path, 25) as home:
        asked = asyncio.Event()

        async def addresses(host: str) -> AddressAnswer:
            asked.set()
            return (await asyncio.gather(asyncio.gather(asyncio.Event().wait()), return_exceptions=False))[0]

        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        monkeypatch.setattr(home.names, "addresses", addresses)
        queue_id = await home.submit("ann@example.org")
        delivering = asyncio.create_task(home.deliver())
        await asked.wait()
        await home.delivery.stop(0)
        assert delivering.done() and not home.delivery.claims
        assert (await home.recipient(queue_id)).attempts == 0


async def test_b50_a_claim_that_comes_while_deliveries_stop_goes_back_untried(tmp_path: Path, monkeypatch):
    """It is in no list yet when what is under way is ended, and must not come as far as its dot after that."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        claim, asked, stopped = home.spool.claim, asyncio.Event(), asyncio.Event()

        async def late(*arguments: object) -> object:
            found = await claim(*arguments)
            asked.set()
            await stopped.wait()
            return found

        monkeypatch.setattr(home.spool, "claim", late)
        task = asyncio.create_task(home.deliver())
        await asked.wait()
        await home.delivery.stop(10)
        stopped.set()
        assert (await task).idle
        assert not mx.connections
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.PENDING, 0)
        assert await home.spool.next_due("example.org", home.clock.now()) == home.clock.now(), "due at once"


# ---------------------------------------------------------------- our own trouble
async def test_the_mark_that_can_not_be_made_keeps_the_dot_from_being_sent(tmp_path: Path, monkeypatch):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")

        async def fails(*_: object) -> None:
            raise SpoolError("disk I/O error")

        with monkeypatch.context() as patch:
            patch.setattr(home.spool, "mark_in_doubt", fails)
            with pytest.raises(SpoolError):
                await home.deliver()
        await mx.until(lambda: mx.connections[0].closed.is_set())
        assert not mx.messages
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts, it.doubts) == (Status.PENDING, 0, 0)
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert len(mx.messages) == 1


async def test_b44_a_result_is_given_to_the_spool_until_it_sticks(tmp_path: Path, monkeypatch):
    """B44: an error while recording "sent" is retried, said once, and with too many of them no new delivery begins."""
    monkeypatch.setattr("mta.delivery.worker.PERSIST_INTERVAL", 0.01)
    monkeypatch.setattr("mta.delivery.worker.UNRECORDED_LIMIT", 1)
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        settle, tries, refused = home.spool.settle, [], asyncio.Event()

        async def fails(settlement, now):
            tries.append(1)
            if len(tries) < 5:
                refused.set()
                raise SpoolError("database is locked")
            return await settle(settlement, now)

        monkeypatch.setattr(home.spool, "settle", fails)
        task = asyncio.create_task(home.deliver())
        await refused.wait()
        with pytest.raises(SpoolError, match="no new deliveries"):
            await home.deliver("other.test")
        await task
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert len(mx.messages) == 1
        assert len([it for it in home.facts if isinstance(it, Trouble)]) == 1
        assert [it.outcome for it in home.facts if isinstance(it, Settled)] == ["sent"]


async def test_b31_a_bug_in_one_attempt_counts_and_comes_later(tmp_path: Path, monkeypatch):
    """B31: whatever the exception, the row has a later next attempt before the next claim."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)

        async def boom(domain: str):
            raise RuntimeError("boom \x1b[2J")

        monkeypatch.setattr(home.names, "mail_exchangers", boom)
        queue_id = await home.submit("a@example.org")
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.PENDING, 1)
        assert it.next_attempt_at is not None
        assert it.next_attempt_at > home.clock.now()
        assert it.reply is not None
        assert "boom" not in it.reply.text
        assert (await home.deliver()).idle


async def test_b49_content_that_goes_missing_sets_its_message_apart(tmp_path: Path):
    """B49: found while it is being sent: no dot goes out, the message is quarantined, the next one is delivered."""
    held = Hold("354 go")
    async with ScriptedMx({"DATA": [held]}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        bad = await home.submit("a@example.org", content=b"Subject: x\r\n\r\n" + b"x\r\n" * SMALL)
        good = await home.submit("b@example.org")
        task = asyncio.create_task(home.deliver())
        await held.reached.wait()
        with closing(sqlite3.connect(tmp_path / "spool.db")) as db, db:
            db.execute("DELETE FROM content WHERE id = (SELECT min(id) FROM content)")
        held.release()
        with pytest.raises(SpoolError):
            await task
        await home.deliver()
        assert (await home.recipient(good)).status is Status.SENT
        assert (await home.show(bad)).damaged
        assert [it.forward_paths for it in mx.messages if it.code] == [["b@example.org"]]


async def test_b16_a_result_is_recorded_before_anything_more_is_said(tmp_path: Path, monkeypatch):
    """B16: no RSET before the commit that records the refusal."""
    async with ScriptedMx({"RCPT": "550 5.1.1 no"}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org")
        settle, said = home.spool.settle, []

        async def seen(settlement, now):
            said.extend(mx.connections[0].verbs)
            return await settle(settlement, now)

        monkeypatch.setattr(home.spool, "settle", seen)
        await home.deliver()
        assert "RSET" not in said
        assert mx.connections[0].verbs[-1] == "RSET"


# ---------------------------------------------------------------- content and peers
async def test_b37_eight_bit_content_is_declared(tmp_path: Path):
    """B37: BODY=8BITMIME where it is offered; ASCII never gets it."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", content=b"Subject: x\r\n\r\ncaf\xc3\xa9\r\n", eight_bit=True)
        await home.submit("b@example.org")
        for _ in range(2):
            await home.deliver()
        assert ["8BITMIME" in it.mail for it in mx.messages] == [True, False]


async def test_cli_14_the_size_is_that_of_the_content_without_stuffing(tmp_path: Path):
    """EXT-05, B40."""
    content = CONTENT + b".dot\r\n" * 50
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", content=content)
        await home.deliver()
    [message] = mx.messages
    assert (message.mail, message.content) == (f"MAIL FROM:<shop@example.com> SIZE={len(content)}", content)
    assert len(message.raw) == len(content) + 50


async def test_cli_09_what_was_offered_in_clear_is_not_used_inside_tls(tmp_path: Path):
    """TLS-01: neither parameters nor PIPELINING nor chunks, and 8-bit content goes as for any server without 8BITMIME."""
    in_clear = b"250-mx.example.test\r\n250-SIZE\r\n250-8BITMIME\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 STARTTLS\r\n"
    content = b"Subject: x\r\n\r\n" + "grüße und noch viel mehr davon\r\n".encode() * 5000
    mx = ScriptedMx({"EHLO": [in_clear]}, extensions=(), tls=server_tls())
    async with mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", content=content, eight_bit=True)
        await home.deliver()
    [message] = mx.messages
    assert (message.tls, message.mail, message.chunks) == (True, "MAIL FROM:<shop@example.com>", ())
    assert message.content.isascii()


async def test_cli_16_another_address_that_a_server_names_is_recorded_and_never_used(tmp_path: Path):
    """251 is acceptance, 551 a refusal (RFC 5321 section 3.4)."""
    replies = ["251 2.1.5 will forward to <eve@elsewhere.test>", "551 5.1.6 please try <eve@elsewhere.test>"]
    async with ScriptedMx({"RCPT": replies}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", "bob@example.org")
        await home.deliver()
        ann, bob = (await home.show(queue_id)).recipients
        assert (ann.address, ann.status, bob.address, bob.status) == (
            "ann@example.org", Status.SENT, "bob@example.org", Status.FAILED,
        )  # fmt: skip
        assert bob.reply is not None and "eve@elsewhere.test" in bob.reply.text
    assert not [line for line in mx.commands if "eve" in line]


async def test_cli_14_a_message_larger_than_the_server_takes_fails_at_once(tmp_path: Path):
    async with ScriptedMx(extensions=("SIZE 1000",)) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", content=CONTENT + b"x" * 990 + b"\r\n")
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.reply and it.reply.enhanced) == (Status.FAILED, "5.3.4")
        assert not mx.messages


async def test_banner_refusals_fail_mail_only_after_two_more_attempts(tmp_path: Path):
    """Table A, banner 5yz on every host; Q3: the DSN's text quotes the greeting."""
    async with ScriptedMx({"BANNER": "554 5.7.1 your address is on a list"}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        states = []
        for _ in range(3):
            await home.deliver()
            it = await home.recipient(queue_id)
            states.append(it.status)
            home.clock.at = it.next_attempt_at or home.clock.at
        assert states == [Status.PENDING, Status.PENDING, Status.FAILED]
        assert it.reply is not None
        assert (it.reply.code, it.reply.text) == (554, "your address is on a list")


async def test_a_server_whose_tls_sessions_break_again_and_again_gets_the_mail_in_clear(tmp_path: Path):
    """RFC 7435: opportunistic encryption does not keep mail from being delivered. One lost session proves nothing."""
    broken = {"MAIL": [*[Close()] * 4, "250 2.1.0 ok"]}  # each attempt tries once more without pipelining
    async with ScriptedMx(broken, tls=server_tls("mx.example.org")) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        for _ in range(3):
            await home.deliver()
            home.clock.at += 86400
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert ["STARTTLS" in it.verbs for it in mx.connections] == [True] * 4 + [False]


async def test_a_server_that_never_answers_inside_tls_gets_the_mail_in_clear(tmp_path: Path):
    """The same where not even EHLO is answered there."""
    usual = "250-mx.example.org\r\n250 STARTTLS"
    script = {"EHLO": [*[usual, Close()] * 2, usual]}
    async with ScriptedMx(script, tls=server_tls("mx.example.org")) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        for _ in range(2):
            await home.deliver()
            home.clock.at += 86400
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert ["STARTTLS" in it.verbs for it in mx.connections] == [True, True, False]


async def test_an_idle_session_that_ends_inside_tls_says_nothing_against_tls(tmp_path: Path):
    """The server's idle timeout is no broken TLS: the next session is encrypted as well."""
    script = {"RCPT": ["451 4.3.0 later"], "MAIL": ["250 ok", Close(), "250 ok"]}
    mx = ScriptedMx(script, extensions=["8BITMIME"], tls=server_tls("mx.example.org"))
    async with mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        await home.deliver()
        home.clock.at += 3600
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert ["STARTTLS" in it.verbs for it in mx.connections] == [True, True]


async def test_b53_a_refusal_of_our_name_never_fails_mail(tmp_path: Path):
    """B53: 550 to EHLO about the name is our own configuration's problem."""
    script = {"EHLO": "550 5.7.1 bad name", "HELO": "550 5.7.1 bad name"}
    async with ScriptedMx(script) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        for _ in range(5):
            await home.deliver()
            it = await home.recipient(queue_id)
            assert it.status is Status.PENDING
            home.clock.at = it.next_attempt_at or home.clock.at


async def test_telling_of_a_delay_brings_no_attempt_forward(tmp_path: Path):
    """Nor a doubt's rest to an end, which the server may still need."""
    policy = replace(POLICY, warn_after=30)
    async with ScriptedMx({"FINAL": ["451 4.3.0 later", Close()]}) as mx, house(tmp_path, mx.port, policy=policy) as home:
        one_mx(home)
        waiting = [await home.submit(f"{name}@example.org", policy=policy) for name in ("ann", "bob")]
        for _ in waiting:
            await home.deliver()
        before = [(await home.recipient(it)).next_attempt_at for it in waiting]
        home.clock.at += 31
        refused = finding("4.4.1", "connection refused")
        down = Verdict(Disposition.TRANSIENT, Scope.DESTINATION, refused.status, refused, Phase.CONNECT)
        await home.delivery.tell_overdue("example.org", down)
        assert [it for it, _ in await home.notices()] == [Notice.DSN_DELAYED] * 2
        after = [await home.recipient(it) for it in waiting]
        assert [it.next_attempt_at for it in after] == before
        assert [it.status for it in after] == [Status.PENDING, Status.IN_DOUBT]
