"""What a person asks for at once, over many destinations."""

from pathlib import Path

from mta.model.lifecycle import Event
from mta.spool.base import Selection
from tests.spool.faults import Statements
from tests.spool.house import House
from tests.spool.making import LATER, NOW, claimed, message, outcome, put


async def test_a_retry_of_everything_is_not_a_commit_for_each_destination(tmp_path: Path) -> None:
    statements = Statements()
    house = House(tmp_path, statements.connect)
    spool = await house.open()
    names = [f"d{number:02d}.test" for number in range(60)]
    for number, name in enumerate(names):
        await put(spool, message(number, [f"ann@{name}"]))
        await spool.settle(outcome(await claimed(spool, name), Event.DEFERRED, LATER, next_at=NOW + 60), NOW)
    statements.seen.clear()
    changed = await spool.order(Event.RETRY, Selection(), NOW + 1)
    assert [one.address for one in changed] == names
    assert statements.count("BEGIN IMMEDIATE") <= 10
    for name in names:
        await claimed(spool, name, now=NOW + 1)
    await house.close()
