"""Why a message was not taken: an exit code of sysexits.h, and a line for each reason."""

from mta.control.errors import Exit


class NotTaken(Exception):
    """`lines` are for standard error; what they quote from outside is made safe where they are printed."""

    def __init__(self, code: Exit, *lines: str) -> None:
        self.code = code
        self.lines = lines
        super().__init__("\n".join(lines))


class NoDoor(NotTaken):
    """None of the doors opens."""


def misused(line: str) -> NotTaken:
    return NotTaken(Exit.USAGE, line)


def bad_data(line: str) -> NotTaken:
    return NotTaken(Exit.DATA, line)
