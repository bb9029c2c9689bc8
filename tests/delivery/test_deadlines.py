"""Deadlines in a delivery: what is sent to which server before them, and what becomes of mail when they pass (B35)."""

import asyncio
from pathlib import Path

import pytest

from mta.app.runtime import SystemClock
from mta.model.envelope import ByMode, DeliverBy, DoubtOrder, Kind, MailClass, Notice
from mta.model.lifecycle import Event, Status
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.schedule import RetryPolicy
from mta.spool.base import Selection
from tests.delivery.house import BRISK, POLICY, House, house
from tests.support.mx import Close, ScriptedMx, Silence

R, N, HANDOVER = ByMode.RETURN, ByMode.NOTIFY, ByMode.HANDOVER
BUSY = {"RCPT": "450 4.2.1 busy"}
GONE = Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.4.1", finding("4.4.1", "no answer"), Phase.CONNECT)
PROMISING = ("PIPELINING", "DELIVERBY")


def one_mx(home: House, address: str = "127.0.0.1") -> None:
    home.names.zones["example.org"] = [(10, "mx.example.org", address)]


def by(home: House, seconds: float, mode: ByMode = HANDOVER, trace: bool = False) -> DeliverBy:
    return DeliverBy(home.clock.now() + seconds, mode, trace)


# ---------------------------------------------------------------- before it
async def test_dby_05_the_rest_of_the_time_goes_on_with_each_attempt(tmp_path: Path):
    async with ScriptedMx({"RCPT": ["450 4.2.1 busy"]}, extensions=(*PROMISING, "MT-PRIORITY")) as mx:
        async with house(tmp_path, mx.port) as home:
            one_mx(home)
            queue_id = await home.submit("a@example.org", deliver_by=by(home, 600, R), priority=-3)
            await home.deliver()
            home.clock.at += 60.5
            await home.deliver()
            assert (await home.recipient(queue_id)).status is Status.SENT
            mails = [line for line in mx.commands if line.startswith("MAIL")]
            assert [line.split(" ", 2)[2] for line in mails] == ["BY=600;R MT-PRIORITY=-3", "BY=539;R MT-PRIORITY=-3"]
            assert await home.notices() == []


async def test_dby_06_mode_r_goes_past_the_host_that_does_not_promise(tmp_path: Path):
    async with ScriptedMx() as plain, ScriptedMx(host="127.0.0.2", port=plain.port, extensions=PROMISING) as mx:
        async with house(tmp_path, plain.port) as home:
            home.names.zones["example.org"] = [(10, "mx1.test", "127.0.0.1"), (20, "mx2.test", "127.0.0.2")]
            queue_id = await home.submit("a@example.org", deliver_by=by(home, 60, R))
            await home.deliver()
            assert (await home.recipient(queue_id)).status is Status.SENT
            assert "BY=60;R" in mx.messages[0].mail
            assert not [line for line in plain.commands if line.startswith("MAIL")]


