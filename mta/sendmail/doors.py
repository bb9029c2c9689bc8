"""Where the daemon takes mail from this machine: the doors that `submission.listen` names, and a way in.

Rules: a unix socket first, then plain doors in their order; one that does not open is followed by the next. A door for
TLS alone is not for this program. Nothing else of the configuration is read while a door opens, so that a mistake there
stops no mail.
"""

import errno
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mta.config.document import Document, read_document
from mta.config.places import door
from mta.config.problems import ConfigError, Problem
from mta.control.errors import Exit
from mta.model.door import Door, Scheme
from mta.sendmail.errors import NoDoor

CONNECT_TIMEOUT = 10.0
_KEY = ("submission", "listen")
_DEFAULT = ("127.0.0.1:2525",)
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound to: where such a door is reached


def find_doors(path: Path | None) -> list[Door]:
    """Of the configuration in the file at `path`, else the default. Raises `ConfigError`."""
    document = read_document(path)
    try:
        doors = list(_doors(document))
    except ValueError as error:
        raise _mistake(document, str(error)) from None
    if not doors:
        raise _mistake(document, "has only doors for TLS: sendmail needs a unix socket, or a plain door on 127.0.0.1")
    return sorted(doors, key=lambda it: it.scheme is not Scheme.UNIX)


def _doors(document: Document) -> Iterator[Door]:
    submission = document.tables.get("submission", {})
    entries = submission.get("listen", _DEFAULT) if isinstance(submission, dict) else None
    if not isinstance(entries, list | tuple) or not entries:
        raise ValueError("expected a list of at least one door, in brackets")
    for entry in entries:
        found = door(entry, document.base)
        if found.scheme is not Scheme.TLS:
            yield replace(found, host=_EVERYWHERE.get(found.host, found.host))


def _mistake(document: Document, message: str) -> ConfigError:
    return ConfigError(document.source, [Problem(".".join(_KEY), message, document.line(_KEY))])


def enter(doors: list[Door]) -> tuple[socket.socket, Door]:
    """A connection to the first that opens. Raises `NoDoor`: 77 if this user may use none, else 75."""
    denied = True
    for it in doors:
        try:
            return _connect(it), it
        except OSError as error:
            denied = denied and error.errno in (errno.EACCES, errno.EPERM)
    names = ", ".join(map(str, doors))
    if denied:
        raise NoDoor(Exit.NOT_PERMITTED, f"uid {os.getuid()} may not submit at {names}: the message was NOT taken")
    raise NoDoor(Exit.TRY_LATER, f"mta is not running at {names}: the message was NOT taken; try again later")


def _connect(to: Door) -> socket.socket:
    if to.scheme is not Scheme.UNIX:
        return socket.create_connection((to.host, to.port), CONNECT_TIMEOUT)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_TIMEOUT)
        connection.connect(str(to.path))
    except OSError:
        connection.close()
        raise
    return connection
