"""Migrations: in order, each whole or not at all."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.lifecycle import Event, Status
from mta.spool import schema
from tests.spool.house import House
from tests.spool.invariants import check
from tests.spool.making import CONTENT, LATER, NOW, claimed, deliver, message, outcome, put, queue_id, read


def version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_each_step_is_taken_once_in_order() -> None:
    first, second = ("CREATE TABLE a (x)",), ("ALTER TABLE a ADD COLUMN y", "INSERT INTO a VALUES (1, 2)")
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        schema.migrate(db, (first,))
        assert version(db) == 1
        for _ in range(2):
            schema.migrate(db, (first, second))
            assert version(db) == 2
            assert db.execute("SELECT x, y FROM a").fetchall() == [(1, 2)]


def test_a_step_that_fails_leaves_the_version_before_it() -> None:
    first, broken = ("CREATE TABLE a (x)",), ("CREATE TABLE b (x)", "CREATE TABLE a (x)")
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        with pytest.raises(sqlite3.OperationalError):
            schema.migrate(db, (first, broken))
        assert version(db) == 1
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("a",)]


def version_1(path: Path) -> None:
    """A spool as the first release left it: messages 1 (two waiting recipients) and 2 (held)."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        schema.migrate(db, schema.MIGRATIONS[:1])
        for number, (status, waiting) in enumerate((("pending", 1), ("held", 0)), 1):
            people = [f"{name}@example.org" for name in ("ann", "bob")]
            db.execute(
                """INSERT INTO messages (id, queue_id, message_id, reverse_path, subject, size, octets, eight_bit, class,
                kind, accepted_at, expires_at, lifetime, unfinished, waiting)
                VALUES (?1, ?2, '<1@x>', 'a@b.example', 'old', ?3, ?3, 0, 1, 'mail', ?4, ?4 + 9e5, 9e5, 2, 2 * ?5)""",
                (number, queue_id(number), len(CONTENT), NOW, waiting),
            )
            db.execute("INSERT INTO content VALUES (? << 20, ?)", (number, CONTENT))
            db.executemany(
                """INSERT INTO recipients (id, address, original, destination, class, status, waiting, next_at, overdue_at)
                VALUES (?, ?, '', 'example.org', 1, ?, ?, ?, ?)""",
                [((number << 20) + n, one, status, waiting, NOW, NOW + 9e5) for n, one in enumerate(people)],
            )
            db.execute("INSERT INTO counters VALUES (?, 1, 2)", (status,))
        db.execute("INSERT INTO destinations VALUES ('example.org', 2, NULL)")


@pytest.mark.parametrize("by_sender", [False, True])
async def test_a_spool_of_version_1_goes_on(house: House, by_sender: bool) -> None:
    version_1(house.path)
    spool = await house.open(by_sender=by_sender)
    assert house.ask("PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
    check(house)
    assert (await spool.overview(NOW)).classes[MailClass.NORMAL].oldest_at == NOW
    claim = await claimed(spool, limit=1)
    assert (claim.queue_id, claim.priority, claim.deliver_by, claim.not_before) == (queue_id(1), 0, None, None)
    assert claim.following == NOW
    await deliver(spool, claim)
    await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + 60), NOW)
    seen = await spool.show(queue_id(1))
    assert seen is not None
    assert [one.status for one in seen.recipients] == [Status.SENT, Status.PENDING]
    assert await spool.next_deadline() is None
    await put(spool, message(3, by=DeliverBy(NOW + 9, ByMode.HANDOVER)))
    assert await spool.next_deadline() == NOW + 9
    assert await read(spool, queue_id(1)) == CONTENT
    check(house)


async def test_an_old_spool_and_a_new_one_have_the_same_schema(house: House, tmp_path: Path) -> None:
    version_1(house.path)
    await house.open()
    young = House(tmp_path / "young")
    (tmp_path / "young").mkdir()
    await young.open()
    shape = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    assert house.ask(shape) == young.ask(shape)
    await young.close()
