"""Scheduler, delivery and spool together over days of virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

from mta.model.envelope import MailClass, Notice
from mta.model.lifecycle import Event, Status
from mta.model.outcome import Phase, Seen
from mta.policy.schedule import RetryPolicy
from mta.ports.names import Lookup, MxAnswer
from mta.scheduler import Scheduler, SchedulerSettings
from mta.spool.base import Selection
from tests.delivery.house import POLICY, House, house
from tests.support.remote import Remotes
from tests.support.virtual import VirtualClock, run_virtual, until

DAY = 86400.0
Story = Callable[[House, Remotes, Scheduler], Awaitable[None]]


def play(tmp_path: Path, story: Story, *, policy: RetryPolicy = POLICY, sessions: int = 20, **more: object) -> Remotes:
    async def main() -> Remotes:
        remotes = Remotes()
        async with house(tmp_path, 25, connector=remotes, clock=VirtualClock(), policy=policy, **more) as home:
            settings = SchedulerSettings(sessions, 5, dict.fromkeys(MailClass, policy))
            scheduler = Scheduler(settings, home.spool, home.clock, random.Random(3), home.facts.append, home.delivery)
            home.names.zones["example.org"] = [(10, "mx.example.org", "192.0.2.1")]
            home.names.zones["up.test"] = [(10, "mx.up.test", "192.0.2.2")]
            task = asyncio.create_task(scheduler.run())
            await story(home, remotes, scheduler)
            scheduler.stop()
            await asyncio.wait_for(task, 120)
        return remotes

    return run_virtual(main())


def down(*addresses: str):
    return lambda phase, address, path: Seen.TIMEOUT if phase is Phase.CONNECT and address in addresses else None


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_b33_young_mail_is_not_given_up_for_its_hosts_long_trouble(tmp_path: Path):
    """B33: down for six days; the old one is returned, the one of day six is delivered when the host is back."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        remotes.decide = down("192.0.2.1")
        old = await home.submit("old@example.org")
        await pause(6 * DAY)
        assert (await home.recipient(old)).status is Status.DEAD
        young = await home.submit("young@example.org")
        await pause(3600)
        assert (await home.recipient(young)).status is Status.PENDING
        remotes.decide = lambda *_: None
        await pause(4 * 3600)
        assert (await home.recipient(young)).status is Status.SENT

    play(tmp_path, story)


def test_b33_the_last_attempt_is_at_the_give_up_and_not_one_interval_before(tmp_path: Path):
    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        remotes.decide = down("192.0.2.1")
        queue_id = await home.submit("a@example.org")
        start = asyncio.get_running_loop().time()
        await pause(5 * DAY + 700)
        it = await home.recipient(queue_id)
        assert it.status is Status.DEAD
        last = remotes.connects[-1][0] - start
        assert 5 * DAY <= last <= 5 * DAY + 600
        gaps = [b - a for (a, _), (b, _) in zip(remotes.connects, remotes.connects[1:], strict=False)]
        assert max(gaps) <= 4 * 3600 + 60
        assert it.attempts == len(remotes.connects)

    play(tmp_path, story)


