"""The stage that keeps deadlines, in virtual time: at its instant, over steps of the clock, over trouble with the spool."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mta.delivery.deadlines import LEAP_REST, Deadlines
from mta.model.envelope import ByMode, DeliverBy, Notice
from mta.model.events import Trouble
from mta.model.lifecycle import Event, Status
from mta.spool.base import Claim, Selection, SpoolError
from mta.spool.sqlite import SqliteSpool
from tests.delivery.house import House, house
from tests.support.remote import Remotes
from tests.support.virtual import VirtualClock, run_virtual

N, HANDOVER = ByMode.NOTIFY, ByMode.HANDOVER
Story = Callable[[House, VirtualClock], Awaitable[None]]


def play(tmp_path: Path, story: Story) -> None:
    """No scheduler: nothing but the stage takes anything."""

    async def main() -> None:
        clock = VirtualClock()
        async with house(tmp_path, 25, connector=Remotes(), clock=clock) as home:
            task = asyncio.create_task(Deadlines(home.delivery, home.spool, clock, home.facts.append).run())
            await story(home, clock)
            assert not task.done()
            task.cancel()

    run_virtual(main())


async def submit(home: House, name: str, seconds: float, mode: ByMode = HANDOVER) -> str:
    return await home.submit(f"{name}@example.org", deliver_by=DeliverBy(home.clock.now() + seconds, mode))


async def status(home: House, queue_id: str) -> Status:
    return (await home.recipient(queue_id)).status


def test_each_ends_at_its_instant(tmp_path: Path):
    """The bell is enough: an earlier one that comes later is not slept over."""

    async def story(home: House, clock: VirtualClock) -> None:
        later = await submit(home, "later", 30)
        await asyncio.sleep(1)
        sooner = await submit(home, "sooner", 4)
        await asyncio.sleep(3.99)
        assert [await status(home, it) for it in (sooner, later)] == [Status.PENDING] * 2
        await asyncio.sleep(0.02)
        assert [await status(home, it) for it in (sooner, later)] == [Status.FAILED, Status.PENDING]
        await asyncio.sleep(25)
        assert await status(home, later) is Status.FAILED

    play(tmp_path, story)


def test_mode_n_is_told_of_at_its_instant_once(tmp_path: Path):
    async def story(home: House, clock: VirtualClock) -> None:
        queue_id = await submit(home, "late", 90, N)
        await asyncio.sleep(90.01)
        assert await home.notices() == [(Notice.DSN_LATE, "late@example.org")]
        await asyncio.sleep(3600)
        assert len(await home.notices()) == 1
        assert await status(home, queue_id) is Status.PENDING

    play(tmp_path, story)


def test_b35_what_passed_while_the_daemon_was_down_ends_at_the_start(tmp_path: Path):
    async def main() -> None:
        clock = VirtualClock()
        async with house(tmp_path, 25, connector=Remotes(), clock=clock) as home:
            ids = [await submit(home, f"r{number}", 60) for number in range(300)]
            await asyncio.sleep(3600)
            assert (await home.deliver()).idle, "not sent, whatever the stage does"
            task = asyncio.create_task(Deadlines(home.delivery, home.spool, clock, home.facts.append).run())
            await asyncio.sleep(0.01)
            assert {await status(home, it) for it in ids} == {Status.FAILED}
            task.cancel()

    run_virtual(main())


@pytest.mark.parametrize("back", [30.0, 119.0])
def test_b34_b_a_leap_that_is_taken_back_ends_nothing(tmp_path: Path, back: float):
    """Plus ten days, then back."""

    async def story(home: House, clock: VirtualClock) -> None:
        queue_id = await submit(home, "a", 3600)
        await asyncio.sleep(10)
        clock.step = 10 * 86400.0
        home.spool.doorbell.ring_deadlines()
        await asyncio.sleep(back)
        clock.step = 0.0
        home.spool.doorbell.ring_deadlines()
        await asyncio.sleep(600)
        assert await status(home, queue_id) is Status.PENDING
        await asyncio.sleep(3600)
        assert await status(home, queue_id) is Status.FAILED

    play(tmp_path, story)


def test_b34_b_a_leap_that_stays_is_believed_after_two_minutes(tmp_path: Path):
    """Meanwhile nothing that has passed is sent."""

    async def story(home: House, clock: VirtualClock) -> None:
        queue_id = await submit(home, "a", 3600)
        await asyncio.sleep(10)
        clock.step = 86400.0
        home.spool.doorbell.ring_deadlines()  # as whoever watches the clock does
        await asyncio.sleep(LEAP_REST - 5)
        assert await status(home, queue_id) is Status.PENDING
        assert (await home.deliver()).idle
        await asyncio.sleep(6)
        assert await status(home, queue_id) is Status.FAILED

    play(tmp_path, story)


def test_b34_a_step_back_lets_it_live_longer_by_the_wall_clock(tmp_path: Path):
    async def story(home: House, clock: VirtualClock) -> None:
        queue_id = await submit(home, "a", 60)
        await asyncio.sleep(30)
        clock.step = -86400.0
        home.spool.doorbell.ring_deadlines()
        await asyncio.sleep(3600)
        assert await status(home, queue_id) is Status.PENDING
        clock.step = 0.0
        await asyncio.sleep(60 + LEAP_REST + 1)
        assert await status(home, queue_id) is Status.FAILED

    play(tmp_path, story)


def test_a_standing_order_over_the_deadline(tmp_path: Path):
    async def story(home: House, clock: VirtualClock) -> None:
        held = await submit(home, "held", 60)
        await home.spool.standing_hold("example.org", True, clock.now())
        other = await home.submit("b@up.test", deliver_by=DeliverBy(clock.now() + 100, HANDOVER))
        await asyncio.sleep(101.01)
        assert await status(home, held) is Status.PENDING
        assert await status(home, other) is Status.FAILED, "what is held hides no other"
        await home.spool.standing_hold("example.org", False, clock.now())
        await asyncio.sleep(1.5)
        assert await status(home, held) is Status.FAILED

    play(tmp_path, story)


def test_cancelled_and_held_ones_are_left_alone(tmp_path: Path):
    async def story(home: House, clock: VirtualClock) -> None:
        ids = [await submit(home, name, 60) for name in ("cancelled", "held")]
        for queue_id, event in zip(ids, (Event.CANCEL, Event.HOLD), strict=True):
            await home.spool.order(event, Selection((queue_id,)), clock.now())
        await asyncio.sleep(120)
        assert [await status(home, it) for it in ids] == [Status.CANCELLED, Status.HELD]
        assert await home.notices() == []
        await home.spool.order(Event.RELEASE, Selection((ids[1],)), clock.now())
        await asyncio.sleep(1.5)
        assert await status(home, ids[1]) is Status.FAILED

    play(tmp_path, story)


# ---------------------------------------------------------------- trouble
@dataclass
class Failing:
    """The spool's verbs of deadlines, the first `failures` of which fail."""

    spool: SqliteSpool
    failures: int
    asked: list[float] = field(default_factory=list)

    @property
    def doorbell(self) -> object:
        return self.spool.doorbell

    async def claim_expired(self, limit: int, now: float) -> Claim | None:
        self.asked.append(asyncio.get_running_loop().time())
        if len(self.asked) <= self.failures:
            raise SpoolError("disk I/O error")
        return await self.spool.claim_expired(limit, now)

    async def next_deadline(self) -> float | None:
        return await self.spool.next_deadline()


