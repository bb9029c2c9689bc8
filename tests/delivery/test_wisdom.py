"""What a reply's meaning changes: a wait, a call, a word (quirks Q3 and Q14 of Table A, the categories of refusals)."""

from pathlib import Path

import pytest

from mta.delivery.alarms import INTERVAL, OPERATORS, Alarms
from mta.model.envelope import Kind, MailClass, Notice
from mta.model.events import Settled
from mta.model.lifecycle import Status
from mta.policy.schedule import DEFAULTS, GREYLIST_WAIT
from tests.delivery.house import Hands, House, house
from tests.support.mx import ScriptedMx

GREYLISTED = "450 4.2.0 <a@example.org>: Recipient address rejected: Greylisted, see http://postgrey.example/help"
BLOCKED = "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org"
BLOCKED_FOR_NOW = "451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation."


def one_mx(home: House, domain: str = "example.org") -> None:
    home.names.zones[domain] = [(10, f"mx.{domain}", "127.0.0.1")]


async def waited(home: House, queue_id: str) -> float:
    at = (await home.recipient(queue_id)).next_attempt_at
    assert at is not None
    return at - home.clock.now()


# ---------------------------------------------------------------- greylisting
@pytest.mark.parametrize("mail_class", MailClass)
async def test_q14_the_first_retry_at_a_greylisting_server_is_after_five_minutes(tmp_path: Path, mail_class: MailClass):
    policy = DEFAULTS[mail_class.label]
    async with ScriptedMx({"RCPT": [GREYLISTED] * 3}) as mx, house(tmp_path, mx.port, policy=policy) as home:
        assert isinstance(home.clock, Hands)
        one_mx(home)
        queue_id = await home.submit("a@example.org", mail_class=mail_class, policy=policy)
        await home.deliver(mail_class=mail_class)
        first = await waited(home, queue_id)
        assert GREYLIST_WAIT <= first <= 1.1 * GREYLIST_WAIT
        home.clock.at += first
        await home.deliver(mail_class=mail_class)
        later = await waited(home, queue_id)
        usual = policy.first_retry * policy.factor
        assert (1 - policy.jitter) * usual <= later <= (1 + policy.jitter) * usual, "then its schedule goes on"
        view = await home.recipient(queue_id)
        assert (view.status, view.category) == (Status.PENDING, "greylisting")


async def test_q14_a_class_that_is_never_patient_waits_its_longest_wait(tmp_path: Path):
    policy = DEFAULTS["urgent"].__class__(1, 2.0, 20, 0.5, 3600, 0, 600)
    async with ScriptedMx({"RCPT": [GREYLISTED]}) as mx, house(tmp_path, mx.port, policy=policy) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", policy=policy)
        await home.deliver()
        assert 20 <= await waited(home, queue_id) <= 22


async def test_q14_greylisting_behind_other_trouble_is_waited_out_too(tmp_path: Path):
    """The second attempt is the first that was greylisted."""
    async with ScriptedMx({"RCPT": ["451 4.3.0 try later", GREYLISTED]}) as mx, house(tmp_path, mx.port) as home:
        assert isinstance(home.clock, Hands)
        one_mx(home)
        queue_id = await home.submit("a@example.org")
        await home.deliver()
        assert await waited(home, queue_id) == 60
        home.clock.at += 60
        await home.deliver()
        assert GREYLIST_WAIT <= await waited(home, queue_id) <= 1.1 * GREYLIST_WAIT


# ---------------------------------------------------------------- what is told
async def test_a_refusal_s_kind_is_kept_with_it_and_a_delivery_has_none(tmp_path: Path):
    replies = ["552 5.2.2 Mailbox full", "550 5.1.1 No such user", "250 2.1.5 ok"]
    async with ScriptedMx({"RCPT": replies}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("a@example.org", "b@example.org", "c@example.org")
        await home.deliver()
        view = await home.show(queue_id)
        assert [it.category for it in view.recipients] == ["mailbox-full", "no-such-user", ""]
        told = {it.recipient: it.category for it in home.facts if isinstance(it, Settled)}
        assert told == {"a@example.org": "mailbox-full", "b@example.org": "no-such-user", "c@example.org": ""}
        details = {it.recipient: it.detail.get("category") for it in view.timeline if it.event in ("failed", "sent")}
        assert details == {"a@example.org": "mailbox-full", "b@example.org": "no-such-user", "c@example.org": None}


# ---------------------------------------------------------------- reputation
@pytest.mark.parametrize("reply", [BLOCKED, BLOCKED_FOR_NOW])
async def test_q3_a_server_that_does_not_trust_us_is_told_of_once_a_day(tmp_path: Path, reply: str):
    async with ScriptedMx({"RCPT": [reply] * 20}) as mx, house(tmp_path, mx.port) as home:
        assert isinstance(home.clock, Hands)
        one_mx(home)
        for number in range(3):
            await home.submit(f"a{number}@example.org", f"b{number}@example.org")
            await home.deliver()
        alerts = [who for notice, who in await home.notices() if notice is Notice.ALERT]
        assert alerts == ["a0@example.org"]
        home.clock.at += INTERVAL
        await home.submit("late@example.org")
        while not (await home.deliver()).idle:
            pass
        alerts = [who for notice, who in await home.notices() if notice is Notice.ALERT]
        assert len(alerts) == 2


async def test_q3_two_operators_are_two_calls(tmp_path: Path):
    async with ScriptedMx({"RCPT": [BLOCKED] * 3}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        one_mx(home, "example.net")
        home.names.zones["shop.test"] = [(10, "shop-test.example.net", "127.0.0.1")]
        for domain in ("example.org", "example.net", "shop.test"):
            await home.submit(f"a@{domain}")
            await home.deliver(domain)
        alerts = [who for notice, who in await home.notices() if notice is Notice.ALERT]
        assert alerts == ["a@example.org", "a@example.net"], "the third is at the second's"


async def test_q3_an_alert_that_is_refused_so_calls_nobody(tmp_path: Path):
    async with ScriptedMx({"RCPT": [BLOCKED]}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("postmaster@example.org", sender="", kind=Kind.ALERT)
        await home.deliver()
        assert not await home.notices()


def test_what_is_remembered_is_bounded():
    alarms = Alarms()
    due = [alarms.is_due(f"net{number}.example", 1.0 + number / OPERATORS) for number in range(OPERATORS + 1)]
    assert all(due)
    assert not alarms.is_due(f"net{OPERATORS}.example", 3.0)
    assert alarms.is_due("net0.example", 3.0), "the oldest was forgotten"
    assert alarms.is_due("net1.example", 0.0), "the clock went back"
