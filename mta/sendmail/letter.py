"""A message from standard input, kept until it is complete: nothing is said to the daemon before.

Rules: lines end with CRLF afterwards, also the last; a bare CR stays for the daemon to judge. Without `-i` a line with a
lone dot ends the input. The mbox lines ("From ann Mon ...") that some programs put before a header are left out, as
Postfix does. What is larger than `IN_MEMORY` goes to a temporary file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import BinaryIO

IN_MEMORY = 2**20
_PIECE = 65536
_MBOX_LINE = re.compile(rb">*From ")


@dataclass(frozen=True, slots=True)
class Letter:
    """`file` stands at its end. `size`: its octets; `eight_bit`: some of them are beyond ASCII."""

    file: "SpooledTemporaryFile[bytes]"
    size: int
    eight_bit: bool

    def start(self, length: int) -> bytes:
        self.file.seek(0)
        return self.file.read(length)

    def rest(self, start: int) -> Iterator[bytes]:
        """From `start` on, in pieces."""
        self.file.seek(start)
        while piece := self.file.read(_PIECE):
            yield piece


def read_letter(stream: BinaryIO, *, dot_ends: bool) -> Letter:
    """Raises OSError: it can't be read, or there is no room for it."""
    file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - it lives as long as the letter
    eight_bit = False
    for piece in _crlf(_without_mbox_lines(_lines(stream, dot_ends=dot_ends))):
        file.write(piece)
        eight_bit = eight_bit or not piece.isascii()
    return Letter(file, file.tell(), eight_bit)


def _lines(stream: BinaryIO, *, dot_ends: bool) -> Iterator[bytes]:
    """Lines, long ones in pieces."""
    at_start = True
    while piece := stream.readline(_PIECE):
        if dot_ends and at_start and piece in (b".\n", b".\r\n"):
            return
        at_start = piece.endswith(b"\n")
        yield piece


def _without_mbox_lines(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        if not _MBOX_LINE.match(line):
            yield line
            break
    yield from lines


def _crlf(pieces: Iterator[bytes]) -> Iterator[bytes]:
    last = b"\r\n"
    for piece in pieces:
        if piece.endswith(b"\n") and not (last + piece).endswith(b"\r\n"):
            yield piece[:-1] + b"\r\n"
        else:
            yield piece
        last = piece[-2:]
    if not last.endswith(b"\n"):
        yield b"\r\n"
