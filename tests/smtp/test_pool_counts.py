"""Whatever befalls connections, in whatever order: they are counted until their end, and not longer."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from mta.ports.smtp import Share
from mta.smtp.pool import ReuseLimits, SessionPool

HOPS = ["a.test", "b.test", "smtp://relay.test:25 tls may from ", "c.test"]
GROUPS = ["", "one", "two"]


@dataclass(eq=False)
class Quiet:
    """What the pool knows of a session; it ends when `done` is set."""

    opened_at: float
    usable: bool = True
    transactions: int = 1
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def quit(self) -> None:
        await self.done.wait()


class World:
    """Attempts that wait for room, connect or fail to, and return or dismiss what they have; who shares with whom, and how
    many sessions there may be, changes meanwhile. A name that begins with `=` asks about a group."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.groups = {hop: self.chance.choice(GROUPS) for hop in HOPS}
        self.cap = 3
        self.pool = SessionPool(ReuseLimits(idle=3600), self.share)
        self.waiting: list[tuple[str, asyncio.Task[None]]] = []
        self.connecting: list[str] = []
        self.held: list[tuple[str, Quiet]] = []
        self.idle: list[tuple[str, Quiet]] = []
        self.born: list[Quiet] = []

    def share(self, hop: str) -> Share:
        return Share(hop[1:] if hop[0] == "=" else self.groups[hop] or hop, self.cap)

    @property
    def open(self) -> list[int]:
        return [self.pool.open(f"={group}") for group in (*HOPS, *filter(None, GROUPS))]

    async def step(self) -> None:
        chance, pool = self.chance, self.pool
        hop = chance.choice(HOPS)
        match chance.randrange(10):
            case 0 | 1 | 2:
                self.waiting.append((hop, asyncio.create_task(pool.room(hop))))
            case 3 if self.waiting:
                self.waiting.pop(chance.randrange(len(self.waiting)))[1].cancel()
            case 4 if self.connecting:
                pool.gone(self.connecting.pop(chance.randrange(len(self.connecting))))
            case 5 if self.connecting:
                hop = self.connecting.pop(chance.randrange(len(self.connecting)))
                self.born.append(one := Quiet(asyncio.get_running_loop().time() + 1))
                self.held.append((hop, one))
            case 6 if self.held:
                hop, one = self.held.pop(chance.randrange(len(self.held)))
                one.usable = chance.random() < 0.7
                pool.give(hop, one)  # type: ignore[arg-type]  # the pool asks a session for no more
            case 7 if self.held:
                pool.dismiss(*self.held.pop(chance.randrange(len(self.held))))  # type: ignore[arg-type]  # as above
            case 8:
                if (session := pool.take(hop)) is not None:
                    self.held.append((hop, session))  # type: ignore[arg-type]  # as above
            case 9:
                self.change(hop)
        await self.settled()

    def change(self, hop: str) -> None:
        self.groups[hop] = self.chance.choice(GROUPS)
        self.cap = self.chance.randint(1, 4)
        for one in self.chance.sample(self.born, len(self.born) // 2):
            one.done.set()
        if self.chance.random() < 0.1:
            self.pool.renew()

    async def settled(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        for hop, task in [it for it in self.waiting if it[1].done()]:
            self.waiting.remove((hop, task))
            self.connecting.append(hop)

    async def wind_up(self) -> None:
        """Everybody is let in, and leaves."""
        while self.waiting or self.connecting or self.held:
            for hop in self.connecting:
                self.pool.gone(hop)
            for hop, one in self.held:
                self.pool.dismiss(hop, one)  # type: ignore[arg-type]  # as above
            for one in self.born:
                one.done.set()
            self.connecting, self.held = [], []
            await self.settled()


@pytest.mark.parametrize("seed", range(20))
async def test_after_any_course_of_events_nothing_is_counted_any_more_and_nobody_waits(seed: int) -> None:
    world = World(seed)
    for _ in range(200):
        await world.step()
        in_use = len(world.connecting) + len(world.held)
        assert all(count >= 0 for count in world.open) and sum(world.open) >= in_use
    async with asyncio.timeout(2):
        await world.wind_up()
        await world.pool.close()
    await asyncio.sleep(0)
    assert not any(world.open)
    for hop in HOPS:
        async with asyncio.timeout(2):
            await world.pool.room(hop)
        world.pool.gone(hop)


async def test_room_is_made_by_a_connection_that_counts_where_it_is_wanted() -> None:
    """The older connection of the hop is counted elsewhere, since who shares with whom has changed."""
    groups = {"a.test": "one", "b.test": "two"}
    pool = SessionPool(ReuseLimits(idle=3600), lambda hop: Share(groups[hop], 1))
    loop = asyncio.get_running_loop()
    old, new = Quiet(loop.time() + 1), Quiet(loop.time() + 1)
    for group, session in (("one", old), ("two", new)):
        groups["a.test"] = group
        await pool.room("a.test")
        pool.give("a.test", session)  # type: ignore[arg-type]  # the pool asks a session for no more
        session.done.set()
    async with asyncio.timeout(1):
        await pool.room("b.test")
    assert pool.open("b.test") == 1
