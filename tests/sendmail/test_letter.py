"""From standard input to lines that end with CRLF, and to the wire."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.sendmail.letter import read_letter
from mta.sendmail.smtp import stuffed


def octets(data: bytes, *, dot_ends: bool = True) -> bytes:
    return b"".join(read_letter(io.BytesIO(data), dot_ends=dot_ends).rest(0))


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        (b"a\nb\n", b"a\r\nb\r\n"),
        (b"a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"a\nb\r\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\rb\n", b"a\rb\r\n"),
        (b"a\r\r\n", b"a\r\r\n"),
        (b"\n\n", b"\r\n\r\n"),
        (b"", b""),
        (b"\0\xff\n", b"\0\xff\r\n"),
        (b"a\n.\nb\n", b"a\r\n"),
        (b"a\r\n.\r\nb\n", b"a\r\n"),
        (b".\n", b""),
        (b"..\n.a\na.\n.", b"..\r\n.a\r\na.\r\n.\r\n"),
        (b"From ann Mon Nov 30\n>From b\nSubject: x\n\nFrom here\n", b"Subject: x\r\n\r\nFrom here\r\n"),
        (b"x" * 65535 + b"\r\ny", b"x" * 65535 + b"\r\ny\r\n"),
        (b"x" * 65536 + b"\ny", b"x" * 65536 + b"\r\ny\r\n"),
        (b"x" * 65536 + b".\ny\n", b"x" * 65536 + b".\r\ny\r\n"),
    ],
)
def test_line_ends_and_the_lone_dot(given_: bytes, kept: bytes) -> None:
    assert octets(given_) == kept


def test_with_i_a_lone_dot_is_content() -> None:
    assert octets(b"a\n.\nb\n", dot_ends=False) == b"a\r\n.\r\nb\r\n"


def test_eight_bit_and_size_are_what_it_is() -> None:
    letter = read_letter(io.BytesIO("grüße\n".encode()), dot_ends=True)
    assert (letter.size, letter.eight_bit) == (9, True)
    assert not read_letter(io.BytesIO(b"a\n"), dot_ends=True).eight_bit


@given(st.lists(st.text("a.\r\n", max_size=6).map(str.encode), max_size=8))
def test_dots_are_stuffed_wherever_the_pieces_are_cut(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = (b"\r\n" + whole).replace(b"\r\n.", b"\r\n..")[2:]
    assert b"".join(stuffed(pieces)) == expected
