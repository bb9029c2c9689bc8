"""Runs a command whose children part from it, so that what all of them use can still be told: `python -m
tests.bench.tools.reaper COMMAND ...`.

It is the parent of every process that loses its own (PR_SET_CHILD_SUBREAPER, prctl(2)) and waits for each, so the CPU time
of all that lived is its own and that of its children. SIGTERM goes to the command; what the command leaves behind is killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

_SUBREAPER = 36


def main(*command: str) -> int:
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    child = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child.pid, signal.SIGTERM))
    while (ended := os.wait())[0] != child.pid:
        pass
    _kill_rest()
    return os.waitstatus_to_exitcode(ended[1]) & 0x7F


def _kill_rest() -> None:
    """Until there is no child left: those of the killed ones become ours too."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while left := children.read_text().split():
        for process in left:
            os.kill(int(process), signal.SIGKILL)
            os.waitpid(int(process), 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
