"""Dot transparency and line ends on the way out: LIN-05, LIN-21, LIN-23, B39."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.smtp.stuffing import PIECE, DamagedContent, DotStuffer

LINES = st.lists(st.sampled_from([b"", b".", b"..", b".a", b"a.", b"a", b"\t ", b"x" * 30, b"\xe9\0"]), max_size=8)


def stuff(*chunks: bytes) -> bytes:
    stuffer = DotStuffer()
    return b"".join(piece for chunk in chunks for piece in stuffer.pieces(chunk)) + stuffer.finish()


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
        next(DotStuffer().pieces(b"sound\r\n" * 100_000 + chunk))


@pytest.mark.parametrize("chunks", [(b"a\r", b"b"), (b"a\r", b"\r\n"), (b"a", b"\n"), (b"a\r",)])
def test_damage_across_chunks(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(DamagedContent):
        stuff(*chunks)


def test_large_chunks_go_out_in_pieces() -> None:
    content = b".line\r\n" * 50_000
    pieces = list(DotStuffer().pieces(content))
    assert max(map(len, pieces)) < 2 * PIECE
    assert b"".join(pieces) == b"..line\r\n" * 50_000
