"""Reuse of sessions: B15, B16, CLI-15."""

import asyncio

import pytest

from mta.model.outcome import Phase
from mta.ports.smtp import Share
from mta.smtp.pool import ReuseLimits, SessionPool
from mta.smtp.session import SmtpSession
from tests.smtp.support import deliver, fact, greeted, unusable
from tests.support.mx import Close, Hold, ScriptedMx, Silence, Step


async def admitted(pool: SessionPool, mx: ScriptedMx, destination: str = "example.org") -> SmtpSession:
    """A session whose connection counts."""
    await pool.room(destination)
    return await greeted(mx)


async def test_a_session_is_used_again() -> None:
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits())
        assert pool.take("example.org") is None
        session = await admitted(pool, mx)
        await deliver(session)
        pool.give("example.org", session)
        assert pool.take("example.net") is None
        assert pool.take("example.org") is session
        assert pool.take("example.org") is None
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        await session.quit()


async def test_what_idles_too_long_is_ended_with_quit() -> None:
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits(idle=0.05))
        pool.give("example.org", await admitted(pool, mx))
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO", "QUIT"]
        assert pool.take("example.org") is None


async def test_each_that_idles_is_ended_in_its_own_time() -> None:
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits(idle=0.05))
        first, second = await admitted(pool, mx), await admitted(pool, mx)
        pool.give("example.org", first)
        pool.give("example.org", second)
        assert pool.take("example.org") is second
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO", "QUIT"]
        assert second.usable
        for _ in range(2):
            pool.give("example.org", second)
            assert pool.take("example.org") is second
            assert fact(await deliver(second)) == (Phase.FINAL, 250)
        pool.give("example.org", second)
        await mx.connections[1].closed.wait()
        assert mx.connections[1].verbs[-1] == "QUIT"


async def test_of_too_many_that_idle_the_one_that_does_so_longest_is_ended() -> None:
    """Whatever its destination: mail for thousands of them, a message each, does not hold thousands of connections."""
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits(kept=2))
        for name in ("one.example", "two.example", "three.example"):
            pool.give(name, await admitted(pool, mx, name))
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO", "QUIT"]
        assert pool.take("one.example") is None
        kept = [pool.take(name) for name in ("two.example", "three.example")]
        assert None not in kept
        pool.limits = ReuseLimits(kept=1)
        for name, session in zip(("two.example", "three.example"), kept, strict=True):
            pool.give(name, session)
        await mx.connections[1].closed.wait()
        assert pool.take("three.example") is kept[1]
        await kept[1].quit()


@pytest.mark.parametrize("stray", ["250 ok", ("421 4.4.2 idle", Close()), Close()])
async def test_b15_a_session_that_was_spoken_to_while_idle_is_never_handed_out(stray: Step) -> None:
    held = Hold(stray)
    async with ScriptedMx({"FINAL": ("250 2.0.0 ok", held)}) as mx:
        pool = SessionPool(ReuseLimits())
        session = await admitted(pool, mx)
        await deliver(session)
        pool.give("example.org", session)
        held.release()
        await unusable(session)
        assert pool.take("example.org") is None
        await mx.connections[0].closed.wait()
        assert "QUIT" not in mx.connections[0].verbs


async def test_an_unusable_session_is_not_kept() -> None:
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits())
        session = await admitted(pool, mx)
        session.abort()
        pool.give("example.org", session)
        assert pool.take("example.org") is None
        await mx.connections[0].closed.wait()


@pytest.mark.parametrize("limits", [ReuseLimits(transactions=1), ReuseLimits(age=0)])
async def test_a_session_that_has_done_its_share_is_ended(limits: ReuseLimits) -> None:
    async with ScriptedMx() as mx:
        pool = SessionPool(limits)
        session = await admitted(pool, mx)
        await deliver(session)
        pool.give("example.org", session)
        assert pool.take("example.org") is None
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs[-1] == "QUIT"


async def test_b16_a_slow_goodbye_delays_nobody() -> None:
    async with ScriptedMx({"QUIT": Silence()}) as mx:
        pool = SessionPool(ReuseLimits())
        pool.dismiss("example.org", await admitted(pool, mx))
        await mx.until(lambda: "QUIT" in mx.commands)
        assert fact(await deliver(await greeted(mx))) == (Phase.FINAL, 250)


async def test_close_says_goodbye_to_all() -> None:
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits())
        for destination in ("example.org", "example.org", "example.net"):
            pool.give(destination, await admitted(pool, mx, destination))
        await asyncio.wait_for(pool.close(), 5)
        assert [connection.verbs for connection in mx.connections] == [["EHLO", "QUIT"]] * 3
        assert pool.take("example.org") is None


async def test_a_connection_counts_until_it_has_ended() -> None:
    """A server that allows one connection never sees two: the last one's QUIT is waited for, an idle one makes room."""
    held = Hold("221 2.0.0 bye")
    async with ScriptedMx({"QUIT": held}) as mx:
        pool = SessionPool(ReuseLimits(), lambda hop: Share(hop, 1))
        pool.give("example.org", await admitted(pool, mx))
        room = asyncio.create_task(pool.room("example.org"))
        await mx.until(lambda: "QUIT" in mx.commands)
        await pool.room("example.net")
        assert not room.done()
        held.release()
        await asyncio.wait_for(room, 5)
        assert mx.connections[0].closed.is_set()


async def test_a_connection_that_came_to_nothing_does_not_count() -> None:
    pool = SessionPool(ReuseLimits(), lambda hop: Share(hop, 1))
    await pool.room("example.org")
    room = asyncio.create_task(pool.room("example.org"))
    await asyncio.sleep(0)
    assert not room.done()
    pool.gone("example.org")
    await asyncio.wait_for(room, 5)


async def test_hops_that_share_limits_are_counted_together_and_idle_sessions_of_one_make_room_for_another() -> None:
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits(), lambda hop: Share("all", 2))
        first, second = await admitted(pool, mx, "a.example"), await admitted(pool, mx, "b.example")
        assert pool.open("c.example") == 2
        room = asyncio.create_task(pool.room("c.example"))
        await asyncio.sleep(0)
        assert not room.done()
        pool.give("a.example", first)
        assert pool.open("c.example") == 1, "what ends is not counted as open"
        await asyncio.wait_for(room, 5)
        pool.give("b.example", second)
        assert pool.take("a.example") is None, "a session carries no mail for another destination"
        assert pool.take("b.example") is second
        second.abort()
        pool.dismiss("b.example", second)
        pool.gone("c.example")


async def test_who_shares_may_change_while_connections_are_open() -> None:
    names = {"a.example": "a.example", "b.example": "b.example"}
    pool = SessionPool(ReuseLimits(), lambda hop: Share(names[hop], 1))
    await pool.room("a.example")
    names["a.example"] = names["b.example"] = "both"
    await pool.room("b.example")
    pool.gone("a.example")
    assert (pool.open("a.example"), pool._open) == (1, {"both": 1})
    pool.gone("b.example")
    assert not pool._open


async def test_a_session_carries_as_much_as_the_hop_s_share_says() -> None:
    """CLI-15."""
    async with ScriptedMx() as mx:
        pool = SessionPool(ReuseLimits(), lambda hop: Share(hop, 2, transactions=1))
        session = await admitted(pool, mx)
        await deliver(session)
        pool.give("example.org", session)
        assert pool.take("example.org") is None
        await pool.close()