async def test_dby_06_no_host_that_promises_is_a_failure_at_once(tmp_path: Path):
    """And no trouble of the destination: other mail goes on."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 60, R))
        outcome = await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.reply and it.reply.enhanced, it.remote_host) == (Status.FAILED, "5.4.7", "mx.example.org")
        assert outcome.trouble is None
        assert await home.notices() == [(Notice.DSN_FAILED, "a@example.org"), (Notice.REPORT, "a@example.org")]


async def test_dby_06_where_another_host_may_promise_later_it_waits(tmp_path: Path):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        home.names.zones["example.org"] = [(10, "mx1.test", "127.0.0.1"), (20, "mx2.test", "127.0.0.9")]
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 600, R))
        assert (await home.deliver()).trouble is None
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.PENDING, 1)


async def test_the_header_is_met_by_any_server(tmp_path: Path):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 60))
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert "BY=" not in mx.messages[0].mail
        assert await home.notices() == []


@pytest.mark.parametrize(
    ("extensions", "rcpt", "told"),
    [
        (("PIPELINING",), "", True),
        (("PIPELINING", "DSN"), " NOTIFY=FAILURE,DELAY", True),
        (("PIPELINING", "DSN", "DELIVERBY"), "", False),
    ],
)
async def test_dby_09_mode_n_is_told_of_where_nobody_else_will_tell(
    tmp_path: Path, extensions: tuple[str, ...], rcpt: str, told: bool
):
    async with ScriptedMx(extensions=extensions) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", deliver_by=by(home, 60, N))
        await home.deliver()
        assert mx.messages[0].rcpts == [f"RCPT TO:<a@example.org>{rcpt}"]
        assert await home.notices() == ([(Notice.DSN_RELAYED, "a@example.org")] if told else [])


async def test_dby_09_nothing_is_asked_for_nobody(tmp_path: Path):
    async with ScriptedMx(extensions=("DSN",)) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", sender="", deliver_by=by(home, 60, N))
        await home.deliver()
        assert mx.messages[0].rcpts == ["RCPT TO:<a@example.org>"]
        assert await home.notices() == []


async def test_dby_09_parameters_that_are_refused_are_left_out_and_the_sender_is_told(tmp_path: Path):
    steps = ["555 5.5.4 what is BY?", "250 2.1.0 ok"]
    async with ScriptedMx({"MAIL": steps}, extensions=PROMISING) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 60, N))
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert "BY=" not in mx.messages[0].mail
        assert await home.notices() == [(Notice.DSN_RELAYED, "a@example.org")]


async def test_notify_that_is_refused_is_left_out(tmp_path: Path):
    """It was our own idea: it fails nobody. The one that was accepted is not sent to twice."""
    script = {"RCPT": ["250 2.1.5 ok", "501 5.5.4 what is NOTIFY?"]}
    async with ScriptedMx(script, extensions=("PIPELINING", "DSN")) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", "b@example.org", deliver_by=by(home, 60, N))
        await home.deliver()
        assert [it.status for it in (await home.show(queue_id)).recipients] == [Status.SENT] * 2
        assert [it.rcpts for it in mx.messages if it.code == 250] == [["RCPT TO:<a@example.org>", "RCPT TO:<b@example.org>"]]


async def test_dby_10_a_traced_mail_is_told_of_at_each_relay(tmp_path: Path):
    async with ScriptedMx(extensions=PROMISING) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", deliver_by=by(home, 60, R, trace=True))
        await home.deliver()
        assert "BY=60;RT" in mx.messages[0].mail
        assert await home.notices() == [(Notice.DSN_RELAYED, "a@example.org")]


# ---------------------------------------------------------------- when it passes
async def test_b35_nothing_is_begun_after_it_and_it_fails_with_the_last_answer(tmp_path: Path):
    async with ScriptedMx(BUSY) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 90))
        await home.deliver()
        home.clock.at += 90
        assert (await home.deliver()).idle
        assert await home.expire() == 1
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts, it.reply and it.reply.enhanced) == (Status.FAILED, 1, "5.4.7")
        assert it.reply is not None and "450 4.2.1 busy" in it.reply.text
        assert await home.notices() == [(Notice.DSN_FAILED, "a@example.org"), (Notice.REPORT, "a@example.org")]
        assert await home.events(queue_id) == ["accepted", "deferred", "failed"]
        assert await home.expire() == 0


async def test_b35_the_time_runs_out_between_the_claim_and_mail(tmp_path: Path):
    """The greeting takes longer than what is left: no MAIL; the attempt is none, the end comes at the deadline."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)

        def slow(line: str) -> str:
            home.clock.at += 59.5
            return "250 mx.example.org"

        mx.script["EHLO"] = slow
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 59.4))
        assert (await home.deliver()).trouble is None
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.PENDING, 0)
        assert not [line for line in mx.commands if line.startswith("MAIL")]
        assert await home.expire() == 1
        assert (await home.recipient(queue_id)).status is Status.FAILED


