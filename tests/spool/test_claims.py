"""Claims against commits that pass them by (B58): whoever comes first, a recipient is never worked on twice, nor after a
person has stopped it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mta.model.lifecycle import Event, Status
from mta.spool.base import Selection
from tests.spool.faults import Pause, Statements
from tests.spool.house import House
from tests.spool.making import NOW, claimed, mark, message, outcome, put, queue_id

READS_RECIPIENTS = "SELECT id, address, status"


@pytest.fixture
def statements() -> Statements:
    return Statements()


@pytest.fixture
async def house(tmp_path: Path, statements: Statements) -> AsyncIterator[House]:
    house = House(tmp_path, statements.connect)
    yield house
    await house.close()


async def test_a_search_older_than_a_delivery_does_not_find_what_was_delivered(
    house: House, statements: Statements
) -> None:
    spool = await house.open()
    await put(spool, message(1, ["a@example.org", "b@example.org"]))
    claim = await claimed(spool, limit=1)
    await mark(spool, claim)
    pause = statements.pause[READS_RECIPIENTS] = Pause()
    searching = asyncio.ensure_future(spool.claim("example.org", 10, NOW))
    await pause.reached()  # it has its snapshot
    settling = asyncio.ensure_future(spool.settle(outcome(claim, Event.DELIVERED), NOW))
    while house.ask("SELECT count(*) FROM recipients WHERE status = 'sent'") == [(0,)]:
        await asyncio.sleep(0)
    pause.go()
    found = await searching
    assert found is not None
    assert [one.address for one in found.recipients] == ["b@example.org"]
    assert [one.status for one in await settling] == [Status.SENT]


@pytest.mark.parametrize("event", [Event.HOLD, Event.CANCEL])
async def test_an_order_that_comes_during_a_search_sees_its_claim(
    house: House, statements: Statements, event: Event
) -> None:
    spool = await house.open()
    await put(spool, message(1))
    pause = statements.pause[READS_RECIPIENTS] = Pause()
    searching = asyncio.ensure_future(spool.claim("example.org", 10, NOW))
    await pause.reached()
    ordering = asyncio.ensure_future(spool.order(event, Selection((queue_id(1),)), NOW))
    pause.go()
    claim = await searching
    assert claim is not None
    (changed,) = await ordering
    assert changed.after is Status.SENDING
    await spool.release(claim, NOW)
    assert await spool.claim("example.org", 10, NOW) is None


async def test_a_search_that_comes_during_an_order_waits_for_its_commit(house: House, statements: Statements) -> None:
    spool = await house.open()
    await put(spool, message(1))
    pause = statements.pause["COMMIT"] = Pause()
    ordering = asyncio.ensure_future(spool.order(Event.HOLD, Selection((queue_id(1),)), NOW))
    await pause.reached()
    searching = asyncio.ensure_future(spool.claim("example.org", 10, NOW))
    pause.go()
    assert [one.after for one in await ordering] == [Status.HELD]
    assert await searching is None


async def test_an_order_in_the_batch_of_a_settlement_is_obeyed(house: House, statements: Statements) -> None:
    spool = await house.open()
    await put(spool, message(1))
    claim = await claimed(spool)
    deferred = outcome(claim, Event.DEFERRED, next_at=NOW + 60)
    _, (changed,) = await asyncio.gather(
        spool.settle(deferred, NOW), spool.order(Event.HOLD, Selection((queue_id(1),)), NOW)
    )
    assert changed.after is Status.HELD
    assert await spool.claim("example.org", 10, NOW + 60) is None
    shown = await spool.show(queue_id(1))
    assert shown is not None
    assert shown.recipients[0].status is Status.HELD