def test_2000_messages_to_a_black_hole_do_not_each_wait_and_others_flow(tmp_path: Path):
    """B22 and issue point 6: one probe per rest; all are told in time; mail to others is not delayed."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        remotes.decide = down("192.0.2.1")
        ids = [await home.submit(f"r{number}@example.org") for number in range(2000)]
        await pause(60)
        for number in range(200):
            await home.submit(f"r{number}@up.test")
        await until(lambda: len(remotes.taken) == 200, 30)
        await pause(2 * 3600)
        assert len([1 for _, address in remotes.connects if address == "192.0.2.1"]) < 60
        await pause(2.2 * 3600)
        owed = await home.spool.notices([Notice.DSN_DELAYED], 5000, home.clock.now())
        assert len(owed) == 2000, "each sender hears after four hours, whether its mail was the one that was tried or not"
        await pause(5 * DAY)
        states = [(await home.recipient(it)).status for it in ids]
        assert set(states) == {Status.DEAD}
        failed = await home.spool.notices([Notice.DSN_FAILED], 5000, home.clock.now())
        assert len(failed) == 2000

    play(tmp_path, story)


def test_b34_a_leap_of_the_clock_expires_nothing_that_was_not_tried_since(tmp_path: Path):
    """B34 (b): plus ten days for a minute, then back: what can be delivered is delivered."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        remotes.decide = lambda phase, address, path: "451 4.7.1 later" if phase is Phase.RCPT else None
        ids = [await home.submit(f"r{number}@example.org") for number in range(50)]
        await pause(5)
        remotes.decide = lambda *_: None
        home.clock.step += 10 * DAY
        await pause(60)
        home.clock.step -= 10 * DAY
        await pause(600)
        assert {(await home.recipient(it)).status for it in ids} == {Status.SENT}

    play(tmp_path, story)


def test_b34_new_mail_does_not_wait_for_a_clock_that_was_set_back(tmp_path: Path):
    """B34 (c): what was accepted in the clock's future, or after the step, is sent (tests/app has what was deferred)."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        replies = iter(["451 4.7.1 later"])
        remotes.decide = lambda phase, address, path: next(replies, None) if phase is Phase.RCPT else None
        first = await home.submit("a@example.org")
        await pause(10)
        home.clock.step -= DAY
        second = await home.submit("b@example.org")
        await pause(70)
        assert (await home.recipient(second)).status is Status.SENT
        await pause(DAY + 120)
        assert (await home.recipient(first)).status is Status.SENT

    play(tmp_path, story)


def test_b20_resolver_trouble_waits_and_costs_no_mail(tmp_path: Path):
    """B20: SERVFAIL for two days, then an answer; NXDOMAIN alone is permanent."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        home.names.zones["broken.test"] = MxAnswer(Lookup.TROUBLE, detail="SERVFAIL")
        waits, gone = await home.submit("a@broken.test"), await home.submit("a@nowhere.test")
        await pause(2 * DAY)
        it = await home.recipient(waits)
        assert (it.status, it.reply and it.reply.enhanced) == (Status.PENDING, "4.4.3")
        assert (await home.recipient(gone)).reply.enhanced == "5.1.2"
        home.names.zones["broken.test"] = [(10, "mx.broken.test", "192.0.2.9")]
        await pause(4 * 3600 + 60)
        assert (await home.recipient(waits)).status is Status.SENT

    play(tmp_path, story)


def test_a_standing_order_stops_deliveries_costs_age_and_gives_nothing_up(tmp_path: Path):
    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        await home.spool.standing_hold("*", True, home.clock.now())
        queue_id = await home.submit("a@example.org")
        await pause(6 * DAY)
        assert not remotes.connects
        assert (await home.recipient(queue_id)).status is Status.PENDING
        await home.spool.standing_hold("*", False, home.clock.now())
        await pause(5)
        assert (await home.recipient(queue_id)).status is Status.SENT, "its last attempt, late as it is, is made"

    play(tmp_path, story)