async def test_a_server_that_does_not_answer_is_waited_for_to_the_deadline_alone(tmp_path: Path):
    """Its own timeout is longer; the sender hears of the failure in time, and the host is not blamed."""
    async with ScriptedMx({"BANNER": Silence()}) as mx, house(tmp_path, mx.port, clock=SystemClock()) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 0.3))
        assert (await home.deliver()).trouble is None
        it, deliver_by = await home.recipient(queue_id), (await home.show(queue_id)).deliver_by
        assert deliver_by is not None
        assert (it.status, it.attempts) == (Status.PENDING, 1)
        assert it.next_attempt_at is not None and deliver_by.at <= it.next_attempt_at < deliver_by.at + 2
        assert await home.expire() == 1
        assert home.hosts.dead(("127.0.0.1", mx.port)) is None
        await mx.connections[0].closed.wait()


async def test_dby_07_what_is_past_the_dot_counts_when_it_ends_well(tmp_path: Path):
    """B35: accepted at 119 s, the reply to the dot at 125 s."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)

        def slow(line: str) -> str:
            home.clock.at += 6
            return "250 2.0.0 Ok: queued as LATE"

        mx.script["FINAL"] = slow
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 120))
        home.clock.at += 119
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert await home.expire() == 0


async def test_backoff_never_sleeps_past_it_and_there_is_a_last_try(tmp_path: Path):
    """B35: the schedule alone would wait 60, 120, 240 s."""
    async with ScriptedMx(BUSY) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 100))
        start, tries = home.clock.at, []
        while (at := (await home.recipient(queue_id)).next_attempt_at) is not None and at < start + 100:
            home.clock.at = max(at, home.clock.at)
            tries.append(home.clock.at - start)
            await home.deliver()
        assert tries == [0, 60, 80, 90, 95, 97.5, 98.75]
        assert at == start + 100, "nothing is due after it but the end"


async def test_the_last_try_before_it_is_a_real_one(tmp_path: Path):
    """The host rests from another's failure, but there will be no later chance."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 100))
        home.hosts.blame(("127.0.0.1", mx.port), GONE, 300)
        start = home.clock.at
        while (it := await home.recipient(queue_id)).status is Status.PENDING:
            assert it.next_attempt_at is not None and it.next_attempt_at < start + 100
            home.clock.at = max(it.next_attempt_at, home.clock.at)
            await home.deliver()
        assert (it.status, home.clock.at) == (Status.SENT, start + 98.4375)


async def test_dby_08_mode_n_is_told_of_once_and_goes_on(tmp_path: Path):
    async with ScriptedMx({"RCPT": ["450 4.2.1 busy"]}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 30, N))
        await home.deliver()
        before = await home.recipient(queue_id)
        home.clock.at += 30
        assert await home.expire() == 1
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts, it.next_attempt_at) == (Status.PENDING, 1, before.next_attempt_at)
        (notice,) = await home.spool.notices(Notice, 10, home.clock.now())
        assert (notice.notice, notice.reply.enhanced) == (Notice.DSN_LATE, "4.4.7")
        assert "450 4.2.1 busy" in notice.reply.text
        assert await home.expire() == 0
        home.clock.at += 40
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert len(await home.notices()) == 1, "late, and so nobody promised anything"


async def test_b35_a_doubt_over_the_deadline_ends_as_failed_that_may_have_arrived(tmp_path: Path):
    async with ScriptedMx({"FINAL": Close()}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 90))
        await home.deliver()
        home.clock.at += 90
        await home.expire()
        it = await home.recipient(queue_id)
        assert (it.status, it.doubts) == (Status.FAILED, 1)
        (dsn, _) = await home.spool.notices(Notice, 10, home.clock.now())
        assert (dsn.notice, dsn.doubts) == (Notice.DSN_FAILED, 1)


async def test_b35_a_doubt_that_is_held_waits_for_a_person(tmp_path: Path):
    async with ScriptedMx({"FINAL": Close()}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 90), in_doubt=DoubtOrder.HOLD)
        await home.deliver()
        home.clock.at += 1000
        assert await home.expire() == 0
        assert (await home.recipient(queue_id)).status is Status.IN_DOUBT


