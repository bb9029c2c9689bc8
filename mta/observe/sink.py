"""Where log lines go: a file descriptor that may be slow, full or closed.

Rules: nothing here raises, or blocks for longer than a disk does. A pipe, socket or terminal is written to only while
it says that it takes some, at most `CHUNK` octets at a time (what a pipe that is ready promises to take); what it does
not take waits in at most `BACKLOG_LIMIT` octets; beyond that whole lines are lost and counted. Lines of one turn of the
event loop go out together: a write for each costs as much as the line.
"""

import asyncio
import os
import select

CHUNK = select.PIPE_BUF
BACKLOG_LIMIT = 1024 * 1024
RETRY_INTERVAL = 0.1
"""Seconds until what waits is tried again, if no line comes meanwhile."""


class DescriptorSink:
    """Takes whole lines, in one thread. `fd` is not closed here."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._backlog = bytearray()
        self._lost = 0
        self._is_due = False

    def __call__(self, line: bytes) -> None:
        if len(self._backlog) + len(line) > BACKLOG_LIMIT:
            self._lost += 1
            return
        self._backlog += line
        if len(self._backlog) >= CHUNK or not self._flush_in(0):
            self.flush()

    def take_lost(self) -> int:
        """How many lines were lost since the last call; 0 while others still wait, since a word about it would too."""
        if not self._lost or self._backlog:
            return 0
        lost, self._lost = self._lost, 0
        return lost

    def flush(self) -> None:
        """Writes what the descriptor takes now; the rest is tried again later."""
        while self._backlog and self._poll.poll(0):  # a hang-up is ready too: the write tells
            try:
                del self._backlog[: os.write(self._fd, self._backlog[:CHUNK])]
            except BlockingIOError:
                break
            except OSError:  # closed, or a full disk: what is kept for it would only be late
                self._lost += self._backlog.count(b"\n")
                self._backlog.clear()
        if self._backlog:
            self._flush_in(RETRY_INTERVAL)

    def _flush_in(self, seconds: float) -> bool:
        """Whether that will happen: not before the loop's start or after its end."""
        if not self._is_due:
            try:
                asyncio.get_running_loop().call_later(seconds, self._come_due)
            except RuntimeError:
                return False
            self._is_due = True
        return True

    def _come_due(self) -> None:
        self._is_due = False
        self.flush()
