"""Where log lines go: a file descriptor that may be slow, full or closed.

Rules: nothing here raises, or blocks for longer than a disk does. A pipe, socket or terminal is written to only while
it says that it takes some, at most `CHUNK` octets at a time (what a pipe that is ready promises to take); what it does
not take waits in at most `BACKLOG_LIMIT` octets; beyond that whole lines are lost and counted. Lines that are no
news to anybody (what is accepted and sent) are written together, once a turn of the event loop: a write for each would be a
tenth of a message's work.
"""

import asyncio
import os
import select
import stat

CHUNK = select.PIPE_BUF
BACKLOG_LIMIT = 1024 * 1024
RETRY_INTERVAL = 0.1
"""Seconds until what waits is tried again, if no line comes meanwhile."""


def _is_file(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:  # closed
        return False


class DescriptorSink:
    """Takes whole lines, in one thread. `fd` is not closed here."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._backlog = bytearray()
        self._lost = 0
        self._retrying = self._writing = False
        self._chunk = BACKLOG_LIMIT if _is_file(fd) else CHUNK

    def __call__(self, line: bytes, soon: bool = False) -> None:
        """`soon`: when what is being done now is done; else before this returns."""
        if len(self._backlog) + len(line) > BACKLOG_LIMIT:
            if self._writing:
                self.flush()  # what waits for the turn's end, and not for the descriptor, makes room
            if len(self._backlog) + len(line) > BACKLOG_LIMIT:
                self._lost += 1
                return
        self._backlog += line
        if not soon:
            self.flush()
        elif not self._writing:
            self._write_soon()

    def take_lost(self) -> int:
        """How many lines were lost since the last call; 0 while others still wait, since a word about it would too."""
        if not self._lost or self._backlog:
            return 0
        lost, self._lost = self._lost, 0
        return lost

    def _write_soon(self) -> None:
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()
        else:
            self._writing = True

    def flush(self) -> None:
        """Writes what the descriptor takes now; the rest is tried again later."""
        self._writing = False
        while self._backlog and self._poll.poll(0):  # a hang-up is ready too: the write tells
            try:
                del self._backlog[: os.write(self._fd, self._backlog[: self._chunk])]
            except BlockingIOError:
                break
            except OSError:  # closed, or a full disk: what is kept for it would only be late
                self._lost += self._backlog.count(b"\n")
                self._backlog.clear()
        if self._backlog and not self._retrying:
            self._retry_later()

    def _retry_later(self) -> None:
        try:
            asyncio.get_running_loop().call_later(RETRY_INTERVAL, self._retry)
        except RuntimeError:  # before the loop's start or after its end: the next line, or `flush`
            return
        self._retrying = True

    def _retry(self) -> None:
        self._retrying = False
        self.flush()
