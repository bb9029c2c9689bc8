"""The spool in a process of its own, at rest as with a disk that does not answer, killed, asked for what can't be."""

import asyncio
import contextlib
import gc
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mta.config.model import Submission
from mta.spool.base import ContentBuffer, Spool, SpoolError
from mta.spool.buffer import MEMORY_LIMIT, SHARED_LIMIT, SMALL_LIMIT
from mta.spool.process.client import RemoteSpool
from tests.spool.house import RemoteHouse
from tests.spool.making import NOW, message, put, queue_id, read

LARGE = b"x" * (MEMORY_LIMIT + 1)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[RemoteHouse]:
    house = RemoteHouse(tmp_path)
    yield house
    await house.close()


@pytest.fixture
async def spool(house: RemoteHouse) -> RemoteSpool:
    spool = await house.open()
    assert isinstance(spool, RemoteSpool)
    return spool


def process(spool: RemoteSpool) -> int:
    return spool._process.pid


@contextlib.contextmanager
def at_rest(spool: RemoteSpool) -> Iterator[None]:
    os.kill(process(spool), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process(spool), signal.SIGCONT)


def filled(spool: Spool, content: bytes) -> ContentBuffer:
    buffer = spool.buffer()
    buffer.write(content)
    return buffer


def accept(spool: Spool, number: int, content: bytes) -> "asyncio.Task[object]":
    made = message(number, size=len(content))
    return asyncio.create_task(spool.accept(made, filled(spool, content), NOW))


def descriptors(*processes: int) -> list[int]:
    return [len(os.listdir(f"/proc/{it}/fd")) for it in processes]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing is told to the loop's exception handler: no error that nobody waits for, no callback that fails."""
    told: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))
    try:
        yield
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    assert not told


@pytest.mark.parametrize("size", [MEMORY_LIMIT - 1, MEMORY_LIMIT, MEMORY_LIMIT + 1, 25 * 2**20])
async def test_content_of_every_size_comes_through(spool: RemoteSpool, size: int) -> None:
    content = os.urandom(size)
    await accept(spool, 1, content)
    assert await read(spool, queue_id(1)) == content


async def test_files_are_closed_on_both_sides_whatever_becomes_of_the_call(house: RemoteHouse, spool: RemoteSpool) -> None:
    await accept(spool, 1, LARGE)
    both = os.getpid(), process(spool)
    before = descriptors(*both)
    await asyncio.gather(*(accept(spool, number, LARGE) for number in range(2, 12)))
    for number in range(2, 12):  # the same queue ids again
        with pytest.raises(SpoolError):
            await accept(spool, number, LARGE)
    for number in range(20, 30):
        cancelled = accept(spool, number, LARGE)
        await asyncio.sleep(0)
        cancelled.cancel()
    for number in range(30, 40):
        unspeakable = replace(message(number), subject="\udcff")
        with pytest.raises(SpoolError):
            await spool.accept(unspeakable, filled(spool, LARGE), NOW)
    await accept(spool, 40, LARGE)
    await spool.overview(NOW)
    ours, theirs = descriptors(*both)
    assert ours <= before[0]  # fewer where an earlier test's are only now collected
    assert theirs == before[1]


@pytest.mark.parametrize("name", ["\udcff", "x\ud800"])
async def test_what_can_not_be_said_fails_for_who_says_it_alone(spool: RemoteSpool, name: str) -> None:
    await put(spool, message(1))
    with quiet():
        others = asyncio.gather(spool.show(queue_id(1)), spool.claim("example.org", 10, NOW))
        with pytest.raises(SpoolError, match="can't be asked"):
            await spool.find(name)
        with pytest.raises(SpoolError, match="can't be asked"):
            await spool._chunk(2**70, 0)
        assert all(await others)
        with pytest.raises(SpoolError):  # it can be said, and yet SQLite has no such number
            await spool._chunk(2**63, 0)
        assert await spool.show(queue_id(1)) is not None


