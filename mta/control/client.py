"""The command line's side of the socket: blocking, and quick to import."""

import json
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mta.control.commands import usage
from mta.control.errors import LINE_LIMIT, CommandError, Exit

_HINT = "is it running (`mta serve`), and is this its configuration (--config)?"


def ask(path: Path, words: Sequence[str], timeout: float = 60.0) -> dict[str, Any]:
    """The daemon's JSON answer to a command. Raises `CommandError`: the daemon's own, 69 when it can't be reached, 77
    when this user may not. `timeout` is for each step, in seconds."""
    request = encode_request(words)
    try:
        answer = _exchange(path, request, timeout)
    except PermissionError:
        raise CommandError(
            Exit.NOT_PERMITTED, f"not permitted to use {path}: run this as root, or as a member of its group"
        ) from None
    except TimeoutError:
        raise CommandError(Exit.UNAVAILABLE, f"the daemon did not answer at {path} within {timeout:g} s") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandError(Exit.UNAVAILABLE, f"the daemon can't be reached at {path} ({reason}): {_HINT}") from None
    return _document(path, answer)


def encode_request(words: Sequence[str]) -> bytes:
    """A line that asks for JSON. Raises `CommandError` (64) for words that no line can carry."""
    line = shlex.join(["json", *words])
    if "\n" in line or "\r" in line:
        raise usage("a command can't have a line break in it")
    encoded = line.encode("utf-8", "surrogateescape") + b"\n"
    if len(encoded) > LINE_LIMIT:
        raise usage(f"the command is longer than {LINE_LIMIT} octets: name fewer messages at once")
    return encoded


def _exchange(path: Path, request: bytes, timeout: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout)
        sock.connect(str(path))
        sock.sendall(request)
        chunks = []
        while chunk := sock.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


def _document(path: Path, answer: bytes) -> dict[str, Any]:
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandError(Exit.UNAVAILABLE, f"the daemon at {path} broke off its answer: ask again")
    if error := document.get("error"):
        raise CommandError(error["code"], error["message"])
    return document