def test_what_a_person_orders_while_it_is_being_sent(tmp_path: Path):
    """interface.md section 1: hold and cancel of one that is sending take effect when the attempt ends unsent."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        remotes.latency = 10
        remotes.decide = lambda phase, address, path: "451 4.3.0 later" if path.startswith("no") else None
        ids = {name: await home.submit(f"{name}@example.org") for name in ("no1", "no2", "yes")}
        await pause(5)
        for name, event in (("no1", Event.HOLD), ("no2", Event.CANCEL), ("yes", Event.CANCEL)):
            (changed,) = await home.spool.order(event, Selection((ids[name],)), home.clock.now())
            assert changed.before is Status.SENDING
        await pause(200)
        states = {name: (await home.recipient(it)).status for name, it in ids.items()}
        assert states == {"no1": Status.HELD, "no2": Status.CANCELLED, "yes": Status.SENT}

    play(tmp_path, story)


def test_attempts_are_capped_where_the_class_says_so(tmp_path: Path):
    policy = RetryPolicy(60, 2.0, 4 * 3600, 0.0, 5 * DAY, 3, 0)

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        remotes.decide = lambda phase, address, path: "451 4.3.0 later" if phase is Phase.RCPT else None
        queue_id = await home.submit("a@example.org")
        await pause(DAY)
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.DEAD, 3)

    play(tmp_path, story, policy=policy)


def test_b58_nothing_is_sent_twice_however_often_the_bell_rings(tmp_path: Path):
    """B58: 200 messages, the doorbell rung without end, every session busy: each arrives once."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        for number in range(200):
            await home.submit(f"r{number}@example.org")
        while len(remotes.taken) < 200:
            home.spool.doorbell.ring_delivery("example.org", 0.0, MailClass.NORMAL)
            await pause(0.005)
        await pause(60)
        assert sorted(path for _, _, paths, _ in remotes.taken for path in paths) == sorted(
            f"r{number}@example.org" for number in range(200)
        )

    play(tmp_path, story)


def test_doubts_rest_and_are_sent_again_and_every_one_is_counted(tmp_path: Path):
    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        answers = iter([Seen.LOST, Seen.TIMEOUT])
        remotes.decide = lambda phase, address, path: next(answers, None) if phase is Phase.FINAL else None
        queue_id = await home.submit("a@example.org")
        await pause(500)
        assert len(remotes.seen) == 1
        await pause(3600)
        it = await home.recipient(queue_id)
        assert (it.status, it.doubts, it.attempts) == (Status.SENT, 2, 3)
        assert len({body for *_, body in remotes.seen}) == 1

    play(tmp_path, story)


def test_urgent_mail_to_a_host_that_refuses_is_tried_once_a_second_and_leaves_when_it_is_back(tmp_path: Path):
    """Fifty codes, and bulk that rests: quick, and no hammering (issue point 4)."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        remotes.decide = lambda phase, address, path: Seen.LOST if phase is Phase.CONNECT else None
        for number in range(10):
            await home.submit(f"reader{number}@example.org", mail_class=MailClass.BULK)
        await pause(5)
        for number in range(50):
            await home.submit(f"code{number}@example.org", mail_class=MailClass.URGENT)
        await pause(60)
        tries = [at for at, _ in remotes.connects if at > 1007]
        assert 40 <= len(tries) <= 60
        assert min(b - a for a, b in pairwise(tries)) >= 0.999
        remotes.decide = lambda *_: None
        await pause(3)
        assert len(remotes.taken) > 20, "the first success lets the others go"
        await pause(70)
        assert len(remotes.taken) == 60

    play(tmp_path, story, policy=RetryPolicy(1, 2.0, 60, 0.5, 3600, 0, 0))


def test_a_retry_of_urgent_mail_is_quick(tmp_path: Path):
    """1, 2, 4, 8, 16 s, jittered by half."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        tries = []

        def greylists(phase: Phase, address: str, path: str) -> str | None:
            if phase is not Phase.RCPT:
                return None
            tries.append(asyncio.get_running_loop().time())
            return "451 4.7.1 later"

        remotes.decide = greylists
        await home.submit("code@example.org", mail_class=MailClass.URGENT)
        await pause(40)
        gaps = [b - a for a, b in pairwise(tries)]
        assert len(gaps) >= 4
        assert all(0.5 * 2**n <= gap <= 1.5 * 2**n + 0.1 for n, gap in enumerate(gaps)), gaps

    play(tmp_path, story, policy=RetryPolicy(1, 2.0, 300, 0.5, 3600, 0, 600))
