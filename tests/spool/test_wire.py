"""What goes between the daemon and the spool's process: frames however the stream is split, errors, the verbs."""

import errno
import inspect
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.spool import base
from mta.spool.process import wire
from mta.spool.process.client import RemoteSpool
from mta.spool.sqlite import SqliteSpool

LARGE = 30 * 2**20


def taken(pieces: list[bytes]) -> list[tuple[int, int, bytes]]:
    found: list[tuple[int, int, bytes]] = []
    frames = wire.Frames(lambda number, what, octets: found.append((number, what, bytes(octets))))
    for piece in pieces:
        frames.feed(piece)
    return found


def told(sent: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    return [(number, what, wire._encode(value)) for number, what, value in sent]


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(0, 400), max_size=20),
)
def test_frames_come_out_as_they_went_in_however_the_stream_is_split(
    sent: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(wire.frame(*frame) for frame in sent)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert taken([stream[a:b] for a, b in itertools.pairwise(places) if a < b]) == told(sent)


@pytest.mark.parametrize("piece", [65_536, 262_144, LARGE * 2])
def test_a_large_frame_comes_whole_and_the_next_one_too(piece: int) -> None:
    sent = [(1, 0, b"x" * LARGE), (2, 0, b"y"), (3, 0, b"z" * 70_000)]
    stream = b"".join(wire.frame(*frame) for frame in sent)
    assert taken([stream[at : at + piece] for at in range(0, len(stream), piece)]) == told(sent)


@pytest.mark.parametrize("error", [
    base.SpoolFull("no space"), base.SpoolRefusal("no such message: \udcff"), base.ContentGone(""), base.SpoolBusy("12")
])  # fmt: skip
def test_an_error_comes_out_as_the_same_whatever_its_text(error: Exception) -> None:
    came = wire.raised(memoryview(wire._encode(wire.told(error))))
    assert type(came) is type(error)
    assert str(came) == str(error).encode("utf-8", "backslashreplace").decode()


def test_an_error_of_the_file_system_keeps_its_number_by_which_a_person_is_told_what_to_do() -> None:
    came = wire.raised(memoryview(wire._encode(wire.told(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/x")))))
    assert isinstance(came, OSError)
    assert (came.errno, came.strerror) == (errno.ENOENT, "No such file or directory")


def test_an_error_that_is_no_spools_is_one_of_the_spools() -> None:
    came = wire.raised(memoryview(wire._encode(wire.told(KeyError("x")))))
    assert type(came) is base.SpoolError
    assert "KeyError('x')" in str(came)


def test_a_path_that_is_no_unicode_comes_through() -> None:
    verb = wire.VERB["backup"]
    path = Path(os.fsdecode(b"/tmp/\xff"))
    assert verb.arguments.decode(wire.call(1, verb, (path, 1.0))[9:]) == (path, 1.0)


@pytest.mark.parametrize("name", sorted({verb.name for verb in wire.VERBS} - {"open", "close", "first_chunk", "chunk"}))
def test_every_verb_is_asked_for_as_the_spool_itself_is(name: str) -> None:
    """With the arguments in the order of the protocol, by which alone they go over the wire."""
    protocol, spool, remote = (inspect.signature(getattr(it, name)) for it in (base.Spool, SqliteSpool, RemoteSpool))
    assert remote == spool == protocol
