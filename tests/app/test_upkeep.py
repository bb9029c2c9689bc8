"""What the daemon does from time to time."""

import asyncio
from pathlib import Path

from mta.app.upkeep import watch_clock
from mta.model.events import Trouble
from mta.model.lifecycle import Status
from mta.model.outcome import Phase
from mta.scheduler import Scheduler
from tests.delivery.house import House
from tests.delivery.test_days import DAY, pause, play
from tests.support.remote import Remotes


def test_b34_a_clock_that_goes_back_by_a_day_delays_nothing_by_a_day(tmp_path: Path) -> None:
    """B34 (a): what waits for some minutes is due within one look at the clock; a small correction changes nothing."""

    async def story(home: House, remotes: Remotes, scheduler: Scheduler) -> None:
        watching = asyncio.create_task(watch_clock(home.spool, home.clock, home.facts.append))
        replies = iter(["451 4.7.1 later"] * 2)
        remotes.decide = lambda phase, address, path: next(replies, None) if phase is Phase.RCPT else None
        first = await home.submit("a@example.org")
        await pause(10)
        home.clock.step -= DAY
        await pause(31)
        assert (await home.recipient(first)).attempts == 2
        home.clock.step -= 5
        await pause(31)
        assert (await home.recipient(first)).attempts == 2
        await pause(300)
        assert (await home.recipient(first)).status is Status.SENT
        assert len([fact for fact in home.facts if isinstance(fact, Trouble)]) == 1
        watching.cancel()

    play(tmp_path, story)
