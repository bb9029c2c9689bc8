"""The way of content from the wire into the spool, octet by octet."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mta.listener.content import BARE_NEWLINE, LONG_LINE, NUL, ContentDecoder
from mta.policy.acceptance import TOO_LARGE
from tests.support.smtp_client import stuffed
from tests.support.submission import MemoryBuffer

LIMIT = 100_000


def decode(wire: bytes, cuts: Any = (), bare_newlines: Any = "normalize", limit: int = LIMIT) -> tuple[Any, bytes, bytes]:
    """(decoder, what was stored, what came behind the end) of `wire`, fed in pieces."""
    buffer = MemoryBuffer()
    decoder = ContentDecoder(buffer, limit, bare_newlines)
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    behind: bytes | None = None
    for start, end in pairwise(edges):
        if behind is not None:
            behind += wire[start:end]
        else:
            behind = decoder.feed(wire[start:end])
    assert behind is not None, "the end was not seen"
    return decoder, bytes(buffer.data), behind


def as_smtplib_sends(meant: bytes) -> bytes:
    """What Python's smtplib makes of bytes: a dot before each dot that follows a line feed, CRLF at the end."""
    quoted = re.sub(rb"(?m)^\.", b"..", meant)
    return quoted if quoted.endswith(b"\r\n") else quoted + b"\r\n"


def normalized(meant: bytes) -> bytes:
    return re.sub(rb"\r\n|\r|\n", b"\r\n", meant if meant.endswith(b"\r\n") else meant + b"\r\n")


pieces = st.lists(
    st.sampled_from([b"\r\n", b"\n", b"\r", b".", b"..", b"a", b" text", b"\xe9", b"\r\n.", b"\n.", b"\r\n.\n", b"\n.\r\n"]),
    max_size=14,
).map(b"".join)
cuts = st.lists(st.integers(0, 200), max_size=8)


@given(pieces, cuts)
@example(b"Subject: x\n\n.first\n..\nend", [])
@example(b"a\r\n.\r.\rb", [])
def test_b39_what_python_meant_is_what_is_stored(meant: bytes, cuts: list[int]) -> None:
    decoder, stored, behind = decode(as_smtplib_sends(meant) + b".\r\nNOOP\r\n", cuts)
    assert decoder.fault is None
    assert (stored, behind) == (normalized(meant), b"NOOP\r\n")


@given(pieces.map(normalized), cuts, st.sampled_from(["normalize", "reject"]))
def test_lin20_lin22_strict_content_round_trips(meant: bytes, cuts: list[int], bare_newlines: str) -> None:
    decoder, stored, behind = decode(stuffed(meant) + b".\r\nMAIL", cuts, bare_newlines)
    assert decoder.fault is None
    assert (stored, behind) == (meant, b"MAIL")


@given(pieces, cuts)
@example(b"hi\n.\r", [])
@example(b"\r\n.\r\r\n.\n", [8])
def test_lin02_only_crlf_dot_crlf_ends_any_octets_and_nothing_stored_can_smuggle(wire: bytes, cuts: list[int]) -> None:
    wire = (wire + b"\r\n.\r\n").removeprefix(b".\r\n")
    end = (b"\r\n" + wire).index(b"\r\n.\r\n") + 3
    _, stored, behind = decode(wire, cuts)
    assert behind == wire[end:]
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", stored)
    assert stored == decode(wire)[1]
    bare_dots = len(re.findall(rb"(?:\A|(?<=\r\n))\.(?:\r(?!\n)|\n)", wire[: end - 3]))
    assert len(re.findall(rb"(?m)^\.\r$", stored)) >= bare_dots, "a line that is a dot has vanished"


