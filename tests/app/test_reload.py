"""What a reload takes of sessions and their shares."""

import asyncio

from tests.e2e.world import World
from tests.support.daemon import until


async def test_shares_are_taken_at_once_and_another_order_of_the_senders_wants_a_restart(running: World) -> None:
    running.configure("lanes", urgent_reserve=0.5, bulk_share=0.2)
    await running.daemon.reload()
    assert not running.daemon.warnings
    running.configure("lanes", fair_by="sender")
    await running.daemon.reload()
    (warned,) = running.daemon.warnings
    assert "lanes.fair_by" in warned and "restart" in warned


async def test_mail_is_delivered_where_it_is_fair_by_sender(world: World) -> None:
    world.configure("lanes", fair_by="sender")
    mx = await world.mx("good.test")
    await world.daemon.start()
    for number in range(5):
        await world.daemon.submit(f"r{number}@good.test")
    await world.daemon.restart()
    await world.daemon.submit("last@good.test")
    await until(world.daemon.idle)
    assert len(mx.messages) == 6


async def test_no_more_sessions_idle_than_may_be_at_work(running: World) -> None:
    """The second server's session sends the first one's home, long before it has idled for 5 s."""
    first, second = await running.mx("good.test"), await running.mx("other.test")
    running.configure("delivery", max_sessions=1)
    await running.daemon.reload()
    for address in ("ann@good.test", "bob@other.test"):
        await running.daemon.submit(address)
        await until(running.daemon.idle)
    async with asyncio.timeout(2):
        await first.connections[0].closed.wait()
    assert first.connections[0].verbs[-1] == "QUIT"
    assert not second.connections[0].closed.is_set()
