"""What was left halfway goes on while the daemon runs, as after a crash; nothing is removed because it is stuck."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mta.model.envelope import DoubtOrder, Notice
from mta.model.lifecycle import Event, Status
from mta.spool.base import DoubtPolicy, RecipientView, Reconciled, Selection, Spool
from mta.spool.connection import connect_inline, connect_threaded
from tests.spool.house import House
from tests.spool.invariants import check
from tests.spool.making import NOW, claimed, mark, message, normal, outcome, put, queue_id

RETRY, HOLD = DoubtPolicy(True, 600), DoubtPolicy(False, 0)


@pytest.fixture(params=[connect_threaded, connect_inline], ids=["threaded", "inline"])
async def house(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    house = House(tmp_path, request.param)
    yield house
    await house.close()


@pytest.fixture
async def spool(house: House) -> Spool:
    return await house.open()


async def recipient(spool: Spool, number: int = 1) -> RecipientView:
    shown = await spool.show(queue_id(number))
    assert shown is not None
    return shown.recipients[0]


async def twice(spool: Spool, *working: int, doubts: DoubtPolicy = RETRY, now: float = NOW) -> Reconciled:
    """Two looks; the first finds nothing: what is looked for may be on its way."""
    assert await spool.reconcile(working, doubts, now) == Reconciled()
    return await spool.reconcile(working, doubts, now)


async def test_b58_a_claim_that_nobody_works_on_is_due_as_before(house: House, spool: Spool) -> None:
    await put(spool, message(1))
    lost = await claimed(spool)
    spool.doorbell.take_due()
    assert await twice(spool) == Reconciled(claims=1)
    assert spool.doorbell.take_due() == {normal("example.org"): NOW}
    again = await claimed(spool)
    assert (again.queue_id, again.recipients[0].attempts, again.recipients[0].doubts) == (queue_id(1), 0, 0)
    assert await spool.settle(outcome(lost, Event.REFUSED), NOW)
    assert (await recipient(spool)).status is Status.SENDING  # who had lost it has no say any more
    check(house)


async def test_a_claim_that_is_worked_on_stays(house: House, spool: Spool) -> None:
    await put(spool, message(1))
    claim = await claimed(spool)
    await mark(spool, claim)
    assert await twice(spool, claim.id) == Reconciled()
    await spool.settle(outcome(claim, Event.DELIVERED), NOW)
    assert (await recipient(spool)).status is Status.SENT
    check(house)


async def test_a_claim_on_its_way_to_who_asked_for_it_stays(spool: Spool) -> None:
    await put(spool, message(1))
    first = await claimed(spool)
    await spool.reconcile((), RETRY, NOW)
    await spool.reconcile((first.id,), RETRY, NOW)
    assert await spool.reconcile((), RETRY, NOW) == Reconciled()
    await mark(spool, first)


@pytest.mark.parametrize(
    ("policy", "order", "next_at", "notices"),
    [
        (RETRY, DoubtOrder.DEFAULT, NOW + 700, []),
        (HOLD, DoubtOrder.DEFAULT, None, [Notice.DSN_DOUBT, Notice.ALERT]),
        (RETRY, DoubtOrder.HOLD, None, [Notice.DSN_DOUBT, Notice.ALERT]),
        (HOLD, DoubtOrder.RETRY, NOW + 100, []),
    ],
)
async def test_a_mark_that_nobody_ends_is_a_doubt_by_policy(
    house: House, spool: Spool, policy: DoubtPolicy, order: DoubtOrder, next_at: float | None, notices: list[Notice]
) -> None:
    await put(spool, replace(message(1), in_doubt=order))
    await mark(spool, await claimed(spool))
    assert await twice(spool, doubts=policy, now=NOW + 100) == Reconciled(claims=1, in_doubt=1)
    it = await recipient(spool)
    assert (it.status, it.attempts, it.doubts, it.remote_host) == (Status.IN_DOUBT, 1, 1, "mx1.example.org")
    assert it.next_attempt_at == next_at
    assert [due.notice for due in await spool.notices(list(Notice), 10, NOW)] == notices
    assert await spool.reconcile((), policy, NOW) == Reconciled()  # once
    assert (await recipient(spool)).doubts == 1
    check(house)


async def test_a_mark_or_an_order_without_any_claim_is_found_at_once(house: House, spool: Spool) -> None:
    await put(spool, message(1))
    await put(spool, message(2))
    house.ask("UPDATE recipients SET in_flight = 1, status = 'in_doubt' WHERE id >> 20 = 1")
    house.ask("UPDATE recipients SET requested = 'hold' WHERE id >> 20 = 2")
    assert await spool.reconcile((), RETRY, NOW) == Reconciled(in_doubt=1)
    assert (await recipient(spool)).doubts == 1
    assert (await recipient(spool, 2)).status is Status.HELD
    assert await spool.reconcile((), RETRY, NOW) == Reconciled()


async def test_an_order_that_nobody_obeys_is_obeyed(house: House, spool: Spool) -> None:
    await put(spool, message(1))
    await put(spool, message(2))
    await claimed(spool)
    await mark(spool, await claimed(spool))
    await spool.order(Event.HOLD, Selection((queue_id(1),)), NOW)
    await spool.order(Event.CANCEL, Selection((queue_id(2),)), NOW)
    assert await twice(spool, doubts=HOLD) == Reconciled(claims=2, in_doubt=1)
    assert (await recipient(spool)).status is Status.HELD
    second = await recipient(spool, 2)
    assert (second.status, second.doubts) == (Status.CANCELLED, 1)
    assert await spool.notices(list(Notice), 10, NOW) == []
    check(house)


async def test_what_is_finished_or_waits_is_not_touched(house: House, spool: Spool) -> None:
    for number in (1, 2, 3):
        await put(spool, message(number))
    claim = await claimed(spool)
    await mark(spool, claim)
    await spool.settle(outcome(claim, Event.DELIVERED), NOW)
    claim = await claimed(spool)
    await mark(spool, claim)
    await spool.settle(outcome(claim, Event.DOUBTED), NOW)
    before = [await spool.show(queue_id(number)) for number in (1, 2, 3)]
    assert await twice(spool) == Reconciled()
    assert [await spool.show(queue_id(number)) for number in (1, 2, 3)] == before


async def test_marks_of_claims_at_work_are_never_taken_for_lost(house: House, spool: Spool) -> None:
    """Looked for without a pause, beside workers that mark and settle."""
    for number in range(1, 81):
        await put(spool, message(number))

    async def work() -> None:
        while (claim := await spool.claim("example.org", 1, NOW)) is not None:
            await mark(spool, claim)
            await spool.settle(outcome(claim, Event.DELIVERED), NOW)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    looks = 0
    while not all(worker.done() for worker in workers):
        assert await spool.reconcile(range(1000), RETRY, NOW) == Reconciled()
        looks += 1
        await asyncio.sleep(0)
    await asyncio.gather(*workers)
    assert looks > 1
    found = [await recipient(spool, number) for number in range(1, 81)]
    assert {(it.status, it.attempts, it.doubts) for it in found} == {(Status.SENT, 1, 0)}
    check(house)
