"""The scheduler and the classes of mail: who waits for whom, what rests, what never starves."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from mta.model.envelope import MailClass
from mta.policy.lanes import LaneRules
from mta.policy.schedule import RetryPolicy
from mta.ports.scheduling import DeliveryOutcome
from tests.support.virtual import until
from tests.test_scheduler import World, play

URGENT, NORMAL, BULK = MailClass


@dataclass
class Wide(World):
    """The defaults' caps, and transactions as a slow server has them."""

    seconds: float = 0.1
    max_sessions: int = 20
    per_destination: int = 20


async def endless(world: World, destination: str, mail_class: MailClass, per_second: float) -> None:
    while True:
        world.submit(destination, mail_class=mail_class)
        await asyncio.sleep(1 / per_second)


def shares(world: World, since: float = 0.0) -> Counter[MailClass]:
    return Counter(it for at, it in world.by_class if at >= since)


def waits(world: World, mail_class: MailClass) -> list[float]:
    return [at for at, it in world.by_class if it is mail_class]


@pytest.mark.parametrize("cap", [1, 2, 3, 4, 20])
def test_b31_bulk_and_normal_mail_progress_under_endless_urgent_load(cap: int) -> None:
    """Urgent mail comes as fast as all sessions can send it; each other class still has about `bulk_share` of the turns."""

    async def story(world: World) -> None:
        world.submit("a.test", 3000, mail_class=BULK)
        world.submit("a.test", 3000)
        urgent = asyncio.create_task(endless(world, "a.test", URGENT, 10.0 * cap))
        await asyncio.sleep(60)
        urgent.cancel()

    world = play(lambda: Wide(per_destination=cap), story)
    counts = shares(world, since=5)
    assert counts[BULK] >= 0.09 * counts.total(), counts
    assert counts[NORMAL] >= 0.08 * counts.total(), counts
    assert counts[URGENT] >= 0.2 * counts.total(), counts
    assert counts.total() >= 10.0 * cap * 55 * 0.95, "sessions were left idle"


def test_b31_one_bulk_message_waits_for_ten_turns_at_most() -> None:
    async def story(world: World) -> None:
        world.submit("a.test", 300, mail_class=URGENT)
        world.submit("a.test", 1, mail_class=BULK)
        await until(lambda: waits(world, BULK))

    world = play(lambda: Wide(per_destination=1), story)
    assert waits(world, BULK)[0] <= 1.25


def test_b31_urgent_mail_behind_10_000_of_bulk_waits_for_no_transaction_up_to_the_reserve() -> None:
    async def story(world: World) -> None:
        world.submit("a.test", 10_000, mail_class=BULK)
        await asyncio.sleep(5.05)
        world.submit("a.test", 4, mail_class=URGENT)
        await asyncio.sleep(5.01)
        world.submit("a.test", 20, mail_class=URGENT)
        await asyncio.sleep(2)

    world = play(Wide, story)
    assert world.peak[BULK] == 16
    arrived = waits(world, URGENT)
    assert arrived[:4] == pytest.approx([5.15] * 4, abs=0.001)
    assert max(arrived) <= 10.06 + 0.25, "beyond the reserve it waits for the transactions that run, no more"


def test_bulk_loses_no_more_than_urgent_s_own_share() -> None:
    async def story(world: World) -> None:
        world.submit("a.test", 10_000, mail_class=BULK)
        await asyncio.sleep(20)
        urgent = asyncio.create_task(endless(world, "a.test", URGENT, 10.0))
        await asyncio.sleep(20)
        urgent.cancel()

    world = play(Wide, story)
    alone = len([at for at in waits(world, BULK) if 5 <= at < 19])
    beside = len([at for at in waits(world, BULK) if 25 <= at < 39])
    assert alone == pytest.approx(160 * 14, rel=0.02) and beside >= alone * 0.99


