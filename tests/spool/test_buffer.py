"""The content buffer: same octets in memory and spilled, nothing left behind."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.spool.base import SpoolError, SpoolFull
from mta.spool.buffer import CHUNK, MEMORY_LIMIT, SpillBuffer

SIZES = [0, 1, CHUNK, CHUNK + 1, MEMORY_LIMIT, MEMORY_LIMIT + 1, 3 * MEMORY_LIMIT + 7]


def octets(size: int) -> bytes:
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def filled(folder: Path, content: bytes, step: int = 60_000) -> SpillBuffer:
    buffer = SpillBuffer(folder)
    for start in range(0, len(content), step):
        buffer.write(content[start : start + step])
    return buffer


@pytest.mark.parametrize("size", SIZES)
def test_what_goes_in_comes_out_in_full_chunks(tmp_path: Path, size: int) -> None:
    buffer = filled(tmp_path, octets(size))
    chunks = list(buffer.chunks())
    assert b"".join(chunks) == octets(size)
    assert buffer.size == size
    assert all(len(chunk) == CHUNK for chunk in chunks[:-1])
    assert list(buffer.chunks()) == chunks
    buffer.close()


@pytest.mark.parametrize("size", SIZES)
def test_a_prefix_is_replaced_in_both_modes(tmp_path: Path, size: int) -> None:
    buffer = filled(tmp_path, octets(size))
    assert buffer.prefix(300) == octets(size)[:300]
    for by in (b"Received: x\r\n" * 20_000, b"", b"Subject: y\r\n"):
        buffer.replace_prefix(buffer.size - len(octets(size)[300:]), by)
        expected = by + octets(size)[300:]
        assert b"".join(buffer.chunks()) == expected
        assert (buffer.size, buffer.prefix(999)) == (len(expected), expected[:999])
    buffer.write(b"end")
    assert b"".join(buffer.chunks()).endswith(b"end")
    buffer.close()


@given(st.binary(max_size=50), st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=20)), max_size=4))
def test_replacing_is_slicing(content: bytes, changes: list[tuple[int, bytes]]) -> None:
    buffer = SpillBuffer(Path())
    buffer.write(content)
    for length, by in changes:
        buffer.replace_prefix(length, by)
        content = by + content[length:]
        assert (b"".join(buffer.chunks()), buffer.size, buffer.prefix(7)) == (content, len(content), content[:7])


def test_the_spilled_file_has_no_name_and_is_freed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    buffer = filled(tmp_path, octets(MEMORY_LIMIT + 1))
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before + 1
    buffer.close()
    buffer.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_nameless_files_it_is_unlinked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    buffer = filled(tmp_path, octets(MEMORY_LIMIT + 1))
    assert list(tmp_path.iterdir()) == []
    assert b"".join(buffer.chunks()) == octets(MEMORY_LIMIT + 1)
    buffer.close()


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, SpoolFull), (errno.EDQUOT, SpoolFull), (errno.EIO, SpoolError)])
def test_trouble_of_the_disk_is_said_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[SpoolError]
) -> None:
    buffer = filled(tmp_path, octets(MEMORY_LIMIT))
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(number, "no")))
        with pytest.raises(SpoolError) as caught:
            buffer.write(b"more")
        assert type(caught.value) is kind
    assert buffer.size == MEMORY_LIMIT
    buffer.write(b"more")
    assert b"".join(buffer.chunks()) == octets(MEMORY_LIMIT) + b"more"
    buffer.close()


def test_a_closed_buffer_is_refused(tmp_path: Path) -> None:
    buffer = filled(tmp_path, b"x")
    buffer.close()
    with pytest.raises(SpoolError):
        list(buffer.chunks())
