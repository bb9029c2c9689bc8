"""The scheduler and what a destination bears: windows that are found, ceilings that are learned, rates; in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from msgspec import structs

from mta.model.envelope import MailClass
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import Reply
from mta.policy.destinations import DestinationRule, Destinations, Relay, RouteRule
from mta.policy.lanes import LaneRules
from mta.policy.rates import Rate
from mta.policy.schedule import RetryPolicy
from mta.ports import DeliveryOutcome
from mta.spool.base import Memory
from tests.support.virtual import until
from tests.test_scheduler import World, play
from tests.test_scheduler_lanes import Wide, endless, shares, waits

URGENT, NORMAL, BULK = MailClass
TOO_MANY = Reply(421, "4.7.0", "mx.test Error: too many connections from 192.0.2.1")
CROWDED = Verdict(Disposition.TRANSIENT, Scope.DESTINATION, "4.7.0", TOO_MANY, Phase.BANNER)


@dataclass
class Plain(Wide):
    """Without a reserve, so that one class may have all sessions."""

    rules: LaneRules = field(default_factory=lambda: LaneRules(urgent_reserve=0.0))


@dataclass
class Limiting(Plain):
    """Servers that refuse the session that is one too many for `bears` of a destination, at once; such mail is due again
    after ten seconds."""

    bears: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[float, str]] = field(default_factory=list)

    async def deliver(
        self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
    ) -> DeliveryOutcome:
        waiting = self.waiting.get((destination, mail_class), [])
        others = self.active.get(destination, 0)
        if destination not in self.bears or others < self.bears[destination] or not waiting:
            return await super().deliver(destination, mail_class, claimed)
        if waiting[0] > self.clock.now():
            return DeliveryOutcome(idle=True)
        waiting.pop(0)
        claimed(min(waiting[:1], default=None))
        self.refused.append((self._since_start(), destination))
        await asyncio.sleep(0.01)
        self.submit(destination, delay=10, mail_class=mail_class)
        return DeliveryOutcome(
            trouble=CROWDED, mail_class=mail_class, contents=0, crowded=others, refusal=str(TOO_MANY)
        )


# ---------------------------------------------------------------- windows and ceilings
def test_the_sessions_of_a_destination_grow_one_by_one_up_to_the_cap() -> None:
    """RTY-05: no leap to what it may not bear."""

    async def story(world: World) -> None:
        world.submit("a.test", 4000)
        seen = []
        for _ in range(300):
            await asyncio.sleep(0.1)
            seen.append(world.active["a.test"])
        assert seen[0] <= 5 and max(seen) == 20
        assert max(b - a for a, b in pairwise(seen)) <= 2

    play(Plain, story)


def test_421_is_learned_kept_and_heeded_and_all_mail_arrives() -> None:
    """421 beyond three sessions (RTY-05, Table A 421): the cap comes down to three, no rest, nothing lost."""

    async def story(world: World) -> None:
        world.submit("few.test", 600)
        await asyncio.sleep(5)
        standing = world.scheduler.standings()["few.test"]
        assert (standing.cap, standing.allowed) == (3, 3)
        assert "too many connections" in standing.learned and not standing.rests_for
        learned = len(world.refused)
        await until(lambda: len(world.delivered) == 600, 60)
        assert len(world.refused) == learned <= 6, "it is not tried again and again"

    world = play(lambda: Limiting(bears={"few.test": 3}), story)
    assert world.kept[Memory.LIMIT, "few.test"].value == f'{{"sessions": 3, "reply": "{TOO_MANY}"}}'
    assert not world.overdue_told, "it did not rest"
    busy = [at for at, _ in world.delivered if at > 5]
    assert len(busy) / (max(busy) - 5) > 29, "all three sessions are used"


def test_a_new_start_knows_what_was_learned() -> None:
    kept: dict = {}

    async def learning(world: World) -> None:
        world.submit("few.test", 100)
        await until(lambda: len(world.delivered) == 100, 60)
        kept.update(world.kept)

    async def knowing(world: World) -> None:
        world.submit("few.test", 300)
        await until(lambda: len(world.delivered) == 300, 60)
        assert not world.refused

    play(lambda: Limiting(bears={"few.test": 3}), learning)
    play(lambda: Limiting(bears={"few.test": 3}, kept=kept), knowing)


def test_what_was_learned_is_raised_by_one_an_hour_and_forgotten_after_a_day() -> None:
    async def story(world: World) -> None:
        world.submit("few.test", 100)
        await until(lambda: len(world.delivered) == 100, 600)
        world.bears.clear()
        feed = asyncio.create_task(endless(world, "few.test", NORMAL, 1))
        await asyncio.sleep(1800)
        assert world.scheduler.standings()["few.test"].cap == 3
        await asyncio.sleep(3600)
        assert world.scheduler.standings()["few.test"].cap == 4
        feed.cancel()
        world.waiting.clear()
        await asyncio.sleep(86400)
        world.submit("few.test", 200)
        await asyncio.sleep(1)
        assert world.scheduler.standings()["few.test"].cap == 20

    world = play(lambda: Limiting(bears={"few.test": 3}, seconds=10.0), story)
    kept = world.kept[Memory.LIMIT, "few.test"]
    assert kept.expires_at is not None and kept.expires_at < world.clock.epoch + 2 * 86400


def test_a_server_that_refuses_all_of_a_crowd_is_soon_probed_by_one() -> None:
    async def story(world: World) -> None:
        world.submit("few.test", 40)
        await until(lambda: len(world.overdue_told) > 0, 2, step=0.001)
        assert world.scheduler.standings()["few.test"].rests_for <= 10
        world.bears["few.test"] = 3
        await until(lambda: len(world.delivered) == 40, 40)

    @dataclass
    class Herd(Limiting):
        """Those that it refuses count too, while they are there."""

        beside: int = 5

        async def deliver(
            self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
        ) -> DeliveryOutcome:
            outcome = await super().deliver(destination, mail_class, claimed)
            if outcome.trouble is None:
                return outcome
            self.beside = max(0, self.beside - 1)
            return structs.replace(outcome, crowded=self.beside)

    play(lambda: Herd(bears={"few.test": 0}, policy=RetryPolicy(600, 2.0, 600, 0.0, 3600, 0, 0)), story)


def test_421_of_a_server_that_is_down_teaches_nothing() -> None:
    async def story(world: World) -> None:
        world.submit("away.test", 50)
        await asyncio.sleep(120)
        assert not world.delivered
        world.bears.clear()
        await until(lambda: len(world.delivered) == 50, 600)

    world = play(lambda: Limiting(bears={"away.test": 0}), story)
    assert not world.kept
    assert len(world.refused) < 40, "it rested"


def test_one_session_that_fails_beside_others_is_no_rest() -> None:
    @dataclass
    class Chancy(Plain):
        began: int = 0

        async def deliver(
            self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
        ) -> DeliveryOutcome:
            self.began += 1
            fails = self.began % 12 == 0
            outcome = await super().deliver(destination, mail_class, claimed)
            return DeliveryOutcome(trouble=CROWDED, mail_class=mail_class) if fails and not outcome.idle else outcome

    async def story(world: World) -> None:
        world.submit("a.test", 3000)
        await asyncio.sleep(20)
        assert not world.overdue_told and len(world.delivered) > 800

    play(Chancy, story)


# ---------------------------------------------------------------- limits that are configured
def rules(*tables: DestinationRule, routes: tuple[RouteRule, ...] = ()) -> Destinations:
    return Destinations(tables, routes)


def test_a_table_caps_each_destination_or_all_of_them_together() -> None:
    async def story(world: World) -> None:
        for name in ("a.one.test", "b.one.test", "a.all.test", "b.all.test", "free.test"):
            world.submit(name, 200)
        await asyncio.sleep(8)

    tables = rules(
        DestinationRule(("*.one.test",), max_sessions=2), DestinationRule(("*.all.test",), max_sessions=3, shared=True)
    )
    peaks: Counter[str] = Counter()

    @dataclass
    class Together(Plain):
        def _count(self, destination: str, mail_class: MailClass, by: int) -> None:
            super()._count(destination, mail_class, by)
            together = sum(self.active.get(name, 0) for name in ("a.all.test", "b.all.test"))
            peaks["together"] = max(peaks["together"], together)

    world = play(lambda: Together(tables=tables, max_sessions=100), story)
    assert (world.peak["a.one.test"], world.peak["b.one.test"]) == (2, 2)
    assert peaks["together"] == 3 and world.peak["free.test"] > 10
    counts = Counter(name for _, name in world.delivered)
    assert abs(counts["a.all.test"] - counts["b.all.test"]) <= 2, "those that share take turns"


def test_what_goes_by_a_relay_shares_the_relay_s_limits() -> None:
    relay = Relay("relay.test", 587)
    tables = rules(DestinationRule(("relay.test",), max_sessions=4), routes=(RouteRule(("*.out.test",), (relay,)),))

    async def story(world: World) -> None:
        for number in range(10):
            world.submit(f"d{number}.out.test", 20)
        await asyncio.sleep(3)
        assert {it.group for it in world.scheduler.standings().values()} == {"smtp://relay.test:587"}

    world = play(lambda: Plain(tables=tables, max_sessions=100), story)
    assert world.peak["*"] == 4


def test_a_reload_holds_at_once_also_for_who_shares() -> None:
    async def story(world: World) -> None:
        for name in ("a.all.test", "b.all.test"):
            world.submit(name, 5000)
        await asyncio.sleep(4)
        assert world.active["*"] > 20
        world.tables = rules(DestinationRule(("*.all.test",), max_sessions=3, shared=True))
        world.scheduler.reconfigure(world.settings())
        await asyncio.sleep(0.3)
        assert world.active["*"] == 3
        world.tables = rules()
        world.scheduler.reconfigure(world.settings())
        await asyncio.sleep(4)
        assert world.active["*"] > 20

    play(lambda: Plain(max_sessions=100), story)


# ---------------------------------------------------------------- rates
def per_second(rate: Rate, shared: bool = False) -> Destinations:
    return rules(DestinationRule(("*.slow.test",), rate=rate, shared=shared))


def most_in(world: World, span: float, names: str = "") -> int:
    """The most messages that began within any `span` seconds."""
    at = sorted(at for at, name, _ in world.tried if name.endswith(names))
    return max(sum(1 for it in at[n:] if it <= start + span) for n, start in enumerate(at))


@pytest.mark.parametrize("rate", [Rate(100, 60, 100), Rate(10, 1, 10), Rate(50, 10, 5), Rate(1, 5, 1), Rate(1000, 60, 1)])
def test_a_rate_is_never_passed_and_is_used(rate: Rate) -> None:
    async def story(world: World) -> None:
        world.submit("a.slow.test", 2000)
        await asyncio.sleep(60)
        standing = world.scheduler.standings()["a.slow.test"]
        assert standing.rate == rate and standing.next_in is not None and standing.next_in <= rate.period

    world = play(lambda: Wide(tables=per_second(rate), seconds=0.01), story)
    for span in (0.5, 5, 50):
        assert most_in(world, span) <= rate.burst + rate.amount / rate.period * span + 1e-6
    assert len(world.tried) >= 0.9 * (rate.burst + rate.amount / rate.period * 60) - 1
    assert world.claims == len(world.tried), "nothing is claimed that may not be sent"


def test_a_rate_is_shared_by_those_that_share_and_stops_nobody_else() -> None:
    async def story(world: World) -> None:
        for name in ("a.slow.test", "b.slow.test", "c.slow.test", "fast.test"):
            world.submit(name, 500)
        await asyncio.sleep(10)

    world = play(lambda: Wide(tables=per_second(Rate(5, 1, 5), shared=True), seconds=0.01), story)
    counts = Counter(name for _, name in world.delivered)
    assert counts.pop("fast.test") == 500
    assert 50 <= counts.total() <= 55
    assert max(counts.values()) - min(counts.values()) <= 2


def test_under_a_rate_urgent_mail_goes_first_and_bulk_has_its_share() -> None:
    """B31."""

    async def story(world: World) -> None:
        world.submit("a.slow.test", 1000, mail_class=BULK)
        await asyncio.sleep(20.05)
        urgent = asyncio.create_task(endless(world, "a.slow.test", URGENT, 20))
        await asyncio.sleep(60)
        urgent.cancel()

    world = play(lambda: Wide(tables=per_second(Rate(10, 1, 10)), seconds=0.01), story)
    assert waits(world, URGENT)[0] <= 20.05 + 0.25
    counts = shares(world, since=22)
    assert 0.08 <= counts[BULK] / counts.total() <= 0.15, counts


def test_few_messages_cost_a_write_where_many_may_be_sent() -> None:
    async def story(world: World) -> None:
        world.submit("a.slow.test", 3000)
        await until(world.all_gone, 600)

    world = play(lambda: Wide(tables=per_second(Rate(6000, 60, 1000)), seconds=0.01), story)
    assert len(world.delivered) == 3000 and world.writes <= 60


@pytest.mark.parametrize("after", [0.0, 0.3, 2.0])
def test_a_crash_sends_less_never_more(after: float) -> None:
    """What a killed process had taken off the books is lost; the next one goes on with what is written."""
    rate, kept, began = Rate(10, 1, 20), {}, []

    async def first(world: World) -> None:
        world.submit("a.slow.test", 500)
        await asyncio.sleep(3.33)
        kept.update(world.kept)  # as a crash finds it: nothing is written at the end
        began.extend(at for at, _, _ in world.tried)

    async def second(world: World) -> None:
        world.clock.epoch += 3.33 + after
        world.submit("a.slow.test", 500)
        await asyncio.sleep(5)
        began.extend(at + 3.33 + after for at, _, _ in world.tried)

    play(lambda: Wide(tables=per_second(rate), seconds=0.01), first)
    play(lambda: Wide(tables=per_second(rate), seconds=0.01, kept=kept), second)
    for n, start in enumerate(began):
        for span in (0.5, 1, 3, 6):
            assert sum(1 for it in began[n:] if it <= start + span) <= rate.burst + 10 * span + 1e-6
    assert len(began) >= 60


def test_an_orderly_end_loses_nothing_of_a_rate() -> None:
    async def story(world: World) -> None:
        world.submit("a.slow.test", 3)
        await until(world.all_gone, 5)

    world = play(lambda: Wide(tables=per_second(Rate(100, 3600, 100)), seconds=0.01), story)
    assert float(world.kept[Memory.RATE, "a.slow.test"].value) == pytest.approx(97, abs=0.5)


@pytest.mark.parametrize("step", [-86400.0, 86400.0, -5.0])
def test_a_clock_that_steps_stops_a_rate_for_no_more_than_a_period(step: float) -> None:
    """B34: while it runs, and over a restart."""
    rate, kept = Rate(10, 5, 10), {}

    async def story(world: World) -> None:
        world.submit("a.slow.test", 500)
        await asyncio.sleep(10)
        before = len(world.delivered)
        world.clock.step += step
        world.waiting["a.slow.test", NORMAL] = [world.clock.now()] * 400
        world.doorbell.ring_delivery("a.slow.test", world.clock.now(), NORMAL)
        await asyncio.sleep(5)
        assert 8 <= len(world.delivered) - before <= 12
        kept.update(world.kept)

    async def later(world: World) -> None:
        world.submit("a.slow.test", 500)
        await asyncio.sleep(6)
        assert len(world.delivered) >= 10

    play(lambda: Wide(tables=per_second(rate), seconds=0.01), story)
    play(lambda: Wide(tables=per_second(rate), seconds=0.01, kept=kept), later)


def test_a_spool_that_fails_gives_no_tokens_and_none_are_lost() -> None:
    async def story(world: World) -> None:
        world.submit("a.slow.test", 50)
        await asyncio.sleep(0.001)
        world.broken = True
        await asyncio.sleep(20)
        world.broken = False
        await until(world.all_gone, 30)

    world = play(lambda: Wide(tables=per_second(Rate(10, 1, 20)), seconds=0.01), story)
    assert len(world.delivered) == 50