def test_the_reserve_is_kept_over_all_destinations() -> None:
    async def story(world: World) -> None:
        for number in range(10):
            world.submit(f"d{number}.test", 200, mail_class=BULK)
            world.submit(f"e{number}.test", 200)
        await asyncio.sleep(4)
        world.submit("d0.test", 3, mail_class=URGENT)
        await asyncio.sleep(0.11)
        assert len(waits(world, URGENT)) == 3

    world = play(lambda: Wide(per_destination=10), story)
    assert world.peak["*"] == 16 + 3
    assert world.active[NORMAL] > world.active[BULK] > 0, "the higher class has what is left over the other's least"


def test_normal_mail_elsewhere_has_the_next_session_when_bulk_has_all_it_may() -> None:
    """What is owed to a class is owed globally too: bulk at two destinations fills the daemon."""

    async def story(world: World) -> None:
        for name in ("slow.test", "slow2.test"):
            world.submit(name, 500, mail_class=BULK)
        await asyncio.sleep(3.05)
        world.submit("fast.test")
        await until(lambda: waits(world, NORMAL), 2)

    world = play(lambda: Wide(per_destination=10, seconds=0.25), story)
    assert waits(world, NORMAL)[0] <= 3.05 + 0.6


def test_within_a_class_destinations_take_turns() -> None:
    async def story(world: World) -> None:
        for number in range(30):
            world.submit(f"d{number}.test", 100 if number else 5000, mail_class=BULK)
        await asyncio.sleep(10)

    world = play(Wide, story)
    counts = Counter(name for _, name in world.delivered)
    assert max(counts.values()) - min(counts.values()) <= 3, counts


def test_bulk_at_many_destinations_is_not_starved_by_normal_mail_there() -> None:
    async def story(world: World) -> None:
        for number in range(40):
            world.submit(f"d{number}.test", 200, mail_class=BULK)
            world.submit(f"d{number}.test", 200)
        await asyncio.sleep(20)

    counts = shares(play(Wide, story))
    assert counts[BULK] >= 0.09 * counts.total(), counts


def test_urgent_mail_goes_first_also_where_many_destinations_have_bulk() -> None:
    """The bulk of thirty destinations has its part of each one's turns, not a session of each."""

    async def story(world: World) -> None:
        for number in range(30):
            world.submit(f"d{number}.test", 200, mail_class=BULK)
        await asyncio.sleep(5.05)
        for number in range(30):
            world.submit(f"d{number}.test", 10, mail_class=URGENT)
        await until(lambda: len(waits(world, URGENT)) == 300, 5)

    world = play(Wide, story)
    assert max(waits(world, URGENT)) <= 5.05 + 0.1 + 300 / 180 + 0.3


# ---------------------------------------------------------------- rests
def test_urgent_mail_to_a_destination_that_refuses_is_tried_once_a_second() -> None:
    """Fifty codes wait; each second one is tried, whatever the others' rest; they leave when it is back."""
    quick = RetryPolicy(60, 2.0, 300, 0.0, 3600, 0, 0)

    async def story(world: World) -> None:
        world.down.add("down.test")
        world.submit("down.test", 50, mail_class=URGENT)
        world.submit("down.test", 50, mail_class=BULK)
        await asyncio.sleep(100)
        tries = [(at, it) for at, _, it in world.tried if at > 1]
        urgent = [at for at, it in tries if it is URGENT]
        assert 80 <= len(urgent) <= 100
        assert min(b - a for a, b in pairwise(urgent)) >= 1.0
        assert len(tries) - len(urgent) <= 2, "bulk rests for a minute and more"
        world.down.clear()
        await until(lambda: len(waits(world, URGENT)) == 50, 15)

    play(lambda: Wide(per_destination=5, seconds=0.01, policy=quick), story)


def test_a_rest_of_bulk_does_not_hold_a_code() -> None:
    async def story(world: World) -> None:
        world.down.add("a.test")
        world.submit("a.test", mail_class=BULK)
        await asyncio.sleep(2)
        world.down.clear()
        world.submit("a.test", mail_class=URGENT)
        await until(lambda: waits(world, URGENT), 1)
        await until(lambda: waits(world, BULK), 2)

    play(lambda: Wide(policy=RetryPolicy(600, 2.0, 600, 0.0, 3600, 0, 0)), story)


