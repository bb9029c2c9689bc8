"""What the scheduler remembers does not grow with the mail that passes."""

from tests.support.virtual import until
from tests.test_scheduler import World, play


def test_instants_that_were_replaced_are_forgotten() -> None:
    """A busy destination with one deferred message: each burst finds that it waits for hours still."""

    async def story(world: World) -> None:
        world.submit("busy.test", delay=3 * 3600)
        for number in range(2500):
            world.submit("busy.test")
            await until(lambda number=number: len(world.delivered) > number)
        await until(lambda: not world.scheduler.sessions)

    world = play(lambda: World(seconds=0.01), story)
    assert len(world.scheduler._later) < 1100
    assert len(world.scheduler._agenda.destinations) <= 1