async def test_memory_of_what_waits_for_a_disk_that_rests_is_bounded(spool: RemoteSpool) -> None:
    """What was sent and is not answered counts as much as what is being received: what comes beyond goes to files."""
    content = b"x" * MEMORY_LIMIT
    number = SHARED_LIMIT // MEMORY_LIMIT
    with at_rest(spool):
        waiting = [accept(spool, it, content) for it in range(number)]
        await asyncio.sleep(0)
        beyond = [accept(spool, it, content) for it in range(number, number + 20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert SHARED_LIMIT * 0.9 < spool._transport.get_write_buffer_size() < SHARED_LIMIT * 1.1
    await asyncio.gather(*waiting, *beyond)
    assert spool._memory_use.octets == 0
    assert await read(spool, queue_id(number + 1)) == content


async def test_a_file_of_each_session_waits_for_a_disk_that_rests_and_what_is_beyond_is_refused(spool: RemoteSpool) -> None:
    spool._memory_use.octets += SHARED_LIMIT  # so that small ones go to files as well
    small = b"x" * (SMALL_LIMIT + 1)
    with at_rest(spool), quiet():
        waiting = [accept(spool, number, small) for number in range(Submission().max_connections)]
        await asyncio.sleep(0.1)
        assert not any(it.done() for it in waiting)
        beyond = [accept(spool, number, small) for number in range(1000, 1500)]
        refused, taken = await asyncio.wait(beyond, timeout=1)
        assert refused
        assert all(isinstance(it.exception(), SpoolError) for it in refused)
    await asyncio.gather(*waiting, *taken)
    for number in (0, len(waiting) - 1):
        assert await read(spool, queue_id(number)) == small
    await accept(spool, 2000, LARGE)


async def test_a_process_that_has_no_files_left_says_so_and_goes_on(spool: RemoteSpool) -> None:
    await accept(spool, 1, LARGE)
    _, hard = resource.prlimit(process(spool), resource.RLIMIT_NOFILE)
    resource.prlimit(process(spool), resource.RLIMIT_NOFILE, (3, hard))
    with pytest.raises(SpoolError, match="too many files"):
        await accept(spool, 2, LARGE)
    resource.prlimit(process(spool), resource.RLIMIT_NOFILE, (hard, hard))
    await accept(spool, 3, LARGE)
    assert await read(spool, queue_id(3)) == LARGE


async def test_a_claim_that_nobody_waits_for_any_more_goes_back_in_silence(spool: RemoteSpool) -> None:
    await put(spool, message(1))
    with quiet():
        with at_rest(spool):
            nobody = asyncio.create_task(spool.claim("example.org", 10, NOW))
            await asyncio.sleep(0)
            nobody.cancel()
        while (claim := await spool.claim("example.org", 10, NOW)) is None:
            pass
        await spool.release(claim, NOW)


async def test_whoever_waits_when_it_is_killed_is_told_and_nobody_else(spool: RemoteSpool) -> None:
    await put(spool, message(1))
    with quiet():
        with at_rest(spool):
            nobody = asyncio.create_task(spool.claim("example.org", 10, NOW))
            waiting = [accept(spool, 2, LARGE), accept(spool, 3, b"x"), asyncio.create_task(spool.show(queue_id(1)))]
            await asyncio.sleep(0)
            nobody.cancel()
            os.kill(process(spool), signal.SIGKILL)
            for it in waiting:
                with pytest.raises(SpoolError, match="is gone"):
                    await it
        with pytest.raises(SpoolError, match="is gone"):
            await spool.show(queue_id(1))
        with pytest.raises(SpoolError, match="SIGKILL"):
            await spool._process.end()


async def test_a_content_that_is_read_half_holds_nothing_up(spool: RemoteSpool) -> None:
    await accept(spool, 1, LARGE)
    async for _ in spool.content(queue_id(1)):
        break
    assert await read(spool, queue_id(1)) == LARGE


async def test_a_file_that_no_room_is_left_for_over_there_is_closed(spool: RemoteSpool) -> None:
    """In memory here, and beyond what is kept there with its new header."""
    (before,) = descriptors(process(spool))
    limits = resource.prlimit(process(spool), resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    for number in range(5):
        content = filled(spool, LARGE[:MEMORY_LIMIT])
        content.replace_prefix(0, b"X-Long: 1\r\n")
        with pytest.raises(SpoolError):
            await spool.accept(message(number), content, NOW)
    resource.prlimit(process(spool), resource.RLIMIT_FSIZE, limits)
    await put(spool, message(9))
    assert descriptors(process(spool)) == [before]
