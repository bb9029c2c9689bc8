"""Many clients at once that send much and do not finish."""

import os
import tracemalloc
from pathlib import Path

from mta.spool.buffer import MEMORY_LIMIT, SHARED_LIMIT
from tests.spool.house import House

CLIENTS = 200
MESSAGE = bytes(range(256)) * (MEMORY_LIMIT // 256)


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_memory_does_not_follow_the_number_of_clients(tmp_path: Path) -> None:
    house = House(tmp_path)
    spool = await house.open()
    tracemalloc.start()
    buffers = [spool.buffer() for _ in range(CLIENTS)]
    for start in range(0, MEMORY_LIMIT, 64 * 1024):
        for buffer in buffers:
            buffer.write(MESSAGE[start : start + 64 * 1024])
    assert tracemalloc.get_traced_memory()[0] < SHARED_LIMIT * 1.5
    tracemalloc.stop()
    assert all(b"".join(buffer.chunks()) == MESSAGE for buffer in buffers)
    for buffer in buffers:
        buffer.close()
    files = _open_files()
    spool.buffer().write(MESSAGE)
    assert _open_files() == files, "there is room again"
    await house.close()
