"""The scheduler over a spool that is a dict: who gets a session, when, and when not."""

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from mta.doorbell import Doorbell
from mta.model.envelope import MailClass
from mta.model.events import Fact, Trouble
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.destinations import Destinations
from mta.policy.lanes import LaneRules
from mta.policy.schedule import RetryPolicy
from mta.ports.scheduling import DeliveryOutcome
from mta.scheduler import Scheduler, SchedulerSettings
from mta.spool.base import Memory, Remembered, SpoolError
from tests.support.virtual import VirtualClock, run_virtual, until

POLICY = RetryPolicy(10, 2.0, 4 * 3600, 0.0, 5 * 86400, 0, 0)
DOWN = Verdict(
    Disposition.TRANSIENT, Scope.DESTINATION, "4.4.1", finding("4.4.1", "connection refused"), Phase.CONNECT
)


Lane = tuple[str, MailClass]


@dataclass
class World:
    """A spool of (due at) lists by lane and a delivery that takes `seconds` for each; both record what they saw."""

    seconds: float = 1.0
    max_sessions: int = 4
    per_destination: int = 2
    policy: RetryPolicy = POLICY
    rules: LaneRules = field(default_factory=LaneRules)
    waiting: dict[Lane, list[float]] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    delivered: list[tuple[float, str]] = field(default_factory=list)
    by_class: list[tuple[float, MailClass]] = field(default_factory=list)
    tried: list[tuple[float, str, MailClass]] = field(default_factory=list)
    overdue_told: list[str] = field(default_factory=list)
    active: dict[object, int] = field(default_factory=dict)
    peak: dict[object, int] = field(default_factory=dict)
    claims: int = 0
    asked: int = 0
    broken: bool = False
    facts: list[Fact] = field(default_factory=list)
    tables: Destinations = field(default_factory=Destinations)
    kept: dict[tuple[Memory, str], Remembered] = field(default_factory=dict)
    writes: int = 0
    inside: Callable[[str], None] = lambda destination: None

    def __post_init__(self) -> None:
        self.doorbell = Doorbell()
        self.clock = VirtualClock()
        self.scheduler = Scheduler(
            self.settings(),
            self,  # type: ignore[arg-type]  # the part of the spool that a scheduler uses
            self.clock,
            random.Random(1),
            self.facts.append,
            self,
        )

    def settings(self) -> SchedulerSettings:
        policies = dict.fromkeys(MailClass, self.policy)
        return SchedulerSettings(self.max_sessions, self.per_destination, policies, self.rules, self.tables)

    def submit(
        self, destination: str, count: int = 1, delay: float = 0.0, mail_class: MailClass = MailClass.NORMAL
    ) -> None:
        at = self.clock.now() + delay
        self.waiting.setdefault((destination, mail_class), []).extend([at] * count)
        self.waiting[destination, mail_class].sort()
        self.doorbell.ring_delivery(destination, at, mail_class)

    # the spool
    async def destinations(self, after: str, limit: int, now: float) -> list[tuple[str, dict[MailClass, float]]]:
        self._check()
        rows: dict[str, dict[MailClass, float]] = {}
        for (name, mail_class), instants in self.waiting.items():
            if instants and name > after:
                rows.setdefault(name, {})[mail_class] = min(instants)
        return sorted(rows.items())[:limit]

    async def next_due(self, destination: str, now: float, classes: Sequence[MailClass]) -> float | None:
        self._check()
        self.asked += 1
        return min((at for it in classes for at in self.waiting.get((destination, it), [])), default=None)

    async def memories(self, kind: Memory, after: str, limit: int, now: float) -> list[Remembered]:
        self._check()
        kept = (it for (of, name), it in sorted(self.kept.items()) if of is kind and name > after)
        return [it for it in kept if it.expires_at is None or it.expires_at > now][:limit]

    async def remember(self, kind: Memory, values: dict[str, str], expires_at: float | None, now: float) -> None:
        self._check()
        self.writes += 1
        await asyncio.sleep(0.001)
        self.kept |= {(kind, name): Remembered(name, value, now, expires_at) for name, value in values.items()}

    async def forget(self, kind: Memory, names: Collection[str], now: float) -> int:
        self._check()
        return sum(self.kept.pop((kind, name), None) is not None for name in names)

    def _check(self) -> None:
        if self.broken:
            raise SpoolError("disk I/O error")

    # the delivery
    async def deliver(
        self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
    ) -> DeliveryOutcome:
        self._check()
        self.claims += 1
        waiting = self.waiting.get((destination, mail_class), [])
        if not waiting or waiting[0] > self.clock.now():
            return DeliveryOutcome(idle=True)
        self.inside(destination)
        at = waiting.pop(0)
        claimed(min(waiting[:1], default=None))
        self.tried.append((self._since_start(), destination, mail_class))
        self._count(destination, mail_class, 1)
        await asyncio.sleep(self.seconds)
        self._count(destination, mail_class, -1)
        if destination in self.down:
            self.waiting[destination, mail_class].append(at + 1)
            self.waiting[destination, mail_class].sort()
            self.doorbell.ring_delivery(destination, at + 1, mail_class)
            return DeliveryOutcome(trouble=DOWN, mail_class=mail_class)
        self.delivered.append((self._since_start(), destination))
        self.by_class.append((self._since_start(), mail_class))
        return DeliveryOutcome(mail_class=mail_class)

    def _since_start(self) -> float:
        return asyncio.get_running_loop().time() - 1000.0

    def _count(self, destination: str, mail_class: MailClass, by: int) -> None:
        for name in (destination, mail_class, "*"):
            self.active[name] = self.active.get(name, 0) + by
            self.peak[name] = max(self.peak.get(name, 0), self.active[name])

    async def tell_overdue(self, destination: str, verdict: Verdict) -> None:
        self.overdue_told.append(destination)

    def all_gone(self) -> bool:
        return not any(self.waiting.values()) and not self.active.get("*")


