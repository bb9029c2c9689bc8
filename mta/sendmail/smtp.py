"""One SMTP session with the daemon, blocking: commands as octets, replies as values, content as it is.

The standard library's client rewrites content and addresses, and holds messages in memory. RFC 5321 sections 4.2,
4.5.2 and 4.5.3.2.
"""

import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress

from mta.model.reply import Reply, parse_reply

TIMEOUT = 300.0
"""Seconds for a reply."""
FINAL_TIMEOUT = 600.0
"""For the reply to the final dot."""
QUIT_TIMEOUT = 5.0
"""All is settled by then."""

_LINE = re.compile(rb"([2-5][0-9][0-9])(?:([ -])([^\r\n]*))?\r?\n\Z")
_LINE_LIMIT = 4096
_LINES_LIMIT = 200


class Lost(Exception):
    """The daemon has gone, or what it says is no SMTP. `in_doubt`: behind the final dot, so it may have the message."""

    def __init__(self, reason: str, *, in_doubt: bool = False) -> None:
        super().__init__(reason)
        self.in_doubt = in_doubt


class Session:
    """Every method but `end` raises `Lost`."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb")

    def greeting(self) -> Reply:
        return self._reply(TIMEOUT)[0]

    def hello(self, name: str) -> tuple[Reply, list[str]]:
        """The reply to EHLO and its lines: the daemon's name, and what it offers in upper case."""
        self._write(f"EHLO {name}\r\n".encode("ascii"))
        reply, lines = self._reply(TIMEOUT)
        return reply, [lines[0].partition(" ")[0], *(line.upper() for line in lines[1:])]

    def command(self, line: str) -> Reply:
        self._write(line.encode("utf-8") + b"\r\n")
        return self._reply(TIMEOUT)[0]

    def content(self, pieces: Iterable[bytes]) -> Reply:
        """The reply to the final dot, or the one for which the daemon did not wait for it. Lines in `pieces` end with CRLF,
        also the last."""
        try:
            for piece in stuffed(pieces):
                self._socket.sendall(piece)
            self._socket.sendall(b".\r\n")
        except OSError:
            return self._reply(TIMEOUT)[0]
        try:
            return self._reply(FINAL_TIMEOUT)[0]
        except Lost as error:
            raise Lost(str(error), in_doubt=True) from None

    def end(self) -> None:
        with suppress(Lost):
            self._write(b"QUIT\r\n")
            self._reply(QUIT_TIMEOUT)
        self._file.close()
        self._socket.close()

    def _write(self, octets: bytes) -> None:
        try:
            self._socket.settimeout(TIMEOUT)
            self._socket.sendall(octets)
        except OSError as error:
            raise Lost(error.strerror or str(error)) from None

    def _reply(self, timeout: float) -> tuple[Reply, list[str]]:
        try:
            self._socket.settimeout(timeout)
            return self._lines()
        except OSError as error:
            raise Lost(error.strerror or str(error)) from None

    def _lines(self) -> tuple[Reply, list[str]]:
        texts: list[bytes] = []
        while len(texts) < _LINES_LIMIT:
            line = self._file.readline(_LINE_LIMIT)
            match = _LINE.match(line)
            if match is None:
                raise Lost("what came is no SMTP reply" if line else "it closed the connection")
            texts.append(match[3] or b"")
            if match[2] != b"-":
                return parse_reply(int(match[1]), texts), [text.decode("latin-1") for text in texts]
        raise Lost("its reply does not end")


def stuffed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A dot before each line that begins with one, wherever the pieces are cut."""
    before = b"\r\n"
    for piece in pieces:
        whole = before + piece
        yield whole.replace(b"\r\n.", b"\r\n..")[len(before) :]
        before = whole[-2:]
