"""Content on its way in: memory for most messages, an unlinked file for large ones.

Rules: memory does not follow message size; a file has no name, so a crash leaves nothing behind; a new prefix (the
header fix-ups) is kept apart, so that nothing is moved to put it in front.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mta.spool.base import SpoolError
from mta.spool.connection import storage_error

MEMORY_LIMIT = 1024 * 1024
CHUNK = 128 * 1024
"""Octets of one piece of content, in the file and in the spool."""


class SpillBuffer:
    """The `ContentBuffer` of a spool whose files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prefix = b""
        self._skipped = 0  # octets of the body that the prefix stands for
        self._memory = bytearray()
        self._file: int | None = None
        self._length = 0
        self._closed = False

    @property
    def size(self) -> int:
        return len(self._prefix) + self._length - self._skipped

    def write(self, data: bytes) -> None:
        if self._closed:
            raise SpoolError("the content buffer is closed")
        if self._file is None and self._length + len(data) <= MEMORY_LIMIT:
            self._memory += data
        else:
            self._spill(data)
        self._length += len(data)

    def _spill(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = _moved(self._memory, self._folder)
                self._memory = bytearray()
            _write_at(self._file, data, self._length)
        except OSError as error:
            raise storage_error(error) from error

    def prefix(self, length: int) -> bytes:
        own = self._prefix[:length]
        return own + self._body(self._skipped, length - len(own))

    def replace_prefix(self, length: int, by: bytes) -> None:
        beyond = max(length - len(self._prefix), 0)
        self._prefix = by + self._prefix[length:]
        self._skipped = min(self._skipped + beyond, self._length)

    def chunks(self) -> Iterator[bytes]:
        """The content in pieces of `CHUNK` octets, the last one shorter. May be asked for again."""
        if self._closed:
            raise SpoolError("the content buffer is closed")
        piece = self._prefix
        position = self._skipped
        while position < self._length or piece:
            if len(piece) < CHUNK:
                body = self._body(position, CHUNK - len(piece))
                position += len(body)
                piece += body
            yield piece[:CHUNK]
            piece = piece[CHUNK:]

    def _body(self, start: int, length: int) -> bytes:
        if self._file is None:
            return bytes(self._memory[start : start + length])
        wanted = min(length, self._length - start)
        try:
            octets = os.pread(self._file, wanted, start)
        except OSError as error:
            raise storage_error(error) from error
        if len(octets) != wanted:
            raise SpoolError("the spilled content is shorter than what was written")
        return octets

    def close(self) -> None:
        self._closed = True
        self._memory = bytearray()
        self._prefix, self._skipped, self._length = b"", 0, 0
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _moved(memory: bytearray, folder: Path) -> int:
    descriptor = _nameless_file(folder)
    try:
        _write_at(descriptor, memory, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _nameless_file(folder: Path) -> int:
    with contextlib.suppress(OSError):  # not every file system has O_TMPFILE
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    descriptor, name = tempfile.mkstemp(dir=folder)
    os.unlink(name)
    return descriptor


def _write_at(descriptor: int, data: bytes | bytearray, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