def play(world_of: Callable[[], World], story) -> World:
    async def main() -> World:
        world = world_of()
        task = asyncio.create_task(world.scheduler.run())
        await story(world)
        world.scheduler.stop()
        await asyncio.wait_for(task, 120)
        return world

    return run_virtual(main())


def test_a_ring_is_delivered_without_waiting_for_a_timer():
    async def story(world: World) -> None:
        await asyncio.sleep(7)
        world.submit("a.test")
        await until(world.all_gone, 5)

    ((at, name),) = play(World, story).delivered
    assert name == "a.test" and abs(at - 8.0) < 0.001


def test_what_waits_from_before_the_start_is_found():
    def before() -> World:
        world = World()
        world.waiting["old.test", MailClass.NORMAL] = [0.0, 0.0]
        return world

    async def story(world: World) -> None:
        await until(world.all_gone, 10)

    assert [name for _, name in play(before, story).delivered] == ["old.test"] * 2


def test_caps_hold_and_are_used():
    async def story(world: World) -> None:
        for name in ("a.test", "b.test", "c.test"):
            world.submit(name, 20)
        await until(world.all_gone, 100)

    world = play(lambda: World(rules=LaneRules(urgent_reserve=0.0)), story)
    assert world.peak["*"] == 4
    assert {world.peak[name] for name in ("a.test", "b.test", "c.test")} == {2}
    assert max(at for at, _ in world.delivered) <= 60 / 4 + 2, "the global cap was not used"


def test_a_backlog_at_one_destination_does_not_delay_another():
    """B31: 10,000 rows at a slow destination, one at another."""

    async def story(world: World) -> None:
        world.submit("slow.test", 10_000)
        world.submit("slower.test", 10_000)
        await asyncio.sleep(50.5)
        world.submit("other.test")
        await until(lambda: any(name == "other.test" for _, name in world.delivered), 10)

    world = play(World, story)
    (at,) = [at for at, name in world.delivered if name == "other.test"]
    assert at <= 53


def test_every_destination_has_its_turn():
    async def story(world: World) -> None:
        for number in range(40):
            world.submit(f"d{number:02}.test", 50)
        await asyncio.sleep(30)

    world = play(World, story)
    counts = [sum(1 for _, it in world.delivered if it == f"d{number:02}.test") for number in range(40)]
    assert min(counts) >= max(counts) - 2, counts


def test_a_destination_in_trouble_rests_is_probed_by_one_and_recovers():
    async def story(world: World) -> None:
        world.down.add("down.test")
        world.submit("down.test", 100)
        await asyncio.sleep(600)
        world.down.clear()
        await until(world.all_gone, 3600)

    def quick() -> World:
        return World(seconds=0.1)

    world = play(quick, story)
    assert 5 <= len(world.overdue_told) <= 12, "10 s, 20 s, 40 s ... at most 5 minutes between two probes"
    assert len(world.delivered) == 100
    assert world.peak["down.test"] == 2


