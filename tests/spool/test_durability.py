"""What was acknowledged is there after a crash (B48): the disk was waited for, at every durable point, on every
connection."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mta.model.lifecycle import Event, Status
from mta.spool.base import Filter, Selection, SpoolError
from mta.spool.connection import Connection, Opener, connect_threaded
from tests.spool.house import House
from tests.spool.invariants import check
from tests.spool.making import CONTENT, NOW, claimed, mark, message, outcome, put, queue_id, read

ROOT = Path(__file__).parents[2]


async def test_b48_every_connection_is_durable_by_itself(house: House) -> None:
    found = []

    async def connect(opener: Opener) -> Connection:
        connection = await connect_threaded(opener)
        settings = ("synchronous", "journal_mode", "journal_size_limit", "query_only")
        found.append(await connection.run(lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in settings]))
        return connection

    house.connect = connect
    await house.open()
    assert [row[:2] for row in found] == [[2, "wal"]] * 3
    assert all(0 < row[2] <= 64 * 1024 * 1024 for row in found)
    assert [row[3] for row in found] == [0, 1, 1]


async def test_b48_what_can_not_be_made_durable_is_refused(house: House) -> None:
    await house.open()
    await house.close()
    house.ask("PRAGMA journal_mode = DELETE")
    with contextlib.closing(sqlite3.connect(house.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # nobody may change the journal now
        with pytest.raises(SpoolError):
            await house.open()
    await put(await house.open(), message(1))


def test_b48_the_disk_is_waited_for_at_each_durable_point(tmp_path: Path) -> None:
    shim = tmp_path / "sync_count.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, ROOT / "tests/spool/sync_count.c", "-ldl"], check=True)
    command = [sys.executable, "-m", "tests.spool.daemon", "syncs", str(tmp_path / "spool.db"), "1"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "LD_PRELOAD": str(shim)}, check=True, capture_output=True, text=True
    )
    accepted, searched, marked, settled = map(int, done.stdout.split())
    assert accepted >= 1
    assert searched == 0
    assert marked >= 1
    assert settled >= 1


async def snapshot(house: House, folder: Path) -> House:
    """The files as they are now, as a power cut would leave them: without what is only in memory."""
    folder.mkdir()
    names = [house.path, house.path.with_name("spool.db-wal")]
    # by another process: to close a file of ours here would drop SQLite's locks on it
    copying = await asyncio.create_subprocess_exec("cp", *map(str, names), str(folder))
    assert await copying.wait() == 0
    return House(folder)


async def test_b48_a_copy_at_the_moment_of_each_promise_has_what_was_promised(house: House, tmp_path: Path) -> None:
    spool = await house.open()
    large = b"x" * 3_000_000
    await put(spool, message(1))
    await put(spool, message(2, ["bob@example.net"]), large)
    accepted = await snapshot(house, tmp_path / "accepted")
    claim = await claimed(spool)
    await mark(spool, claim)
    marked = await snapshot(house, tmp_path / "marked")
    await spool.settle(outcome(claim, Event.DELIVERED), NOW)
    settled = await snapshot(house, tmp_path / "settled")
    for copy, doubts, status in (
        (accepted, 0, Status.PENDING),
        (marked, 1, Status.IN_DOUBT),
        (settled, 0, Status.SENT),
    ):
        again = await copy.open()
        shown = await again.show(queue_id(1))
        assert shown is not None
        assert (copy.recovered.in_doubt, shown.recipients[0].status) == (doubts, status)
        assert await read(again, queue_id(1)) == CONTENT
        assert await read(again, queue_id(2)) == large
        await copy.close()
        check(copy)


async def test_b01_b58_killed_at_any_moment_nothing_accepted_is_lost_or_half(house: House) -> None:
    accepted: set[int] = set()
    first = 0
    for lines in (1, 5, 12, 25, 40, 60):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.spool.daemon", "work", str(house.path), str(first),
            cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        for _ in range(lines):
            accepted.add(int((await process.stdout.readline()).split()[1]))
        process.kill()
        accepted.update(int(line.split()[1]) for line in (await process.stdout.read()).splitlines() if line.count(b" "))
        await process.wait()
        spool = await house.open()
        check(house)
        first = max(accepted, default=0) + 1000
        for number in accepted:
            shown = await spool.show(queue_id(number))
            assert shown is not None
            assert len(shown.recipients) == 2
            if any(one.finished_at is None for one in shown.recipients):
                assert len(await read(spool, queue_id(number))) == number * 997 % 300_000 + 1
        assert await spool.queue(Filter(status=Status.SENDING)) == ([], 0)  # no stale claim
        await house.close()
    assert len(accepted) >= 143


async def test_an_order_survives_a_crash(house: House, tmp_path: Path) -> None:
    spool = await house.open()
    await put(spool, message(1))
    await claimed(spool)
    await spool.order(Event.HOLD, Selection((queue_id(1),)), NOW)
    copy = await snapshot(house, tmp_path / "copy")
    shown = await (await copy.open()).show(queue_id(1))
    assert shown is not None
    assert shown.recipients[0].status is Status.HELD
    await copy.close()
