"""Idempotency keys, decided in the accepting commit (interface.md section 3; field case B60). Threaded and inline."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mta.model.envelope import DoubtOrder, NewMessage
from mta.model.lifecycle import Event, Status
from mta.spool.base import Clash, Earlier, Selection, Spool, SpoolError
from mta.spool.connection import connect_inline, connect_threaded
from tests.spool.house import House
from tests.spool.making import (
    CONTENT,
    DAY,
    LATER,
    NO_USER,
    NOW,
    claimed,
    deliver,
    mark,
    message,
    outcome,
    queue_id,
    read,
)


@pytest.fixture(params=[connect_threaded, connect_inline], ids=["threaded", "inline"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path, request.param)
    yield house
    await house.close()


@pytest.fixture
async def spool(house: House) -> Spool:
    return await house.open()


def keyed(number: int, key: str = "order-1", fingerprint: str = "f", scope: str = "", **more: object) -> NewMessage:
    return replace(message(number, **more), key=key, fingerprint=fingerprint, scope=scope)  # type: ignore[arg-type]


async def put(spool: Spool, new: NewMessage, now: float = NOW) -> Earlier | None:
    buffer = spool.buffer()
    buffer.write(CONTENT)
    return await spool.accept(new, buffer, now)


async def test_the_same_again_is_a_duplicate_and_nothing_of_it_is_stored(spool: Spool) -> None:
    assert await put(spool, keyed(1)) is None
    assert await put(spool, keyed(2)) == Earlier(queue_id(1), Status.PENDING, Clash.DUPLICATE)
    assert await spool.show(queue_id(2)) is None
    assert (await spool.overview(NOW)).recipients[Status.PENDING] == 1


async def test_another_email_under_the_key_names_the_first(spool: Spool) -> None:
    await put(spool, keyed(1))
    assert await put(spool, keyed(2, fingerprint="g")) == Earlier(queue_id(1), Status.PENDING, Clash.OTHER)


async def test_b60_of_many_at_once_one_is_stored(spool: Spool) -> None:
    """B60: 20 at once; every loser hears of the winner."""
    answers = await asyncio.gather(*(put(spool, keyed(number)) for number in range(1, 21)))
    (winner,) = [number for number, answer in enumerate(answers, 1) if answer is None]
    assert {answer.queue_id for answer in answers if answer} == {queue_id(winner)}
    assert (await spool.overview(NOW)).recipients[Status.PENDING] == 1


async def test_keys_of_different_scopes_are_different(spool: Spool) -> None:
    assert await put(spool, keyed(1, scope="shop")) is None
    assert await put(spool, keyed(2, scope="blog")) is None
    assert [await spool.knows("order-1", scope) for scope in ("shop", "blog", "")] == [True, True, False]
    assert await spool.find("order-1") == [queue_id(1), queue_id(2)]


async def test_a_key_holds_over_a_restart(house: House, spool: Spool) -> None:
    await put(spool, keyed(1))
    again = await house.reopen()
    assert (await put(again, keyed(2))) == Earlier(queue_id(1), Status.PENDING, Clash.DUPLICATE)


async def test_b60_a_submission_that_was_not_stored_does_not_burn_its_key(spool: Spool) -> None:
    buffer = spool.buffer()
    buffer.close()
    with pytest.raises(SpoolError):
        await spool.accept(keyed(1), buffer, NOW)
    assert await put(spool, keyed(2)) is None


@pytest.mark.parametrize(
    ("event", "reply", "expected"),
    [
        (Event.DELIVERED, None, Earlier(queue_id(1), Status.SENT, Clash.DUPLICATE)),
        (Event.REFUSED, NO_USER, Earlier(queue_id(1), Status.FAILED, Clash.FINISHED)),
        (Event.GAVE_UP, LATER, Earlier(queue_id(1), Status.DEAD, Clash.FINISHED)),
    ],
)
async def test_what_a_finished_message_makes_of_its_key(
    spool: Spool, event: Event, reply: object, expected: Earlier
) -> None:
    await put(spool, keyed(1))
    claim = await claimed(spool)
    if event is Event.DELIVERED:
        await mark(spool, claim)
    await spool.settle(outcome(claim, event, *([reply] if reply else [])), NOW)
    assert await put(spool, keyed(2)) == expected


async def test_a_doubt_keeps_the_key_taken_whatever_became_of_it(spool: Spool) -> None:
    """It may have arrived: `use a new key` would be an invitation to send it twice."""
    await put(spool, keyed(1))
    claim = await claimed(spool)
    await mark(spool, claim)
    await spool.settle(outcome(claim, Event.DOUBTED, LATER, next_at=None), NOW)
    await spool.order(Event.CANCEL, Selection((queue_id(1),)), NOW)
    assert await put(spool, keyed(2)) == Earlier(queue_id(1), Status.CANCELLED, Clash.DUPLICATE)


async def test_sending_is_seen_and_the_first_of_several_statuses_counts(spool: Spool) -> None:
    await put(spool, keyed(1, recipients=["ann@example.org", "bob@example.net"]))
    claim = await claimed(spool)
    assert await put(spool, keyed(2)) == Earlier(queue_id(1), Status.SENDING, Clash.DUPLICATE)
    await mark(spool, claim)
    await deliver(spool, claim)
    assert await put(spool, keyed(3)) == Earlier(queue_id(1), Status.PENDING, Clash.DUPLICATE)
    await spool.order(Event.CANCEL, Selection((queue_id(1),), "bob@example.net"), NOW)
    assert await put(spool, keyed(4)) == Earlier(queue_id(1), Status.SENT, Clash.DUPLICATE)


async def test_duplicates_are_told_once_with_their_count_and_the_last_time(spool: Spool) -> None:
    await put(spool, keyed(1))
    for number in range(2, 5):
        await put(spool, keyed(number), NOW + number)
    view = await spool.show(queue_id(1))
    assert view is not None
    assert view.key == "order-1"
    (told,) = [entry for entry in view.timeline if entry.event == "duplicate"]
    assert (told.at, told.detail["count"]) == (NOW + 4, 3)


async def test_the_key_is_free_when_its_message_is_forgotten_and_not_before(spool: Spool) -> None:
    await put(spool, keyed(1))
    await spool.purge(NOW + 40 * DAY, NOW + 40 * DAY, 100, NOW + 40 * DAY)
    assert await put(spool, keyed(2)) is not None, "unfinished: kept always"
    claim = await claimed(spool)
    await mark(spool, claim)
    await deliver(spool, claim)
    await spool.purge(NOW - 1, NOW - 1, 100, NOW)
    assert await put(spool, keyed(3)) is not None
    await spool.purge(NOW + 1, NOW + 1, 100, NOW + 2)
    assert await put(spool, keyed(4)) is None


async def test_without_a_key_a_message_id_counts_within_its_window_alone(spool: Spool) -> None:
    def copy(number: int, since: float | None, fingerprint: str = "f") -> NewMessage:
        new = message(number)
        return replace(new, message_id="<same@example.com>", fingerprint=fingerprint, same_since=since)

    assert await put(spool, copy(1, NOW - 60)) is None
    assert await put(spool, copy(2, None)) is None, "the window is off"
    again = await put(spool, copy(3, NOW - 60))
    assert again is not None
    assert again.clash is Clash.DUPLICATE
    assert await put(spool, copy(4, NOW - 60, "other sender")) is None
    assert await put(spool, copy(5, NOW + 1)) is None, "it was before the window"


async def test_a_message_may_say_itself_what_is_done_with_a_doubt(house: House, spool: Spool) -> None:
    orders = {1: DoubtOrder.RETRY, 2: DoubtOrder.HOLD, 3: DoubtOrder.DEFAULT}
    for number, order in orders.items():
        await put(spool, replace(message(number), in_doubt=order))
        claim = await claimed(spool)
        assert claim.in_doubt is order
        await mark(spool, claim)
    again = await house.reopen(retry_after=600, now=NOW + 5)
    waits = {}
    for number in orders:
        view = await again.show(queue_id(number))
        assert view is not None
        waits[number] = view.recipients[0].next_attempt_at
    assert waits == {1: NOW + 605, 2: None, 3: NOW + 605}
    assert await read(again, queue_id(1)) == CONTENT
