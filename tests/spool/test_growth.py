"""What is done for each message costs the same with a small and a large backlog, counted in SQLite's own steps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from mta.model.envelope import ByMode, DeliverBy, NewMessage, Notice
from mta.model.lifecycle import Event
from mta.spool.base import Settlement
from mta.spool.schema import NOTABLE
from mta.spool.sqlite import SqliteSpool
from tests.spool.faults import Statements
from tests.spool.house import House
from tests.spool.making import DAY, LATER, NOW, claimed, mark, message, outcome, put, read

Deed = Callable[[SqliteSpool], Awaitable[object]]


@pytest.fixture
def statements() -> Statements:
    return Statements()


@pytest.fixture
async def house(tmp_path: Path, statements: Statements) -> AsyncIterator[House]:
    house = House(tmp_path, statements.connect)
    yield house
    await house.close()


async def backlog(spool: SqliteSpool, first: int, count: int) -> None:
    numbers = range(first, first + count)
    await asyncio.gather(*(put(spool, waiting(number)) for number in numbers))


def waiting(number: int) -> NewMessage:
    """Of each sort some: due, with a deadline, with one that has passed, with one that was missed, scheduled."""
    by = (None, DeliverBy(NOW + 60, ByMode.RETURN), DeliverBy(NOW - 1, ByMode.RETURN), DeliverBy(NOW + 60, ByMode.NOTIFY))
    not_before = NOW + DAY if number % 5 == 4 else None
    return message(number, [f"u@{'abc'[number % 3]}.example"], by=by[number % 4], not_before=not_before)


async def life(spool: SqliteSpool) -> None:
    """Everything that happens to a message on its way."""
    await put(spool, message(1, ["u@a.example"]), now=NOW - 9)
    claim = await claimed(spool, "a.example")
    assert claim.queue_id == message(1).queue_id
    await read(spool, claim.queue_id)
    await mark(spool, claim)
    await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW - 8), NOW)
    await spool.next_due("a.example", NOW)
    claim = await claimed(spool, "a.example")
    assert claim.following == NOW
    await spool.settle(outcome(claim, Event.GAVE_UP, LATER, notices=[Notice.DSN_FAILED]), NOW)
    (notice,) = await spool.notices([Notice.DSN_FAILED], 1, NOW)
    await spool.report([notice.id], None, None, NOW)
    await spool.purge(NOW + 1, NOW + 1, 1, NOW)


async def look(spool: SqliteSpool) -> None:
    await spool.overview(NOW)
    await spool.destinations("", 10, NOW)
    await spool.needing_person(10)
    await spool.next_deadline()
    expired = await spool.claim_expired(10, NOW)
    assert expired is not None
    await spool.release(expired, NOW)
    await spool.claim_overdue("a.example", 10, NOW)
    await spool.settle(Settlement(await claimed(spool, "b.example"), ()), NOW)


@pytest.mark.parametrize("by_sender", [False, True])
@pytest.mark.parametrize("deed", [life, look])
async def test_cost_does_not_follow_the_backlog(
    house: House, statements: Statements, deed: Deed, by_sender: bool
) -> None:
    spool = await house.open(by_sender=by_sender)
    steps = []
    for first, count in ((10, 60), (100, 3000)):
        await backlog(spool, first, count)
        steps.append(await _steps(spool, statements, deed))
    assert steps[1] < steps[0] * 2  # the backlog is 50 times as large


async def _steps(spool: SqliteSpool, statements: Statements, deed: Deed) -> int:
    taken = [0]

    def step() -> int:
        taken[0] += 1
        return 0

    for db in statements.connections:
        db.set_progress_handler(step, 10)
    await deed(spool)
    for db in statements.connections:
        db.set_progress_handler(None, 0)
    return taken[0]


async def test_a_start_does_not_read_the_backlog(house: House) -> None:
    """The one look at rows that a start takes is by an index that holds no waiting mail."""
    await backlog(await house.open(), 10, 300)
    await house.close()
    plan = "EXPLAIN QUERY PLAN SELECT * FROM recipients r WHERE (r.in_flight OR r.requested <> '') AND "
    ((*_, detail),) = house.ask(plan + NOTABLE)
    assert "USING INDEX recipients_notable" in str(detail)
