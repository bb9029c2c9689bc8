"""A copy made while the spool is at work opens as a spool and has what was acknowledged before (`mta backup`)."""

import asyncio
import errno
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mta.model.lifecycle import Event, Status
from mta.spool import backup
from mta.spool.base import Filter, Spool, SpoolError, SpoolRefusal
from mta.spool.connection import connect_inline, connect_threaded
from mta.spool.sqlite import SqliteSpool
from tests.spool.house import House
from tests.spool.invariants import check
from tests.spool.making import CONTENT, NOW, claimed, deliver, mark, message, outcome, put, queue_id, read


@pytest.fixture(params=[connect_threaded, connect_inline], ids=["threaded", "inline"])
async def house(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    house = House(tmp_path, request.param)
    yield house
    await house.close()


async def restored(house: House, file: Path, *, now: float = NOW, retry_after: float | None = 600) -> SqliteSpool:
    """Stop, move the copy in place, start."""
    await house.close()
    for path in house.path.parent.glob("spool.db*"):
        path.unlink()
    file.rename(house.path)
    return await house.open(now=now, retry_after=retry_after)


async def status(spool: Spool, number: int) -> Status:
    shown = await spool.show(queue_id(number))
    assert shown is not None
    return shown.recipients[0].status


async def test_a_copy_has_what_was_committed_and_nothing_later(house: House, tmp_path: Path) -> None:
    spool = await house.open()
    for number in (1, 2, 3):
        await put(spool, message(number))
    await deliver(spool, await claimed(spool))
    inflight = await claimed(spool)
    await mark(spool, inflight)
    file = tmp_path / "copy.db"
    assert await spool.backup(file, NOW) == file.stat().st_size
    await put(spool, message(4))
    await spool.settle(outcome(inflight, Event.DELIVERED), NOW)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]
    again = await restored(house, file)
    assert [await status(again, number) for number in (1, 2, 3)] == [Status.SENT, Status.IN_DOUBT, Status.PENDING]
    assert await again.show(queue_id(4)) is None
    assert house.recovered.in_doubt == 1
    assert (await again.overview(NOW)).held_destinations == ("*",), "a person looks before anything goes again"
    assert await read(again, queue_id(3)) == CONTENT
    await put(again, message(5))
    check(house)


async def test_under_load_it_ends_and_everything_acknowledged_before_is_there(tmp_path: Path, house: House) -> None:
    spool = await house.open()
    await put(spool, message(1), b"x" * 12_000_000)
    accepted = [1]
    sent: set[int] = set()

    async def submit(number: int) -> None:
        while True:
            await put(spool, message(number), b"y" * 20_000)
            accepted.append(number)
            number += 4
            await asyncio.sleep(0)

    async def send() -> None:
        while True:
            if (claim := await spool.claim("example.org", 1, NOW)) is not None:
                await deliver(spool, claim)
                sent.add(int(claim.queue_id))
            await asyncio.sleep(0)

    load = [asyncio.create_task(work) for work in (*(submit(n) for n in (2, 3, 4, 5)), send(), send())]
    while len(sent) < 20:
        await asyncio.sleep(0)
    accepted_before, sent_before = set(accepted), set(sent)
    await spool.backup(tmp_path / "copy.db", NOW)
    during = len(accepted) - len(accepted_before)
    for task in load:
        task.cancel()
    await asyncio.gather(*load, return_exceptions=True)
    again = await restored(house, tmp_path / "copy.db")
    check(house)
    found = {number: await status(again, number) for number in accepted_before}
    assert {number for number, it in found.items() if it is Status.SENT} >= sent_before
    assert set(found.values()) <= {Status.SENT, Status.PENDING, Status.IN_DOUBT}
    assert await again.queue(Filter(status=Status.SENDING)) == ([], 0)
    assert house.connect is connect_inline or during >= 10  # the copy held nobody up


async def test_what_is_there_is_left_as_it_is(house: House, tmp_path: Path) -> None:
    spool = await house.open()
    (tmp_path / "there").write_text("a letter")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "rest.new").write_text("half")
    for name in ("there", "link", "rest", "spool.db", "spool.db-journal", "spool.db.new", "spool.db.lock"):
        with pytest.raises(SpoolRefusal):
            await spool.backup(tmp_path / name, NOW)
    assert (tmp_path / "there").read_text() == "a letter"
    assert (tmp_path / "rest.new").read_text() == "half"
    assert not (tmp_path / "rest").exists()


async def test_a_folder_that_can_not_be_written_is_an_error_that_names_it(house: House, tmp_path: Path) -> None:
    spool = await house.open()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        await spool.backup(tmp_path / "nowhere/copy.db", NOW)
    with pytest.raises(OSError, match="proc") as refused:
        await spool.backup(Path("/proc/self/copy.db"), NOW)
    assert refused.value.errno in (errno.ENOENT, errno.EACCES, errno.EPERM)
    await put(spool, message(1))


async def test_a_copy_that_fails_leaves_nothing_and_harms_nothing(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = await house.open()
    await put(spool, message(1))

    def full(*_: object, **__: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(backup, "snapshot", full)
        with pytest.raises(SpoolError, match=r"copy\.db failed: database or disk is full"):
            await spool.backup(tmp_path / "copy.db", NOW)
    assert list(tmp_path.glob("copy*")) == []
    await spool.backup(tmp_path / "copy.db", NOW)


async def test_one_at_a_time_and_a_stop_breaks_it_off(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.connect = connect_threaded
    spool = await house.open()
    await put(spool, message(1), b"x" * 5_000_000)
    monkeypatch.setattr(backup, "BREATH", 30)
    first = asyncio.create_task(spool.backup(tmp_path / "first.db", NOW))
    while not (tmp_path / "first.db.new").exists():
        await asyncio.sleep(0.01)
    with pytest.raises(SpoolRefusal, match="at work"):
        await spool.backup(tmp_path / "second.db", NOW)
    await put(spool, message(2))
    await asyncio.wait_for(house.close(), 10)
    with pytest.raises(SpoolError, match="broken off"):
        await first
    with pytest.raises(SpoolError, match="closed"):
        await spool.backup(tmp_path / "third.db", NOW)
    assert sorted(path.name for path in tmp_path.glob("*.db*") if not path.name.startswith("spool")) == []


async def test_a_caller_that_is_gone_does_not_end_it(house: House, tmp_path: Path) -> None:
    house.connect = connect_threaded
    spool = await house.open()
    await put(spool, message(1), b"x" * 5_000_000)
    caller = asyncio.create_task(spool.backup(tmp_path / "copy.db", NOW))
    while not (tmp_path / "copy.db.new").exists():
        await asyncio.sleep(0)
    caller.cancel()
    while not (tmp_path / "copy.db").exists():
        await asyncio.sleep(0.01)
    assert await status(await restored(house, tmp_path / "copy.db"), 1) is Status.PENDING
