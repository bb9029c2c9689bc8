"""What was committed is there, what was not is lost, and errors come when they are asked for."""

import asyncio
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mta.spool.base import SpoolBusy
from mta.spool.connection import Connection
from mta.spool.ownership import own
from tests.sim.conftest import Lab
from tests.sim.disk import Disk, close_freed
from tests.sim.loop import Machine

Db = sqlite3.Connection


class Box:
    """A computer with a disk, on which there is one table."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab, self.path = lab, folder / "spool.db"
        self.disk = Disk(self.path, random.Random(5))
        with sqlite3.connect(self.path) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE things (name TEXT)")
        db.close()

    def machine(self) -> Machine:
        return Machine("machine", lambda _: self.disk.lose())

    def on(self, machine: Machine, work: Callable[[Connection], Any], seconds: float = 3600.0) -> "asyncio.Task[Any]":
        """Runs `work` with a connection in the machine, for so long."""

        async def both() -> asyncio.Task[Any]:
            task = self._lab.spawn(machine, self._connected(work))
            await asyncio.sleep(seconds)
            return task

        return self._lab.run(both())

    async def _connected(self, work: Callable[[Connection], Any]) -> Any:
        return await work(await self.disk.connect(lambda: sqlite3.connect(self.path, isolation_level=None)))

    def names(self) -> list[str]:
        """What is there, seen from outside."""
        with sqlite3.connect(self.path) as db:
            found = [row[0] for row in db.execute("SELECT name FROM things ORDER BY name")]
        db.close()
        return found


@pytest.fixture
def box(lab: Lab, tmp_path: Path) -> Box:
    return Box(lab, tmp_path)


def put(*names: str) -> Callable[[Db], None]:
    """A transaction of len(names) + 2 statements."""

    def work(db: Db) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            for name in names:
                db.execute("INSERT INTO things VALUES (?)", (name,))
            db.execute("COMMIT")
        except sqlite3.Error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    return work


def look(db: Db) -> list[str]:
    return [row[0] for row in db.execute("SELECT name FROM things ORDER BY name")]


# ---------------------------------------------------------------- power cuts
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_power_cut_at_a_statement_loses_its_transaction(box: Box, count: int) -> None:
    machine = box.machine()

    async def work(connection: Connection) -> None:
        await connection.run(put("early"))
        machine.armed = ("statement", count)
        await connection.run(put("late", "later"))

    task = box.on(machine, work)
    assert not machine.alive
    assert not task.done(), "nobody hears of anything"
    assert box.names() == ["early"]


def test_what_was_committed_is_there_after_a_power_cut_before_its_answer(box: Box) -> None:
    machine = box.machine()
    machine.armed = ("commit", 2)

    async def work(connection: Connection) -> None:
        await connection.run(put("first"))
        await connection.run(put("second", "third"))

    assert not box.on(machine, work).done()
    assert box.names() == ["first", "second", "third"]


def test_nothing_is_written_after_the_end(box: Box) -> None:
    machine = box.machine()

    async def work(connection: Connection) -> None:
        transactions = [asyncio.ensure_future(connection.run(put(name))) for name in ("one", "two")]
        asyncio.get_running_loop().call_soon(machine.crash)
        await asyncio.gather(*transactions)

    box.on(machine, work)
    assert box.names() in ([], ["one"])
    assert not machine.alive


def test_the_next_machine_finds_what_was_committed(box: Box) -> None:
    machine = box.machine()
    machine.armed = ("statement", 5)

    async def work(connection: Connection) -> None:
        for name in ("one", "two"):
            await connection.run(put(name))

    box.on(machine, work)
    assert box.on(box.machine(), lambda connection: connection.run(look)).result() == ["one"]


def test_the_lock_is_free_after_a_crash_and_no_descriptor_is_lost(box: Box) -> None:
    before = len(os.listdir("/proc/self/fd"))
    held = own(box.path)
    with pytest.raises(SpoolBusy):
        own(box.path)
    box.machine().crash()
    own(box.path).give_up()
    held.give_up()  # as a dead machine's code may, when it is cleared away
    close_freed(box.disk.freed)
    assert len(os.listdir("/proc/self/fd")) == before


# ---------------------------------------------------------------- as in a thread
def test_a_cancelled_caller_does_not_stop_the_transaction(box: Box) -> None:
    async def work(connection: Connection) -> None:
        task = asyncio.create_task(connection.run(put("mine")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await connection.run(look) == ["mine"]

    box.on(box.machine(), work).result()


@pytest.mark.parametrize("trouble", ["", "slow"])
def test_transactions_run_one_after_the_other_each_with_its_answer(box: Box, trouble: str) -> None:
    box.disk.trouble = trouble
    answered: list[str] = []

    async def work(connection: Connection) -> None:
        def run(name: str, deed: Callable[[Db], Any]) -> "asyncio.Future[Any]":
            done = asyncio.ensure_future(connection.run(deed))
            done.add_done_callback(lambda _: answered.append(name))
            return done

        seen = await asyncio.gather(*(run(f"{n}", put(f"{n}") if n % 2 else look) for n in range(8)))
        assert [len(it) for it in seen[::2]] == [0, 1, 2, 3]

    box.on(box.machine(), work, 10_000.0).result()
    assert answered == [str(n) for n in range(8)]


def test_a_connection_is_closed_after_what_it_has_to_do(box: Box) -> None:
    async def work(connection: Connection) -> None:
        writing = asyncio.ensure_future(connection.run(put("last")))
        await asyncio.sleep(0)
        await connection.close()
        await writing
        with pytest.raises(sqlite3.ProgrammingError):
            await connection.run(look)

    box.on(box.machine(), work).result()
    assert box.names() == ["last"]


def test_commits_take_time_and_reads_none(lab: Lab, box: Box) -> None:
    async def seconds(connection: Connection, deed: Callable[[Db], Any]) -> float:
        before = lab.loop.time()
        await connection.run(deed)
        return lab.loop.time() - before

    async def work(connection: Connection) -> None:
        assert 0.001 <= await seconds(connection, put("a")) <= 0.02
        assert await seconds(connection, look) == 0
        box.disk.trouble = "slow"
        assert max([await seconds(connection, put("b")) for _ in range(60)]) > 300

    box.on(box.machine(), work, 1e6).result()


# ---------------------------------------------------------------- errors on demand
async def outcomes(connection: Connection, deed: Callable[[Db], Any]) -> list[int]:
    """The SQLite errors of a hundred tries; 0 for none."""

    async def once() -> int:
        try:
            await connection.run(deed)
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode
        return 0

    return [await once() for _ in range(100)]


@pytest.mark.parametrize(
    ("trouble", "error", "reads_fail"), [("full", sqlite3.SQLITE_FULL, False), ("broken", sqlite3.SQLITE_IOERR, True)]
)
def test_a_bad_disk_fails_now_and_then_and_is_well_afterwards(box: Box, trouble: str, error: int, reads_fail: bool) -> None:
    async def work(connection: Connection) -> None:
        assert set(await outcomes(connection, put("well"))) == {0}
        box.disk.trouble = trouble
        found = await outcomes(connection, put("perhaps"))
        assert set(found) == {0, error}
        assert set(await outcomes(connection, look)) == ({0, error} if reads_fail else {0})
        box.disk.trouble = ""
        assert set(await outcomes(connection, put("well again"))) == {0}
        names = await connection.run(look)
        assert {name: names.count(name) for name in names} == {"well": 100, "perhaps": found.count(0), "well again": 100}

    box.on(box.machine(), work, 1e5).result()