def test_a_destination_that_is_probed_by_one_goes_by_turns() -> None:
    """After trouble one session is allowed, then two, then four: no reserve there, and no class is shut out."""

    async def story(world: World) -> None:
        world.down.add("a.test")
        world.submit("a.test", mail_class=BULK)
        await asyncio.sleep(1)
        world.down.clear()
        world.submit("a.test", 20, mail_class=BULK)
        world.submit("a.test", 20, mail_class=URGENT)
        await until(world.all_gone, 60)

    world = play(Wide, story)
    first = [it for _, it in world.by_class]
    assert first[0] is URGENT


def test_a_reload_counts_from_the_next_turn_on() -> None:
    async def story(world: World) -> None:
        world.submit("a.test", 2000, mail_class=BULK)
        await asyncio.sleep(5)
        assert world.active[BULK] == 16
        world.rules = LaneRules(urgent_reserve=0.5)
        world.scheduler.reconfigure(world.settings())
        await asyncio.sleep(1)
        assert world.active[BULK] == 10
        world.rules = LaneRules(urgent_reserve=0.0)
        world.per_destination = 12
        world.scheduler.reconfigure(world.settings())
        await asyncio.sleep(1)
        assert world.active[BULK] == 12

    play(Wide, story)


# ---------------------------------------------------------------- what the spool is asked
def test_a_message_costs_one_claim() -> None:
    async def story(world: World) -> None:
        for _ in range(200):
            world.submit("a.test")
            await asyncio.sleep(0.2)
        assert (world.claims, world.asked) == (200, 0)
        world.submit("b.test", 1000)
        await until(world.all_gone, 60)
        assert world.claims <= 1230 and world.asked <= 5

    play(Wide, story)


@dataclass
class Hesitant(Wide):
    """A spool that takes its time before and after it looks, so that rings come in between."""

    chance: random.Random = field(default_factory=lambda: random.Random(7))

    async def deliver(
        self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
    ) -> DeliveryOutcome:
        await asyncio.sleep(self.chance.uniform(0, 0.02))
        outcome = await super().deliver(destination, mail_class, claimed)
        if outcome.idle:
            await asyncio.sleep(self.chance.uniform(0, 0.02))
        return outcome

    async def next_due(self, *args: object) -> float | None:
        await asyncio.sleep(self.chance.uniform(0, 0.02))
        return await super().next_due(*args)


@pytest.mark.parametrize("seed", range(10))
def test_no_wake_is_lost(seed: int) -> None:
    """Whatever comes while the spool is being asked is delivered at once, not at the next look a minute later."""
    chance = random.Random(seed)

    async def story(world: World) -> None:
        for _ in range(300):
            name, mail_class = f"d{chance.randrange(3)}.test", chance.choice(list(MailClass))
            world.submit(name, chance.randrange(1, 4), chance.choice([0, 0, 0, 0.01, 0.05, 3]), mail_class)
            await asyncio.sleep(chance.choice([0, 0.001, 0.01, 0.05, 0.3]))
        await until(world.all_gone, 7)

    play(lambda: Hesitant(seconds=0.02, per_destination=chance.choice([1, 2, 3, 10])), story)


def test_a_black_hole_s_10_000_do_not_slow_another_destination() -> None:
    """Issue 7: nobody waits for a destination that can't be reached, of any class."""

    async def story(world: World) -> None:
        world.down.add("hole.test")
        for mail_class in MailClass:
            world.submit("hole.test", 3500, mail_class=mail_class)
        await asyncio.sleep(10)
        world.submit("up.test", 1600)
        await until(lambda: len([1 for _, name in world.delivered if name == "up.test"]) == 1600, 14)

    play(Wide, story)
