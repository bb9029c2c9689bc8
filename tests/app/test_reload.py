"""What of the lanes a reload takes."""

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