async def test_a_doubt_of_mode_n_stays_one_when_it_is_late(tmp_path: Path):
    async with ScriptedMx({"FINAL": Close()}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 90, N))
        await home.deliver()
        home.clock.at += 90
        assert await home.expire() == 1
        it = await home.recipient(queue_id)
        assert (it.status, it.doubts, it.attempts) == (Status.IN_DOUBT, 1, 1)


async def test_held_over_the_deadline_it_fails_when_it_is_released(tmp_path: Path):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", deliver_by=by(home, 90))
        await home.spool.order(Event.HOLD, Selection((queue_id,)), home.clock.now())
        home.clock.at += 100
        assert await home.expire() == 0
        await home.spool.order(Event.RELEASE, Selection((queue_id,)), home.clock.now())
        assert (await home.deliver()).idle
        assert await home.expire() == 1
        assert (await home.recipient(queue_id)).status is Status.FAILED


async def test_a_deadline_behind_the_give_up_changes_nothing(tmp_path: Path):
    """B35, DBY-04."""
    policy = RetryPolicy(60, 2.0, 60, 0.0, 90, 0, 0)
    async with ScriptedMx(BUSY) as mx, house(tmp_path, mx.port, policy=policy) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", policy=policy, deliver_by=by(home, 86400))
        for _ in range(3):
            await home.deliver()
            home.clock.at += 60
        assert (await home.recipient(queue_id)).status is Status.DEAD


# ---------------------------------------------------------------- hosts that rest
async def test_urgent_mail_waits_a_second_for_a_host_not_its_rest(tmp_path: Path):
    """Item 4: what bulk mail found out keeps a code for a moment alone."""
    async with house(tmp_path, 9, timeouts=BRISK) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.9")]
        await home.submit("bulk@example.org")
        assert (await home.deliver()).trouble is not None
        code = await home.submit("code@example.org", mail_class=MailClass.URGENT)
        await home.deliver(mail_class=MailClass.URGENT)
        it = await home.recipient(code)
        assert (it.attempts, it.status) == (0, Status.PENDING)
        assert it.next_attempt_at is not None
        assert 0 < it.next_attempt_at - home.clock.now() <= 1


async def test_a_report_never_has_a_word_about_its_deadline(tmp_path: Path):
    async with ScriptedMx() as mx, house(tmp_path, mx.port, policy=POLICY) as home:
        one_mx(home)
        await home.submit("a@example.org", kind=Kind.REPORT, sender="", deliver_by=by(home, 60, N))
        await home.deliver()
        assert await home.notices() == []


async def test_urgent_mail_does_not_wait_for_the_dead_where_another_lives(tmp_path: Path):
    """Not even when its second is over: each try might cost a timeout."""
    async with ScriptedMx(host="127.0.0.2") as mx, house(tmp_path, mx.port, timeouts=BRISK) as home:
        home.names.zones["example.org"] = [(10, "mx1.test", "127.0.0.9"), (20, "mx2.test", "127.0.0.2")]
        for number in range(2):
            queue_id = await home.submit(f"r{number}@example.org", mail_class=MailClass.URGENT)
            await home.deliver(mail_class=MailClass.URGENT)
            if not number:
                await home.pool.close()
                await asyncio.sleep(1.1)
        assert await home.events(queue_id) == ["accepted", "sent"]


async def test_the_last_attempt_tries_the_living_and_then_the_dead(tmp_path: Path):
    policy = RetryPolicy(60, 2.0, 60, 0.0, 90, 0, 0)
    async with ScriptedMx({"RCPT": "450 4.2.1 busy", "BANNER": "421 4.3.2 busy"}) as living:
        async with ScriptedMx(host="127.0.0.2", port=living.port) as mx, house(tmp_path, mx.port, policy=policy) as home:
            home.names.zones["example.org"] = [(10, "mx2.test", "127.0.0.2"), (20, "mx1.test", "127.0.0.1")]
            queue_id = await home.submit("a@example.org", policy=policy)
            home.hosts.blame(("127.0.0.2", mx.port), GONE, 300)
            home.clock.at += 90
            await home.deliver()
            assert (await home.recipient(queue_id)).status is Status.SENT
            assert len(living.connections) == len(mx.connections) == 1
