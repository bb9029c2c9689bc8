"""What the daemon does from time to time."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

from mta.app.upkeep import CLOCK_INTERVAL, Waits, purge_for_ever, reconcile_for_ever, watch_clock
from mta.config.model import Spool as Retention
from mta.model.envelope import Kind, MailClass, NewMessage, NewRecipient, Notice
from mta.model.events import Trouble
from mta.model.lifecycle import Status
from mta.model.outcome import Phase, Seen
from mta.scheduler import Scheduler
from mta.spool.base import Settlement, SpoolError
from tests.delivery.house import CONTENT, POLICY, House
from tests.delivery.test_days import DAY, pause, play
from tests.support.remote import Remotes

WAITS = Waits(POLICY.longest, 600.0)


def test_b34_a_clock_that_goes_back_by_a_day_delays_nothing_by_a_day(tmp_path: Path) -> None:
    """B34 (a): what waits for some minutes is due within one look at the clock; a small correction changes nothing."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        watching = asyncio.create_task(watch_clock(home.spool, home.clock, lambda: WAITS, home.facts.append))
        replies = iter(["451 4.7.1 later"] * 2)
        remotes.decide = lambda phase, address, path: next(replies, None) if phase is Phase.RCPT else None
        first = await home.submit("a@example.org")
        await pause(10)
        home.clock.step -= DAY
        await pause(61)
        assert (await home.recipient(first)).attempts == 2
        home.clock.step -= 5
        await pause(31)
        assert (await home.recipient(first)).attempts == 2
        await pause(300)
        assert (await home.recipient(first)).status is Status.SENT
        assert len([fact for fact in home.facts if isinstance(fact, Trouble)]) == 1
        watching.cancel()

    play(tmp_path, story)


async def schedule(home: House, address: str, delay: float) -> str:
    """Mail that is not to leave before `delay` seconds from now; its queue id."""
    now = home.clock.now()
    message = NewMessage(
        queue_id="9" * 16,
        message_id="<scheduled@mail.example.com>",
        reverse_path="shop@example.com",
        recipients=(NewRecipient(address, address.rpartition("@")[2]),),
        subject="later",
        size=len(CONTENT),
        eight_bit=False,
        mail_class=MailClass.NORMAL,
        kind=Kind.MAIL,
        accepted_at=now,
        expires_at=POLICY.expires_at(now + delay),
        warn_at=None,
        not_before=now + delay,
    )
    buffer = home.spool.buffer()
    buffer.write(CONTENT)
    await home.spool.accept(message, buffer, now)
    return message.queue_id


def test_what_is_scheduled_leaves_at_its_instant_and_not_before(tmp_path: Path) -> None:
    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        later = await schedule(home, "a@example.org", 3600)
        await home.submit("b@example.org")
        await pause(3599.9)
        assert (await home.recipient(later)).status is Status.PENDING
        await pause(0.2)
        assert (await home.recipient(later)).status is Status.SENT

    play(tmp_path, story)


def test_b34_a_clock_that_leaps_releases_what_is_scheduled_within_a_minute(tmp_path: Path) -> None:
    """B34 (b): its instant is the wall clock's, wherever that goes."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        watching = asyncio.create_task(watch_clock(home.spool, home.clock, lambda: WAITS, home.facts.append))
        later = await schedule(home, "a@example.org", 3600)
        await pause(100)
        home.clock.step += 3600
        await pause(60.5)
        assert (await home.recipient(later)).status is Status.SENT
        watching.cancel()

    play(tmp_path, story)


def test_b34_a_clock_that_goes_back_releases_nothing_early(tmp_path: Path) -> None:
    """B34 (a): what was deferred is due now, what a program has scheduled is not."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        watching = asyncio.create_task(watch_clock(home.spool, home.clock, lambda: WAITS, home.facts.append))
        later = await schedule(home, "a@example.org", 300)
        await pause(100)
        home.clock.step -= DAY
        await pause(DAY + 199)
        assert (await home.recipient(later)).status is Status.PENDING
        await pause(2)
        assert (await home.recipient(later)).status is Status.SENT
        watching.cancel()

    play(tmp_path, story)


def test_a_doubt_rests_as_it_was_last_configured_when_the_clock_goes_back(tmp_path: Path) -> None:
    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        waits = WAITS
        watching = asyncio.create_task(watch_clock(home.spool, home.clock, lambda: waits, home.facts.append))
        replies = iter([Seen.LOST])
        remotes.decide = lambda phase, address, path: next(replies, None) if phase is Phase.FINAL else None
        first = await home.submit("a@example.org")
        await pause(5)
        assert (await home.recipient(first)).status is Status.IN_DOUBT
        waits = replace(WAITS, doubt_rest=60.0)
        home.clock.step -= DAY
        await pause(CLOCK_INTERVAL + 65)
        assert (await home.recipient(first)).status is Status.SENT
        watching.cancel()

    play(tmp_path, story)


