"""How a call of a verb, its answer and a ring are written.

Rules: a frame is a head (octets of the value, number of the call, what it is) and a value in msgpack, whose type is what the
verb's own annotations say. Both ends are one program, forked: there are no versions to be told apart.
"""

import inspect
import os
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec

from mta.model.envelope import MailClass
from mta.spool import base
from mta.spool.base import ContentBuffer, Spool
from mta.spool.sqlite import SqliteSpool

_HEAD = struct.Struct(">IIB")
"""Octets of the value, number of the call (0: none, it is a ring), a verb's number or an `Answer`."""


NUMBER = 4
"""Octets of a call's number."""


class Answer(IntEnum):
    """What comes back from the spool."""

    RESULT = 0
    ERROR = 1
    DELIVERY = 2
    DEADLINES = 3
    NOTICES = 4


class Content(msgspec.Struct, frozen=True):
    """A message's content: all of it, or (`in_file`) what `SpillBuffer.adopt` takes, and the file's descriptor comes beside
    the call, with its number."""

    prefix: bytes
    skipped: int = 0
    length: int = 0
    in_file: bool = False


class Opening(msgspec.Struct, frozen=True):
    """As `spool.sqlite.open_sqlite` is given it."""

    path: Path
    doubts: base.DoubtPolicy
    now: float
    min_free: int
    by_sender: bool


class Verb(NamedTuple):
    name: str
    number: int
    arguments: "msgspec.msgpack.Decoder[tuple[Any, ...]]"
    result: "msgspec.msgpack.Decoder[Any]"


_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        base.SpoolError, base.ContentGone, base.SpoolFull, base.SpoolBusy, base.SpoolDamaged, base.SpoolRefusal, OSError,
    )
}  # fmt: skip


def _object(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(os.fsdecode(value))
    if kind is object:
        return value
    raise NotImplementedError(f"{kind} has no form on the wire")


def _plain(value: Any) -> object:
    return os.fsencode(value) if isinstance(value, Path) else list(value)


def _decoder(kind: Any) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(kind, dec_hook=_object)


def _on_the_wire(kind: Any) -> Any:
    if kind is ContentBuffer:
        return Content
    return Content | None if kind == ContentBuffer | None else kind


def _verbs() -> Iterator[Verb]:
    yield Verb("open", 0, _decoder(tuple[Opening]), _decoder(base.Recovered))
    verbs = [verb for verb in vars(Spool).values() if inspect.iscoroutinefunction(verb)]
    for number, verb in enumerate([*verbs, SqliteSpool.first_chunk, SqliteSpool.chunk], 1):
        hints = get_type_hints(verb)
        result = hints.pop("return")
        arguments = tuple[tuple(map(_on_the_wire, hints.values()))]  # type: ignore[misc, valid-type]  # made from values
        yield Verb(verb.__name__, number, _decoder(arguments), _decoder(result))


VERBS = tuple(_verbs())
VERB = {verb.name: verb for verb in VERBS}
DELIVERY = _decoder(tuple[str, float, MailClass])
_ERROR = _decoder(tuple[str, str, int | None])
_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def frame(number: int, what: int, value: object) -> bytes:
    octets = _encode(value)
    return _HEAD.pack(len(octets), number, what) + octets


def call(number: int, verb: Verb, arguments: tuple[Any, ...]) -> bytes:
    """Raises `SpoolError` for what can't be written: text that is no Unicode, integers beyond 64 bits."""
    try:
        return frame(number, verb.number, arguments)
    except (ValueError, OverflowError, TypeError) as error:
        raise base.SpoolError(f"the spool can't be asked for {verb.name}: {error!r}") from error


def told(error: Exception) -> tuple[str, str, int | None]:
    """What `raised` makes the same error of; what is not one of a spool's is our own fault, and a `SpoolError` there."""
    name, text, number = base.SpoolError.__name__, f"the spool failed inside: {error!r}", None
    for kind in type(error).__mro__:
        if kind.__name__ in _ERRORS:
            name, text = kind.__name__, str(error)
            break
    if isinstance(error, OSError) and error.errno is not None:
        text, number = error.strerror or "", error.errno
    return name, text.encode("utf-8", "backslashreplace").decode(), number


def raised(octets: memoryview) -> Exception:
    name, text, number = _ERROR.decode(octets)
    return _ERRORS[name](text) if number is None else OSError(number, text)


class Frames:
    """Octets in, frames out: `take` is given the number, what it is, and the value's octets (for that moment)."""

    def __init__(self, take: Callable[[int, int, memoryview], None]) -> None:
        self._take = take
        self._pieces: list[bytes] = []
        self._wanted = _HEAD.size

    def feed(self, data: bytes) -> None:
        if self._pieces or len(data) < self._wanted:  # a large frame comes in many pieces: joined once
            self._pieces.append(data)
            self._wanted -= len(data)
            if self._wanted > 0:
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
        start = 0
        with memoryview(data) as octets:
            while (size := self._size(octets, start)) <= len(octets) - start:
                _, number, what = _HEAD.unpack_from(octets, start)
                with octets[start + _HEAD.size : start + size] as value:
                    self._take(number, what, value)
                start += size
        self._wanted = size
        if start < len(data):
            self._pieces.append(data[start:])
            self._wanted -= len(data) - start

    @staticmethod
    def _size(octets: memoryview, start: int) -> int:
        """Of the frame that begins there, as far as one can tell."""
        if len(octets) - start < _HEAD.size:
            return _HEAD.size
        length: int = _HEAD.unpack_from(octets, start)[0]
        return _HEAD.size + length
