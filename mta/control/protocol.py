"""One line in, one answer out (interface.md section 5).

Rules: words are split as a shell splits them; `json` before the command asks for a JSON document; the answer ends with
the stream. Whatever comes in, something readable goes out.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from mta.control.commands import usage
from mta.control.errors import CommandError
from mta.control.render import render


@dataclass(frozen=True, slots=True)
class Request:
    """`words` without the prefix `json`."""

    words: tuple[str, ...]
    as_json: bool


def parse_request(line: bytes) -> Request:
    """Raises `CommandError` (64); what `wants_json` says of the same line tells in which form."""
    try:
        words = shlex.split(line.decode("utf-8").strip())
    except UnicodeDecodeError:
        raise usage("expected UTF-8") from None
    except ValueError as error:
        raise usage(f"the line can't be split into words: {str(error).lower()}") from None
    as_json = words[:1] == ["json"]
    return Request(tuple(words[1:] if as_json else words), as_json)


def wants_json(line: bytes) -> bool:
    return line.split(maxsplit=1)[:1] == [b"json"]


def encode_answer(command: str, document: Mapping[str, object], as_json: bool) -> bytes:
    if as_json:
        return msgspec.json.encode(document) + b"\n"
    return render(command, document).encode("utf-8", "backslashreplace")


def encode_error(error: CommandError, as_json: bool) -> bytes:
    if as_json:
        return msgspec.json.encode({"error": {"code": int(error.code), "message": error.message}}) + b"\n"
    return f"error: {error.message}\n".encode("utf-8", "backslashreplace")