def test_b34_a_clock_that_went_back_while_nobody_looked_delays_nothing_by_days(tmp_path: Path) -> None:
    """B34 (a): it was two days ahead when mail was deferred, and was put right before the next start."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        replies = iter(["451 4.7.1 later"] * 2)
        remotes.decide = lambda phase, address, path: next(replies, None) if phase is Phase.RCPT else None
        home.clock.step += 2 * DAY
        first = await home.submit("a@example.org")
        later = await schedule(home, "b@example.org", 3 * DAY)
        await pause(10)
        home.clock.step -= 2 * DAY
        await pause(POLICY.longest)
        assert (await home.recipient(first)).attempts == 1
        for _ in range(2):  # the second start finds nothing to do
            watching = asyncio.create_task(watch_clock(home.spool, home.clock, lambda: WAITS, home.facts.append))
            await pause(300)
            watching.cancel()
        assert (await home.recipient(first)).status is Status.SENT
        assert (await home.recipient(later)).status is Status.PENDING
        assert len([fact for fact in home.facts if isinstance(fact, Trouble)]) == 1

    play(tmp_path, story)


def test_a_step_of_two_seconds_rings_for_those_who_sleep_to_an_instant(tmp_path: Path) -> None:
    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        watching = asyncio.create_task(watch_clock(home.spool, home.clock, lambda: WAITS, home.facts.append))
        await pause(25)
        home.spool.doorbell.deadlines.clear()
        await pause(25)
        assert not home.spool.doorbell.deadlines.is_set()
        home.clock.step -= 2
        await pause(10)
        assert home.spool.doorbell.deadlines.is_set()
        assert not home.facts
        watching.cancel()

    play(tmp_path, story)


def test_a_delivery_that_was_lost_goes_on_and_a_long_one_is_left_alone(tmp_path: Path) -> None:
    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        reconciling = asyncio.create_task(reconcile_for_ever(home.spool, home.delivery, home.clock, home.facts.append))
        replies = iter(["451 4.7.1 later"])
        remotes.decide = lambda phase, address, path: next(replies, None) if phase is Phase.RCPT else None
        lost = await home.submit("lost@up.test")
        await pause(10)
        claim = await home.spool.claim("up.test", 1, home.clock.now() + 60)  # nobody works on it
        assert claim is not None
        await home.spool.mark_in_doubt(claim, [claim.recipients[0].id], "mx.up.test", "192.0.2.2", home.clock.now())
        remotes.latency = 210
        long = await home.submit("long@example.org")
        await pause(1220)
        assert (await home.recipient(long)).status is Status.SENDING
        assert (await home.recipient(lost)).status is Status.IN_DOUBT
        await pause(2500)
        assert (await home.recipient(long)).doubts == 0
        it = await home.recipient(lost)
        assert (it.status, it.attempts, it.doubts) == (Status.SENT, 3, 1)
        assert len(remotes.taken) == 2
        [trouble] = [fact for fact in home.facts if isinstance(fact, Trouble)]
        assert trouble.detail == "deliveries: 1; recipients in doubt by it: 1"
        reconciling.cancel()

    play(tmp_path, story)


def test_what_can_not_wait_is_told_undisturbed_for_as_long_as_the_spool_takes(tmp_path: Path) -> None:
    """The telling of a destination's overdue mail is work too: it is given to a spool that fails until it sticks."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        reconciling = asyncio.create_task(reconcile_for_ever(home.spool, home.delivery, home.clock, home.facts.append))
        remotes.decide = lambda phase, address, path: Seen.TIMEOUT if phase is Phase.CONNECT else None
        settle, failed = home.spool.settle, 0

        async def failing_settle(settlement: Settlement, now: float) -> object:
            nonlocal failed
            if not settlement.results[0].counted and failed < 300:
                failed += 1
                raise SpoolError("disk I/O error")
            return await settle(settlement, now)

        home.spool.settle = failing_settle
        first = await home.submit("a@example.org", policy=replace(POLICY, warn_after=150))
        await pause(130)
        await home.submit("b@example.org")
        await pause(1000)
        assert failed == 300
        due = await home.spool.notices([Notice.DSN_DELAYED], 10, 0)
        assert [notice.queue_id for notice in due] == [first]
        assert not [it for it in home.facts if isinstance(it, Trouble) and "without a result" in it.what]
        reconciling.cancel()

    play(tmp_path, story)


def test_old_content_is_forgotten_in_time_and_its_space_given_back_at_once(tmp_path: Path) -> None:
    """More than one step gives back; what stays free is a quarter of the file."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        retention = Retention(url=f"sqlite:{tmp_path}/spool.db", retention="30d", content_retention="3d")
        purging = asyncio.create_task(purge_for_ever(home.spool, retention, home.clock, home.facts.append))
        for number in range(12):
            await home.submit(f"{number}@example.org", content=CONTENT + b"x" * 76 * 1024 * 8)
        await pause(3 * DAY - 60)
        assert _one(tmp_path, "SELECT count(*) FROM content") >= 12
        await pause(3600 + 120)
        assert _one(tmp_path, "SELECT count(*) FROM content") == 0
        assert _one(tmp_path, "PRAGMA page_count") < 500
        assert _one(tmp_path, "PRAGMA freelist_count") <= _one(tmp_path, "PRAGMA page_count") // 3
        assert not [fact for fact in home.facts if isinstance(fact, Trouble)]
        purging.cancel()

    play(tmp_path, story)


def _one(folder: Path, statement: str) -> int:
    db = sqlite3.connect(f"file:{folder}/spool.db?mode=ro", uri=True)
    try:
        return int(db.execute(statement).fetchone()[0])
    finally:
        db.close()
