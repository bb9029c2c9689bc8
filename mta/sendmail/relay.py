"""`sendmail -bs`: SMTP on standard input and output, spoken by the daemon.

Rules: octets are passed on as they are, in both directions; the end of the input is passed on too, and the session ends
when the daemon has said all. Each direction waits for itself alone, so that a client may send without reading.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from mta.control.errors import Exit
from mta.model.door import Door
from mta.sendmail.doors import enter
from mta.sendmail.errors import NotTaken

_PIECE = 65536
_DOWN = b"421 4.3.2 mta is not running, closing connection\r\n"


def relay(doors: list[Door], given: int, answers: int) -> None:
    """Between two file descriptors and the daemon. Raises `NotTaken`: the client was told 421, or the daemon was lost."""
    try:
        connection, door = enter(doors)
    except NotTaken:
        _write_all(answers, _DOWN)
        raise
    connection.settimeout(None)
    threading.Thread(target=_pass_on, args=(given, connection), daemon=True).start()
    with connection, suppress(BrokenPipeError):  # a client that has gone needs no more answers
        for piece in _answers(connection, door):
            _write_all(answers, piece)


def _answers(connection: socket.socket, door: Door) -> Iterator[bytes]:
    try:
        while piece := connection.recv(_PIECE):
            yield piece
    except ConnectionError as error:
        raise NotTaken(Exit.TRY_LATER, f"mta at {door} was lost ({error.strerror})") from None


def _pass_on(given: int, connection: socket.socket) -> None:
    with suppress(OSError):  # a daemon that has gone is noticed where its answers are read
        while piece := os.read(given, _PIECE):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)


def _write_all(descriptor: int, octets: bytes) -> None:
    """Raises BrokenPipeError, else `NotTaken`: there is no room."""
    try:
        while octets:
            octets = octets[os.write(descriptor, octets) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotTaken(Exit.IO_ERROR, f"standard output can't be written: {error.strerror}") from None
