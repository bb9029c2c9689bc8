"""The sink: a reader that is slow, gone or full neither stops nor blocks the daemon."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mta.observe.sink import BACKLOG_LIMIT, DescriptorSink

LINE = b"x" * 199 + b"\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def drain(fd: int) -> bytes:
    os.set_blocking(fd, False)
    parts = []
    try:
        while part := os.read(fd, 65536):
            parts.append(part)
    except BlockingIOError:
        pass
    return b"".join(parts)


def test_lines_go_through_as_they_are(pipe: tuple[int, int]):
    sink = DescriptorSink(pipe[1])
    sink(b"one\n")
    sink(b"two\n")
    assert drain(pipe[0]) == b"one\ntwo\n"
    assert sink.take_lost() == 0


def test_a_reader_that_stops_blocks_nothing_and_whole_lines_are_lost(pipe: tuple[int, int]):
    """A blocking write would hang here; what is above the limit is counted, what was taken arrives whole."""
    sink = DescriptorSink(pipe[1])
    count = BACKLOG_LIMIT // len(LINE) + 1000
    for _ in range(count):
        sink(LINE)
    received = drain(pipe[0])
    while True:
        sink.flush()
        if not (more := drain(pipe[0])):
            break
        received += more
    lost = sink.take_lost()
    assert 0 < lost < 1000
    assert received == LINE * (count - lost)
    assert sink.take_lost() == 0


async def test_what_waits_goes_out_when_the_reader_comes_back(pipe: tuple[int, int]):
    sink = DescriptorSink(pipe[1])
    for _ in range(1000):
        sink(LINE)
    received = b""
    while len(received) < 1000 * len(LINE):
        received += await asyncio.get_running_loop().run_in_executor(None, os.read, pipe[0], 65536)
    assert received == LINE * 1000


def test_a_line_longer_than_a_pipe_takes_at_once_does_not_block(pipe: tuple[int, int]):
    sink = DescriptorSink(pipe[1])
    long = b"y" * 200_000 + b"\n"
    sink(long)
    received = b""
    while part := drain(pipe[0]):
        received += part
        sink.flush()
    assert received == long


def test_a_reader_that_went_away_is_survived():
    read, write = os.pipe()
    sink = DescriptorSink(write)
    os.close(read)
    sink(LINE)
    sink(LINE)
    os.close(write)
    assert sink.take_lost() == 2


def test_a_closed_descriptor_is_survived():
    read, write = os.pipe()
    sink = DescriptorSink(write)
    os.close(write)
    sink(LINE)
    os.close(read)
    assert sink.take_lost() == 1


def test_a_full_disk_loses_lines_and_recovers(tmp_path: Path):
    full = os.open("/dev/full", os.O_WRONLY)
    sink = DescriptorSink(full)
    sink(LINE)
    room = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(room, full)
    sink(b"back\n")
    for fd in (room, full):
        os.close(fd)
    assert sink.take_lost() == 1
    assert (tmp_path / "log").read_bytes() == b"back\n"


async def test_lines_that_are_written_together_are_not_lost_for_being_many(tmp_path: Path):
    """A turn may accept a thousand messages: the file takes them all."""
    count = 2 * BACKLOG_LIMIT // len(LINE)
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    sink = DescriptorSink(file)
    for _ in range(count):
        sink(LINE, soon=True)
    sink(b"now\n")
    os.close(file)
    assert sink.take_lost() == 0
    assert (tmp_path / "log").read_bytes() == LINE * count + b"now\n"
