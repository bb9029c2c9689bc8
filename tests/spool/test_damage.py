"""Damage (B49): a damaged row is set apart and shown while the rest goes on; a damaged file is refused and left alone."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from mta.model.envelope import Notice
from mta.model.lifecycle import Event, Status
from mta.spool.base import Claim, Filter, Selection, SpoolDamaged, SpoolError
from mta.spool.sqlite import SqliteSpool
from tests.spool.house import House
from tests.spool.making import NO_USER, NOW, claimed, deliver, mark, message, outcome, put, queue_id, read

ONE = queue_id(1)
UNTRIABLE = {
    "body missing": "DELETE FROM content WHERE id >> 20 = 1",
    "body NULL": "UPDATE content SET chunk = NULL WHERE id >> 20 = 1",
    "body empty": "UPDATE content SET chunk = x'' WHERE id >> 20 = 1",
    "body cut": "UPDATE content SET chunk = substr(chunk, 1, 5) WHERE id >> 20 = 1",
    "recipient empty": "UPDATE recipients SET address = '' WHERE id >> 20 = 1",
    "recipient NULL": "UPDATE recipients SET address = NULL WHERE id >> 20 = 1",
    "recipient injects": "UPDATE recipients SET address = 'a@b' || char(13, 10) || 'QUIT' WHERE id >> 20 = 1",
    "recipient not UTF-8": "UPDATE recipients SET address = CAST(x'ff40' AS TEXT) WHERE id >> 20 = 1",
    "status unknown": "UPDATE recipients SET status = 'lost' WHERE id >> 20 = 1",
    "sender NULL": "UPDATE messages SET reverse_path = NULL WHERE id = 1",
    "class unknown": "UPDATE messages SET class = 9 WHERE id = 1",
    "kind unknown": "UPDATE messages SET kind = 'letter' WHERE id = 1",
    "time missing": "UPDATE messages SET expires_at = NULL WHERE id = 1",
    "deadline missing": "UPDATE messages SET by_mode = 'R' WHERE id = 1",
    "deadline's mode unknown": "UPDATE messages SET by_mode = 'soon', deliver_by = 2e6 WHERE id = 1",
    "size missing": "UPDATE messages SET octets = 'many' WHERE id = 1",
}


async def damaged(house: House, statement: str, good: int = 3) -> SqliteSpool:
    """A spool with message 1 damaged before `good` sound ones."""
    spool = await house.open()
    for number in range(1, good + 2):
        await put(spool, message(number))
    await house.close()
    house.ask(statement)
    return await house.open()


@pytest.mark.parametrize("statement", UNTRIABLE.values(), ids=UNTRIABLE)
async def test_b49_a_damaged_message_is_set_apart_and_the_good_ones_go(house: House, statement: str) -> None:
    spool = await damaged(house, statement)
    for number in (2, 3, 4):
        claim = await claimed(spool)
        assert claim.queue_id == queue_id(number)
        await deliver(spool, claim)
    assert await spool.claim("example.org", 10, NOW + 1e7) is None
    overview = await spool.overview(NOW)
    assert (overview.damaged, overview.recipients[Status.SENT]) == (1, 3)
    for (seen, *_), total in (await spool.needing_person(10), await spool.queue(Filter())):
        assert (seen.queue_id, total) == (ONE, 1)
        assert seen.damaged
    shown = await spool.show(ONE)
    assert shown is not None
    assert shown.damaged
    await house.reopen()
    assert house.recovered.damaged == (ONE,)
    assert (await spool_of(house).purge(NOW + 1e7, NOW + 1e7, 10, NOW)).messages == 3
    assert await spool_of(house).show(ONE) is not None  # never deleted


def spool_of(house: House) -> SqliteSpool:
    return house.spools[-1]


@pytest.mark.parametrize("statement", UNTRIABLE.values(), ids=UNTRIABLE)
async def test_b49_a_person_can_end_what_is_damaged(house: House, statement: str) -> None:
    spool = await damaged(house, statement, good=0)
    assert await spool.claim("example.org", 10, NOW) is None
    await spool.order(Event.CANCEL, Selection((ONE,)), NOW)
    assert (await spool.overview(NOW)).damaged == 0
    assert (await spool.purge(NOW + 1, NOW + 1, 10, NOW)).messages == 1


async def test_b49_an_unreadable_timeline_entry_hides_nothing(house: House) -> None:
    spool = await house.open()
    await put(spool, message(1))
    await deliver(spool, await claimed(spool))
    await house.close()
    house.ask("UPDATE timeline SET detail = '{not json'")
    shown = await (await house.open()).show(ONE)
    assert shown is not None
    assert [entry.event for entry in shown.timeline] == ["accepted", "sent"]
    assert shown.timeline[1].detail == {"unreadable": "{not json"}


async def test_b49_a_damaged_mark_hides_no_other(house: House) -> None:
    spool = await house.open()
    for number in (1, 2):
        await put(spool, message(number))
        await spool.settle(outcome(await claimed(spool), Event.REFUSED, NO_USER, notices=[Notice.DSN_FAILED]), NOW)
    await house.close()
    house.ask("UPDATE recipients SET address = NULL WHERE id >> 20 = 1")
    assert [one.queue_id for one in await (await house.open()).notices(Notice, 10, NOW)] == [queue_id(2)]


async def test_b49_a_recipient_of_no_known_class_does_not_stop_the_start(house: House) -> None:
    spool = await house.open()
    await put(spool, message(1))
    await mark(spool, await claimed(spool))
    await house.close()
    house.ask("UPDATE recipients SET class = 9")
    await house.open()
    assert house.recovered.in_doubt == 1


async def test_content_that_breaks_off_while_it_is_read_is_an_error(house: House) -> None:
    spool = await house.open()
    await put(spool, message(1), b"x" * 300_000)
    house.ask("DELETE FROM content WHERE id = (1 << 20) + 1")
    with pytest.raises(SpoolError):
        await read(spool, ONE)


def _write(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def _foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE messages (id)")
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_write(b""), "empty file"),
        (_write(b"This is a letter.\n" * 400), "no SQLite database"),
        (_foreign, "another program"),
    ],
    ids=["empty", "text", "foreign"],
)
async def test_b49_what_is_no_spool_is_refused_and_left_as_it_is(
    house: House, make: Callable[[Path], object], words: str
) -> None:
    make(house.path)
    before = house.path.read_bytes()
    with pytest.raises(SpoolDamaged, match=f"{house.path} .*{words}.*move it away"):
        await house.open()
    assert house.path.read_bytes() == before


async def test_b49_a_spool_from_the_future_is_refused(house: House) -> None:
    await house.open()
    await house.close()
    house.ask("PRAGMA user_version = 99")
    before = house.path.read_bytes()
    with pytest.raises(SpoolDamaged, match="newer mta"):
        await house.open()
    assert house.path.read_bytes() == before


async def test_b49_a_damaged_file_is_refused_or_its_damage_is_an_error(house: House) -> None:
    spool = await house.open()
    await put(spool, message(1))
    await house.close()
    octets = bytearray(house.path.read_bytes())
    octets[100:4096] = b"\xff" * 3996  # the page that lists the tables
    house.path.write_bytes(octets)
    with pytest.raises(SpoolDamaged, match="is damaged"):
        await house.open()
    assert house.path.read_bytes() == octets


async def test_b49_a_journal_whose_spool_is_gone_is_no_fresh_start(house: House) -> None:
    house.path.with_name("spool.db-wal").write_bytes(b"x")
    with pytest.raises(SpoolDamaged, match="is gone"):
        await house.open()
    assert not house.path.exists()


async def test_what_a_crash_left_of_a_birth_is_no_obstacle(house: House) -> None:
    house.path.with_name("spool.db.new").write_bytes(b"half")
    await put(await house.open(), message(1))


def behind_its_back(house: House, index: str, statement: str) -> None:
    """Changes the table, and this index of it not."""
    is_it = f"type = 'index' AND name = '{index}'"
    [kept] = house.ask(f"SELECT * FROM sqlite_master WHERE {is_it}")
    for change, values in (
        (f"DELETE FROM sqlite_master WHERE {is_it}", ()),
        (statement, ()),
        ("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", kept),
    ):
        with contextlib.closing(sqlite3.connect(house.path, isolation_level=None)) as db:
            db.execute("PRAGMA writable_schema = ON")
            db.execute(change, values)


async def test_b49_an_index_that_names_what_is_not_due_stops_no_other_mail(house: House) -> None:
    """The claims of a moment are searched for together: the one that fails, fails alone, and says so."""
    spool = await house.open()
    await put(spool, message(1))
    await put(spool, message(2, ["bob@example.net"]))
    await house.close()
    behind_its_back(house, "recipients_due", "UPDATE recipients SET next_at = 1e9 WHERE id >> 20 = 1")
    spool = await house.open()
    async with asyncio.timeout(10):
        failed, found = await asyncio.gather(
            spool.claim("example.org", 10, NOW), spool.claim("example.net", 10, NOW), return_exceptions=True
        )
    assert isinstance(failed, Exception)
    assert isinstance(found, Claim) and found.queue_id == queue_id(2)