def test_b08_trouble_with_the_spool_is_told_once_and_waited_out(tmp_path: Path):
    async def main() -> Sequence[float]:
        clock = VirtualClock()
        async with house(tmp_path, 25, connector=Remotes(), clock=clock) as home:
            queue_id = await submit(home, "a", 1)
            spool = Failing(home.spool, 5)
            task = asyncio.create_task(Deadlines(home.delivery, spool, clock, home.facts.append).run())
            await asyncio.sleep(100)
            assert await status(home, queue_id) is Status.FAILED
            assert len([it for it in home.facts if isinstance(it, Trouble)]) == 1
            task.cancel()
            return spool.asked

    asked = run_virtual(main())
    assert [round(later - sooner) for sooner, later in itertools.pairwise(asked[:6])] == [1, 2, 4, 8, 16]


def test_a_bug_with_one_does_not_keep_the_others(tmp_path: Path):
    async def main() -> None:
        clock = VirtualClock()
        async with house(tmp_path, 25, connector=Remotes(), clock=clock) as home:
            ids = [await submit(home, f"r{number}", 1) for number in range(20)]

            class Broken:
                async def expire(self, claim: Claim) -> None:
                    if claim.queue_id == ids[3]:
                        raise RuntimeError("ours")
                    await home.delivery.expire(claim)

            task = asyncio.create_task(Deadlines(Broken(), home.spool, clock, home.facts.append).run())
            await asyncio.sleep(100)
            assert [it for it in ids if await status(home, it) is not Status.FAILED] == [ids[3]]
            task.cancel()

    run_virtual(main())
