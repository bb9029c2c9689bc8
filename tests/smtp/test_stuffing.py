"""Dot transparency and line ends on the way out: LIN-05, LIN-21, LIN-23, B39."""

from collections.abc import AsyncIterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.smtp.outflow import REST, Outflow
from mta.smtp.stuffing import PIECE, DamagedContent, DotStuffer
from mta.smtp.wire import Wire

LINES = st.lists(st.sampled_from([b"", b".", b"..", b".a", b"a.", b"a", b"\t ", b"x" * 30, b"\xe9\0"]), max_size=8)


def stuff(*chunks: bytes) -> bytes:
    stuffer = DotStuffer()
    return b"".join(map(stuffer.stuff, chunks)) + stuffer.finish()


def unstuff(octets: bytes) -> bytes:
    lines = octets.split(b"\r\n")
    assert b"." not in lines, "the end mark in the midst"
    return b"\r\n".join(line[1:] if line.startswith(b".") else line for line in lines)


@given(LINES, st.booleans(), st.data())
def test_what_is_unstuffed_is_what_was_meant(lines: list[bytes], ended: bool, data: st.DataObject) -> None:
    """B39: at any chunking, with or without the last CRLF."""
    content = b"\r\n".join(lines) + (b"\r\n" if lines and ended else b"")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    chunks = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    meant = content if not content or content.endswith(b"\r\n") else content + b"\r\n"
    octets = stuff(*chunks)
    assert unstuff(octets) == meant
    assert octets == stuff(content)


@pytest.mark.parametrize("chunk", [b"a\nb", b"a\rb", b"\n", b"\r\r\n", b"\r\n\n", b"a\r\n.\n"])
def test_nothing_of_a_damaged_chunk_goes_out(chunk: bytes) -> None:
    with pytest.raises(DamagedContent):
        DotStuffer().stuff(b"sound\r\n" * 100_000 + chunk)


@pytest.mark.parametrize("chunks", [(b"a\r", b"b"), (b"a\r", b"\r\n"), (b"a", b"\n"), (b"a\r",)])
def test_damage_across_chunks(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(DamagedContent):
        stuff(*chunks)


class Pipe:
    """A `Wire` whose peer takes everything."""

    unsent = 0

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def news(self) -> None:
        pass

    async def drained(self, timeout: float) -> bool:
        return True


async def test_large_content_goes_out_in_pieces() -> None:
    """A peer that takes so much in a write's timeout is slow, not dead; but the dot's company is small."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b".line\r\n" * 20_000

    pipe = Pipe()
    rest = await Outflow(cast("Wire", pipe), 1).dotted(chunks())
    assert isinstance(rest, bytes)
    assert max(map(len, pipe.written)) <= PIECE
    assert len(rest) <= REST
    assert b"".join(pipe.written) + rest == b"..line\r\n" * 60_000
