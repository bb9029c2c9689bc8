"""Group commit: what waits goes together, what fails fails alone, the connection is always usable afterwards."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from mta.model.lifecycle import Event, Status
from mta.spool.base import Filter, SpoolError, SpoolFull
from mta.spool.sqlite import SqliteSpool
from tests.spool.faults import Statements
from tests.spool.house import House
from tests.spool.making import NOW, claimed, mark, message, outcome, put, queue_id


@pytest.fixture
def statements() -> Statements:
    return Statements()


@pytest.fixture
async def house(tmp_path: Path, statements: Statements) -> AsyncIterator[House]:
    house = House(tmp_path, statements.connect)
    yield house
    await house.close()


@pytest.fixture
async def spool(house: House, statements: Statements) -> SqliteSpool:
    spool = await house.open()
    statements.seen.clear()
    return spool


async def numbers(spool: SqliteSpool) -> list[int]:
    found, _ = await spool.queue(Filter(limit=1000))
    return [int(one.queue_id) for one in found]


async def test_what_waits_during_a_commit_goes_into_the_next(spool: SqliteSpool, statements: Statements) -> None:
    await asyncio.gather(*(put(spool, message(number)) for number in range(100)))
    assert statements.count("COMMIT") <= 3
    assert await numbers(spool) == list(range(100))


async def test_a_batch_is_bounded_by_its_content(spool: SqliteSpool, statements: Statements) -> None:
    await asyncio.gather(*(put(spool, message(number), b"x" * 3_000_000) for number in range(5)))
    await put(spool, message(9), b"x" * 20_000_000)
    assert statements.count("BEGIN IMMEDIATE") == 4
    assert await numbers(spool) == [0, 1, 2, 3, 4, 9]


async def test_one_that_fails_leaves_its_neighbours(spool: SqliteSpool, statements: Statements) -> None:
    results = await asyncio.gather(
        put(spool, message(1)), put(spool, message(1)), put(spool, message(2)), return_exceptions=True
    )
    assert [type(result) for result in results] == [str, SpoolError, str]
    assert statements.count("COMMIT") == 1
    assert await numbers(spool) == [1, 2]
    assert (await spool.overview(NOW)).recipients[Status.PENDING] == 2


async def test_a_bug_in_one_leaves_its_neighbours(spool: SqliteSpool) -> None:
    broken = message(1, subject="x")
    structs.force_setattr(broken, "recipients", (None,))
    results = await asyncio.gather(put(spool, broken), put(spool, message(2)), return_exceptions=True)
    assert isinstance(results[0], AttributeError)
    assert await numbers(spool) == [2]


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "COMMIT", "INSERT INTO messages"])
async def test_b45_after_any_failure_the_spool_goes_on(
    spool: SqliteSpool, statements: Statements, statement: str
) -> None:
    statements.fail[statement] = sqlite3.OperationalError("disk I/O error")
    with pytest.raises(SpoolError, match="disk I/O error"):
        await put(spool, message(1))
    assert not statements.connections[0].in_transaction
    await put(spool, message(2))
    assert await numbers(spool) == [2]
    assert (await spool.overview(NOW)).recipients[Status.PENDING] == 1


async def test_a_commit_that_fails_fails_its_whole_batch(spool: SqliteSpool, statements: Statements) -> None:
    statements.fail["COMMIT"] = sqlite3.OperationalError("disk I/O error")
    results = await asyncio.gather(*(put(spool, message(number)) for number in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [SpoolError] * 3
    assert await numbers(spool) == []


async def test_a_settlement_that_failed_is_given_again(spool: SqliteSpool, statements: Statements) -> None:
    await put(spool, message(1))
    claim = await claimed(spool)
    await mark(spool, claim)
    statements.fail["COMMIT"] = sqlite3.OperationalError("disk I/O error")
    with pytest.raises(SpoolError):
        await spool.settle(outcome(claim, Event.DELIVERED), NOW)
    assert await spool.claim("example.org", 1, NOW) is None  # still ours
    await spool.settle(outcome(claim, Event.DELIVERED), NOW)
    assert (await spool.overview(NOW)).recipients[Status.SENT] == 1


async def test_a_mark_that_failed_is_not_there(house: House, spool: SqliteSpool, statements: Statements) -> None:
    await put(spool, message(1))
    claim = await claimed(spool)
    statements.fail["COMMIT"] = sqlite3.OperationalError("disk I/O error")
    with pytest.raises(SpoolError):
        await mark(spool, claim)
    await house.reopen()
    assert house.recovered.in_doubt == 0


async def test_b44_a_reader_elsewhere_and_a_lock_elsewhere_cost_no_mail(house: House, spool: SqliteSpool) -> None:
    with contextlib.closing(sqlite3.connect(house.path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM messages").fetchone()
        await put(spool, message(1))
        other.execute("COMMIT")
        other.execute("BEGIN IMMEDIATE")
        accepting = asyncio.ensure_future(put(spool, message(2)))
        assert await numbers(spool) == [1]  # reads go on
        assert not accepting.done()
        other.execute("COMMIT")
        await accepting
    assert await numbers(spool) == [1, 2]


async def test_b44_every_write_begins_as_one(spool: SqliteSpool, statements: Statements) -> None:
    await put(spool, message(1))
    claim = await claimed(spool)
    await mark(spool, claim)
    await spool.settle(outcome(claim, Event.DELIVERED), NOW)
    await spool.purge(NOW + 1, NOW + 1, 10, NOW)
    begun = [statement for statement in statements.seen if statement.startswith("BEGIN")]
    assert statements.count("BEGIN IMMEDIATE") == 4
    assert len(begun) == 4 + statements.count("BEGIN") - statements.count("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        statements.connections[1].execute("DELETE FROM messages")


async def test_b44_persons_workers_and_submitters_at_once(spool: SqliteSpool) -> None:
    async def submit(number: int) -> None:
        await put(spool, message(number))

    async def work() -> None:
        for _ in range(10):
            if claim := await spool.claim("example.org", 1, NOW):
                await mark(spool, claim)
                await spool.settle(outcome(claim, Event.DELIVERED), NOW)

    async def look() -> None:
        for _ in range(20):
            await numbers(spool)

    await asyncio.gather(*(submit(n) for n in range(50)), *(work() for _ in range(20)), look())
    recipients = (await spool.overview(NOW)).recipients
    assert recipients[Status.SENT] + recipients[Status.PENDING] == 50


async def test_close_waits_for_what_was_given(house: House, spool: SqliteSpool) -> None:
    accepting = [asyncio.ensure_future(put(spool, message(number))) for number in range(20)]
    await asyncio.sleep(0)
    await house.reopen()
    assert [await one for one in accepting] == [queue_id(number) for number in range(20)]
    spool = await house.reopen()
    assert await numbers(spool) == list(range(20))


def _limit_pages(db: sqlite3.Connection, more: int) -> None:
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages + more}")


async def test_b48_no_space_is_said_so_and_passes(spool: SqliteSpool, statements: Statements) -> None:
    await put(spool, message(1))
    claim = await claimed(spool)
    await mark(spool, claim)
    _limit_pages(statements.connections[0], 20)
    results = await asyncio.gather(
        put(spool, message(2), b"x" * 1_000_000),
        spool.settle(outcome(claim, Event.DELIVERED), NOW),
        return_exceptions=True,
    )
    assert isinstance(results[0], SpoolFull)
    assert await numbers(spool) == []  # nothing of it is there, and its neighbour is recorded
    assert (await spool.overview(NOW)).recipients[Status.SENT] == 1
    _limit_pages(statements.connections[0], 1_000_000)
    await put(spool, message(2), b"x" * 1_000_000)
    assert await numbers(spool) == [2]
