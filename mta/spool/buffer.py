"""Content on its way in: memory for most messages, an unlinked file for large ones.

Rules: memory follows neither the size of messages nor how many come at once; a file has no name, so a crash leaves
nothing behind; a new prefix (the header fix-ups) is kept apart, so that nothing is moved to put it in front.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mta.spool.base import SpoolError
from mta.spool.connection import storage_error

MEMORY_LIMIT = 1024 * 1024
"""Octets of one message that are kept in memory while there is room for all."""
SHARED_LIMIT = 64 * 1024 * 1024
"""Octets of all messages together, beyond which each is spilled at `SMALL_LIMIT`."""
SMALL_LIMIT = 32 * 1024
CHUNK = 128 * 1024
"""Octets of one piece of content, in the file and in the spool."""


@dataclass(slots=True)
class MemoryUse:
    """Octets that the open buffers of a spool have in memory."""

    octets: int = 0


class SpillBuffer:
    """The `ContentBuffer` of a spool whose files are in `folder`; `use` is what its buffers share."""

    def __init__(self, folder: Path, use: MemoryUse | None = None) -> None:
        self._folder = folder
        self._use = use or MemoryUse()
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
        limit = MEMORY_LIMIT if self._use.octets + len(data) <= SHARED_LIMIT else SMALL_LIMIT
        if self._file is None and self._length + len(data) <= limit:
            self._memory += data
            self._use.octets += len(data)
        else:
            self._spill(data)
        self._length += len(data)

    def _spill(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = _moved(self._memory, self._folder)
                self._forget()
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

    def _forget(self) -> None:
        self._use.octets -= len(self._memory)
        self._memory = bytearray()

    def adopt(self, descriptor: int, prefix: bytes, skipped: int, length: int) -> None:
        """What another buffer has `spilled`, instead of what is in this one; the descriptor is ours from now on."""
        self._file, self._prefix, self._skipped, self._length = descriptor, prefix, skipped, length

    @property
    def spilled(self) -> tuple[int, bytes, int, int] | None:
        """Its file and what stands for it, as `adopt` takes it; None where it is in memory."""
        return None if self._file is None else (self._file, self._prefix, self._skipped, self._length)

    def close(self) -> None:
        self._closed = True
        self._forget()
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
