"""What both ends of the socket agree on: how long a request may be, and why a command was not done (an exit code of
sysexits.h and a text for a person).
"""

from enum import IntEnum

from mta.model.text import safe_text

LINE_LIMIT = 65536
"""Octets of a request."""


class Exit(IntEnum):
    """What the command's exit codes mean (interface.md section 1)."""

    USAGE = 64
    DATA = 65
    NO_MESSAGE = 66
    NO_USER = 67
    """Of `mta sendmail`: there is none of the recipients."""
    UNAVAILABLE = 69
    """The daemon can't be reached."""
    INTERNAL = 70
    IO_ERROR = 74
    """Standard output can't be written."""
    TRY_LATER = 75
    NOT_PERMITTED = 77
    CONFIG = 78


class CommandError(Exception):
    """`message` is one line, safe to print."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = safe_text(message)
        super().__init__(self.message)
