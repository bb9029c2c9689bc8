"""Fair by sender (`lanes.fair_by = "sender"`): senders take turns within a destination and class, and only the order
changes."""

from collections import Counter

import pytest

from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.lifecycle import Event
from mta.spool import senders
from mta.spool.sqlite import SqliteSpool
from tests.spool.house import House
from tests.spool.making import DAY, LATER, NOW, claimed, deliver, message, outcome, put

A, B, C = "a@shop.example", "b@shop.example", "c@shop.example"
INDEX = "SELECT count(*) FROM sqlite_schema WHERE name = 'recipients_by_sender'"


@pytest.fixture
async def fair(house: House) -> SqliteSpool:
    return await house.open(by_sender=True)


async def served(spool: SqliteSpool, count: int) -> list[str]:
    """The senders of the next claims, each delivered before the next."""
    found = []
    for _ in range(count):
        claim = await claimed(spool)
        found.append(claim.reverse_path)
        await deliver(spool, claim)
    return found


async def test_b31_a_run_of_one_sender_does_not_hold_up_another(fair: SqliteSpool) -> None:
    for number in range(50):
        await put(fair, message(number, sender=A), now=NOW - 60)
    await put(fair, message(51, sender=B))
    assert B in await served(fair, 2)


async def test_senders_take_turns(fair: SqliteSpool) -> None:
    for number in range(12):
        await put(fair, message(number, sender=[A, A, A, B, B, C][number % 6]), now=NOW - 60 + number)
    first = await served(fair, 6)
    assert Counter(first) == {A: 2, B: 2, C: 2}
    assert set(first[:3]) == {A, B, C}
    turn = [one for one in first[:3] if one != C]
    assert await served(fair, 6) == [*turn, *turn, A, A], "A had four left and B two"


async def test_of_one_sender_the_oldest_goes_first_whatever_the_case_of_its_address(fair: SqliteSpool) -> None:
    for number, sender in enumerate((A, A.upper(), A)):
        await put(fair, message(number, sender=sender), now=NOW - 9 + number)
    assert [int((await claimed(fair)).queue_id) for _ in range(3)] == [0, 1, 2]


async def test_what_is_claimed_not_due_or_past_its_deadline_is_no_turn(fair: SqliteSpool) -> None:
    await put(fair, message(1, sender=A))
    await put(fair, message(2, sender=B), now=NOW + 60)
    for number in range(3, 20):
        await put(fair, message(number, sender=f"{number}@shop.example", by=DeliverBy(NOW, ByMode.HANDOVER)))
    await put(fair, message(20, sender=A))
    await claimed(fair)
    claim = await claimed(fair)
    assert (claim.reverse_path, claim.following) == (A, NOW + 60)
    assert await fair.claim("example.org", 10, NOW) is None


async def test_classes_go_before_senders(fair: SqliteSpool) -> None:
    for number in range(4):
        await put(fair, message(number, sender=A, mail_class=MailClass.URGENT))
    await put(fair, message(5, sender=B))
    assert await served(fair, 5) == [A, A, A, A, B]


async def test_many_senders_who_wait_for_later_hold_up_nobody(
    fair: SqliteSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senders, "LOOKED_AT", 3)
    for number in range(20):
        await put(fair, message(number, sender=f"{number}@shop.example"))
        await fair.settle(outcome(await claimed(fair), Event.DEFERRED, LATER, next_at=NOW + DAY), NOW)
    for number in range(30, 60):
        await put(fair, message(number, sender=[A, B][number % 2]))
    assert set(await served(fair, 30)) == {A, B}


async def test_the_index_is_there_only_while_it_is_used(house: House) -> None:
    for by_sender in (False, True, True, False):
        spool = await house.open(by_sender=by_sender)
        assert house.ask(INDEX) == [(int(by_sender),)]
        await put(spool, message(len(house.ask("SELECT id FROM messages"))))
        await house.close()
