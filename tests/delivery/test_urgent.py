"""Scheduler, delivery and spool together: how soon urgent mail is tried again, and who is not hammered for it."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.lifecycle import Status
from mta.model.outcome import Phase, Seen
from mta.policy.schedule import DEFAULTS
from mta.scheduler import Scheduler, SchedulerSettings
from tests.delivery.house import House, house
from tests.support.remote import Remotes
from tests.support.virtual import VirtualClock, run_virtual

POLICIES = {it: DEFAULTS[it.label] for it in MailClass}
URGENT, BULK = MailClass.URGENT, MailClass.BULK


def play(tmp_path: Path, story: Callable[[House, Remotes], Awaitable[None]], **more: object) -> Remotes:
    """With the schedules that the daemon has by default."""

    async def main() -> Remotes:
        remotes = Remotes()
        async with house(tmp_path, 25, connector=remotes, clock=VirtualClock(), **more) as home:
            home.delivery.settings.classes.update(POLICIES)
            home.names.zones["example.org"] = [(10, "mx.example.org", "192.0.2.1")]
            settings = SchedulerSettings(20, 20, POLICIES)
            scheduler = Scheduler(settings, home.spool, home.clock, random.Random(3), home.facts.append, home.delivery)
            task = asyncio.create_task(scheduler.run())
            await story(home, remotes)
            scheduler.stop()
            await asyncio.wait_for(task, 120)
        return remotes

    return run_virtual(main())


def test_a_busy_mailbox_is_tried_again_after_1_2_4_8_16_seconds(tmp_path: Path):
    """Each times 0.5 to 1.5."""
    tries: list[float] = []

    def busy(phase: Phase, address: str, path: str) -> str | None:
        if phase is not Phase.RCPT:
            return None
        tries.append(asyncio.get_running_loop().time())
        return "451 4.2.1 busy"

    async def story(home: House, remotes: Remotes) -> None:
        remotes.decide = busy
        await home.submit("code@example.org", mail_class=URGENT, policy=DEFAULTS["urgent"])
        await asyncio.sleep(60)

    play(tmp_path, story)
    waits = [later - sooner for sooner, later in itertools.pairwise(tries[:6])]
    assert all(0.5 * 2**n <= wait <= 1.5 * 2**n + 0.5 for n, wait in enumerate(waits)), waits
    assert len(waits) == 5


def test_a_refusing_host_sees_one_connection_a_second_however_many_wait(tmp_path: Path):
    """Fifty codes, after bulk mail has found out that it rests."""

    async def story(home: House, remotes: Remotes) -> None:
        remotes.decide = lambda phase, address, path: Seen.LOST if phase is Phase.CONNECT else None
        await home.submit("reader@example.org", mail_class=BULK, policy=DEFAULTS["bulk"])
        await asyncio.sleep(1)
        for number in range(50):
            await home.submit(f"r{number}@example.org", mail_class=URGENT, policy=DEFAULTS["urgent"])
        await asyncio.sleep(60)
        remotes.decide = lambda phase, address, path: None
        at = asyncio.get_running_loop().time()
        await asyncio.sleep(90)
        assert len(remotes.taken) >= 50
        assert remotes.taken[0][0] - at < 3, "and it is found out soon that it is back"

    instants = [at for at, _ in play(tmp_path, story).connects]
    refused = instants[: sum(it < instants[0] + 61 for it in instants)]
    assert 20 < len(refused) <= 62
    assert min(later - sooner for sooner, later in itertools.pairwise(refused)) >= 0.99


def test_a_black_hole_before_a_living_host_does_not_cost_each_code_its_timeout(tmp_path: Path):
    async def story(home: House, remotes: Remotes) -> None:
        home.names.zones["example.org"] = [(10, "mx1.test", "192.0.2.1"), (20, "mx2.test", "192.0.2.2")]
        remotes.decide = lambda phase, address, path: (
            Seen.TIMEOUT if phase is Phase.CONNECT and address == "192.0.2.1" else None
        )
        await home.submit("first@example.org", mail_class=URGENT, policy=DEFAULTS["urgent"])
        await asyncio.sleep(40)
        for number in range(10):
            at = asyncio.get_running_loop().time()
            queue_id = await home.submit(f"r{number}@example.org", mail_class=URGENT, policy=DEFAULTS["urgent"])
            await asyncio.sleep(2)
            assert (await home.recipient(queue_id)).status is Status.SENT
            assert remotes.taken[-1][0] - at < 1

    play(tmp_path, story)


def test_b35_until_its_deadline_a_code_is_tried_and_not_afterwards(tmp_path: Path):
    """Nobody but the claim looks at the deadline here: no stage ends it."""

    async def story(home: House, remotes: Remotes) -> None:
        remotes.decide = lambda phase, address, path: "451 4.2.1 busy" if phase is Phase.RCPT else None
        deliver_by = DeliverBy(home.clock.now() + 120, ByMode.HANDOVER)
        queue_id = await home.submit(
            "code@example.org", mail_class=URGENT, policy=DEFAULTS["urgent"], deliver_by=deliver_by
        )
        await asyncio.sleep(115)
        before = (await home.recipient(queue_id)).attempts
        await asyncio.sleep(4)
        assert (await home.recipient(queue_id)).attempts > before, "a last try shortly before it"
        attempts = (await home.recipient(queue_id)).attempts
        await asyncio.sleep(600)
        assert (await home.recipient(queue_id)).attempts <= attempts + 1

    play(tmp_path, story)
