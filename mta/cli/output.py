"""Standard output: what can't be written is told as any other failure, whichever part of a command printed it."""

import os
from io import TextIOWrapper

from mta.control.errors import CommandError, Exit

_DESCRIPTOR = 1


class OutputLost(CommandError):
    """There is no room for it."""


class Output(TextIOWrapper):
    """In the place of `plain`, which is used up. `write` and `flush` raise `OutputLost` (74), and BrokenPipeError where
    nobody reads. A terminal may know ASCII alone: what it can't show is escaped."""

    def __init__(self, plain: TextIOWrapper) -> None:
        encoding, at_lines, at_once = plain.encoding, plain.line_buffering, plain.write_through
        super().__init__(plain.detach(), encoding, "backslashreplace", None, at_lines, at_once)

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise _told(error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _told(error) from None


def _told(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error
    return OutputLost(Exit.IO_ERROR, f"standard output can't be written: {error.strerror}")


def give_output_up() -> None:
    """Else the interpreter would try again at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _DESCRIPTOR)