@pytest.mark.parametrize("mark", [b"\n.\r\n", b"\n.\n", b"\r\n.\n", b"\r.\r", b"\r\n.\r", b"\r\n\0.\r\n", b"\r.\r\n"])
@pytest.mark.parametrize("bare_newlines", ["normalize", "reject"])
def test_b03_lin02_nothing_else_ends_the_data(mark: bytes, bare_newlines: str) -> None:
    inner = b"MAIL FROM:<evil@example.com>\r\nDATA\r\n"
    wire = b"hi" + mark + inner + b".\r\n"
    decoder, stored, behind = decode(wire, bare_newlines=bare_newlines)
    assert behind == b""
    if b"\0" in mark:
        assert decoder.fault == NUL
    elif bare_newlines == "reject":
        assert decoder.fault == BARE_NEWLINE
        assert stored == b""
    else:
        assert decoder.fault is None
        assert stored == b"hi\r\n.\r\n" + inner


def test_a_dot_after_a_bare_lf_is_kept_for_clients_that_do_not_stuff_there() -> None:
    assert decode(b"a\n.b\n..c\r\n.\r\n")[1] == b"a\r\n.b\r\n.c\r\n"


def test_a_dot_after_a_bare_cr_was_stuffed_by_nobody() -> None:
    assert decode(b"a\r.b\r..c\r\n.\r\n")[1] == b"a\r\n.b\r\n..c\r\n"


def test_dat22_no_content_at_all() -> None:
    assert decode(b".\r\n")[1] == b""


@given(st.integers(0, 1100), cuts, st.booleans())
@example(998, [], True)
@example(999, [1002], False)
@example(3_000, [10, 1500], False)
def test_b40_lin14_lin15_lines_of_998_octets_are_the_longest(length: int, cuts: list[int], has_dot: bool) -> None:
    line = (b"." if has_dot else b"x") + b"x" * (length - 1) if length else b""
    meant = b"a: b\r\n\r\n" + line + b"\r\nlast\r\n"
    decoder, stored, _ = decode(stuffed(meant) + b".\r\n", cuts)
    if length <= 998:
        assert (decoder.fault, stored) == (None, meant)
    else:
        assert decoder.fault == LONG_LINE


@given(st.integers(1, 3), st.lists(st.integers(0, 50_000), max_size=5))
def test_b40_exactly_the_limit_is_taken(beyond: int, cuts: list[int]) -> None:
    """EXT-05: counted as sent, without stuffing."""
    meant = (b"." + b"x" * 97 + b"\r\n") * 300
    assert decode(stuffed(meant) + b".\r\n", cuts, limit=len(meant))[0].fault is None
    assert decode(stuffed(meant) + b".\r\n", cuts, limit=len(meant) - beyond)[0].fault == TOO_LARGE


@pytest.mark.parametrize("chunk", [b"x" * 4096, b"x" * 70 + b"\r\n", b"\r", b"\n", b"..\r\n"])
def test_b40_memory_is_bounded_while_too_much_is_drained(chunk: bytes) -> None:
    buffer = MemoryBuffer()
    decoder = ContentDecoder(buffer, 10_000, "normalize")
    for _ in range(24_000 // len(chunk) + 2):
        assert decoder.feed(chunk) is None
    assert decoder.fault == TOO_LARGE
    assert len(buffer.data) <= 10_000
    assert len(decoder._pending) < 8192
    assert decoder.feed(b"\r\n.\r\n") == b""


@given(st.lists(st.sampled_from([b"7 bit\r\n", b"caf\xc3\xa9\r\n", b"\n", b"x" * 50]), max_size=6), cuts)
def test_dat20_eight_bit_content_is_labelled(lines: list[bytes], cuts: list[int]) -> None:
    decoder, _, _ = decode(b"".join(lines) + b"\r\n.\r\n", cuts)
    assert decoder.eight_bit == (b"caf\xc3\xa9\r\n" in lines)


def test_a_buffer_that_fails_is_not_written_again_and_the_end_is_found() -> None:
    class Failing(MemoryBuffer):
        calls = 0

        def write(self, data: bytes) -> None:
            self.calls += 1
            raise MemoryError

    buffer = Failing()
    decoder = ContentDecoder(buffer, LIMIT, "normalize")
    assert decoder.feed(b"a\r\n" * 1000) is None
    assert decoder.feed(b"b\r\n" * 1000) is None
    assert decoder.feed(b".\r\nQUIT\r\n") == b"QUIT\r\n"
    assert isinstance(decoder.error, MemoryError)
    assert buffer.calls == 1