def test_several_failures_in_one_rest_count_once():
    async def story(world: World) -> None:
        world.down.add("down.test")
        world.submit("down.test", 100)
        await asyncio.sleep(5)
        assert 0 < world.scheduler.standings()["down.test"].rests_for <= 10

    play(lambda: World(per_destination=4), story)


def test_many_resting_destinations_cost_the_others_nothing():
    async def story(world: World) -> None:
        for number in range(2000):
            world.down.add(f"down{number}.test")
            world.submit(f"down{number}.test", 5)
        await asyncio.sleep(1200)
        before = world.claims
        world.submit("up.test", 50)
        await until(lambda: sum(1 for _, it in world.delivered if it == "up.test") == 50, 120)
        assert world.claims - before < 20_000

    play(lambda: World(seconds=0.01, max_sessions=50), story)


def test_later_mail_is_sent_when_it_is_due_and_a_clock_step_is_heard_of():
    """B34 (a): the clock goes back by a day while something waits for five minutes; and it leaps forward."""

    async def story(world: World) -> None:
        world.submit("later.test", delay=300)
        await asyncio.sleep(100)
        assert not world.delivered
        world.clock.step = 250.0
        world.doorbell.deliveries.set()  # as whoever watches the clock does
        await until(world.all_gone, 2)
        world.submit("later.test", delay=30)
        await asyncio.sleep(1)
        world.clock.step -= 3600.0
        world.waiting["later.test", MailClass.NORMAL] = [world.clock.now() + 30]
        world.doorbell.ring_delivery("later.test", world.clock.now() + 30, MailClass.NORMAL)
        await until(world.all_gone, 95)

    play(World, story)


def test_mail_that_is_due_later_is_not_forgotten_behind_a_turn_that_found_nothing():
    """As after the spool was looked at while one message was on its way for minutes: what is on its way was due before."""

    async def story(world: World) -> None:
        world.submit("a.test")
        await asyncio.sleep(1)
        world.submit("a.test", delay=100)
        await asyncio.sleep(1)
        world.doorbell.ring_delivery("a.test", world.clock.now(), MailClass.NORMAL)
        await until(world.all_gone, 1000)

    assert [round(at) for at, _ in play(lambda: World(seconds=600), story).delivered] == [600, 701]


def test_a_spool_that_fails_pauses_deliveries_is_said_once_and_recovers():
    async def story(world: World) -> None:
        world.submit("a.test", 5)
        await asyncio.sleep(1.5)
        world.broken = True
        await asyncio.sleep(20)
        world.broken = False
        await until(world.all_gone, 30)

    world = play(World, story)
    assert len(world.delivered) == 5
    troubles = [it for it in world.facts if isinstance(it, Trouble)]
    assert 1 <= len(troubles) <= 21
    assert "disk I/O error" in troubles[0].detail


def test_a_pause_that_ends_just_now_is_no_reason_to_sleep():
    """The clock runs on between the look at the line and the going to sleep: who stands in line is not left for a minute
    (seen as a stall after a full disk, with uvloop's clock)."""

    async def story(world: World) -> None:
        world.scheduler._agenda.news("a.test", MailClass.NORMAL, 0.0)  # what `_start_turns` leaves in a pause
        assert world.scheduler._sleep() == 0
        world.scheduler._paused_until = asyncio.get_running_loop().time() + 0.5
        assert 0 < world.scheduler._sleep() <= 0.5

    play(World, story)


def test_a_bug_in_one_delivery_stops_no_other():
    """B31: rows whose processing raises before any network I/O."""

    def bug(destination: str) -> None:
        if destination == "poison.test":
            raise RuntimeError("boom")

    async def story(world: World) -> None:
        world.submit("poison.test", 8)
        world.submit("good.test", 3)
        await until(lambda: len(world.delivered) == 3, 10)

    world = play(lambda: World(inside=bug), story)
    assert world.claims < 20, "the poison is not tried in a busy loop"


def test_stop_ends_sessions_after_the_claim_they_have():
    async def story(world: World) -> None:
        world.submit("a.test", 1000)
        await asyncio.sleep(2.5)

    world = play(World, story)
    assert len(world.delivered) <= 8
