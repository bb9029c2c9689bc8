"""Messages with long lines made legal: what decodes them gets what was submitted."""

import quopri
from email import message_from_bytes
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mta.policy.long_lines import Rewriter, Survey, quoted_printable
from mta.policy.outline import Unencodable

LONG = b"<p>" + "grüße = ".encode() * 300 + b"</p>"
HEAD = b"From: a@b.test\r\nX-Odd: 1\r\n"


def encode(content: bytes, cuts: Any = (), *, utf8: bool = False) -> tuple[bytes, bool]:
    """What is written of `content`, fed in pieces, and whether that has 8-bit octets."""
    edges = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
    chunks = [content[start:end] for start, end in pairwise(edges)]
    survey = Survey(utf8=utf8)
    for chunk in chunks:
        survey.feed(chunk)
    survey.finish()
    rewriter = Rewriter(survey.parts, utf8=utf8)
    written = b"".join(map(rewriter.feed, chunks)) + rewriter.finish()
    return written, rewriter.eight_bit


def bodies(content: bytes) -> list[bytes]:
    """What each part decodes to."""
    parts = [part for part in message_from_bytes(content).walk() if not part.is_multipart()]
    return [bytes(part.get_payload(decode=True)) for part in parts]  # type: ignore[arg-type]


def is_legal(content: bytes) -> bool:
    return all(len(line) <= 998 for line in content.split(b"\r\n"))


cuts = st.lists(st.integers(0, 5000), max_size=8)


@given(cuts)
@example([len(HEAD) + 2, len(HEAD) + 3])
def test_lin15_a_simple_message(where: list[int]) -> None:
    body = b"first \r\n.dot\r\n" + LONG + b"\r\n\r\n" + "é".encode("latin-1") + b"\tlast\t\r\n"
    written, eight_bit = encode(HEAD + b"\r\n" + body, where)
    mime = b"MIME-Version: 1.0\r\nContent-Transfer-Encoding: quoted-printable\r\n"
    assert written.startswith(HEAD + mime + b"\r\nfirst=20\r\n.dot\r\n<p>gr")
    assert bodies(written) == [body]
    assert is_legal(written)
    assert max(map(len, written.split(b"\r\n"))) <= 76
    assert not eight_bit


def test_lin15_what_says_its_encoding_says_the_new_one_and_nothing_else_changes() -> None:
    fields = b"mime-version: 1.0\r\nContent-Type: text/html;\r\n\tcharset=utf-8\r\n"
    content = fields + b"content-transfer-encoding:\r\n 8BIT\r\nX: y\r\n\r\n" + LONG + b"\r\n"
    written, _ = encode(content)
    assert written.startswith(fields + b"X: y\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n")
    assert bodies(written) == [LONG + b"\r\n"]


MULTIPART = b"\r\n".join(
    [
        b"From: a@b.test",
        b'Content-Type: multipart/mixed; boundary="outer one"',
        b"MIME-Version: 1.0",
        b"",
        b"preamble",
        b"--outer one",
        b"Content-Type: multipart/alternative; boundary=in",
        b"",
        b"--in",
        b"",
        b"plain gr\xc3\xbc\xc3\x9fe",
        b"--in \t",
        b"Content-Type: text/html",
        b"",
        LONG + b"--outer one",
        b"--outer oneself",
        b"--in--",
        b"epilogue",
        b"--outer one",
        b"Content-Type: application/pdf",
        b"Content-Transfer-Encoding: base64",
        b"",
        b"AAAA",
        b"--outer one",
        b"Content-Type: application/json",
        b"",
        b"[" + b"1," * 1000 + b"]",
        b"",
        b"--outer one--",
        b"the end",
        b"",
    ]
)


@given(cuts)
def test_lin15_only_the_parts_with_long_lines_change(where: list[int]) -> None:
    written, eight_bit = encode(MULTIPART, where)
    assert bodies(written) == bodies(MULTIPART)
    assert len(bodies(written)) == 4
    assert is_legal(written)
    assert written.count(b"Content-Transfer-Encoding: quoted-printable\r\n\r\n") == 2
    assert written.startswith(MULTIPART[: MULTIPART.index(b"Content-Type: text/html")])
    assert eight_bit


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"DKIM-Signature: v=1\r\n\r\n", "signed"),
        (b"X-Odd : 1\r\nContent-Type : multipart/signed; boundary=x\r\n\r\n", "multipart/signed"),
        (b"Content-Type: multipart/signed; boundary=x\r\n\r\n--x\r\n\r\n", "multipart/signed"),
        (b"Content-Type: multipart/encrypted; boundary=x\r\n\r\n--x\r\n\r\n", "multipart/encrypted"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: multipart/signed\r\n\r\n", "signed"),
        (b"Content-Type: multipart/mixed\r\n\r\n", "without a boundary"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n", "outside the parts"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n--x--\r\n", "outside the parts"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n", "a header field"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\ntext\r\n\r\n", "empty line"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nX: \xff\r\n\r\n", "non-ASCII"),
        (b"a:\r\n" * 10_000 + b"\r\n", "more than 10000 fields"),
        (b"Content-Type: multipart/x; boundary=b" + b";\r\n " * 2000 + b"\r\n\r\n--b\r\n\r\n", "says at great length"),
        (b"Content-Type: text/plain\r\nContent-Type: text/html\r\n\r\n", "says twice"),
        (b"Content-Type: message/rfc822\r\n\r\n\r\n", "an attached message"),
        (b"Content-Transfer-Encoding: base64\r\n\r\n", "an encoding already"),
        (b"Content-Transfer-Encoding: quoted-printable\r\n\r\n", "an encoding already"),
        (b"Subject: ", "a header field"),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\n" * 1000, "more than 1000 parts"),
    ],
)
def test_lin15_what_can_t_be_encoded_is_not(head: bytes, why: str) -> None:
    for long in (b"x" * 999, b"x" * 200_000):
        with pytest.raises(Unencodable, match=why):
            encode(b"From: a@b.test\r\n" + head + long + b"\r\n", [1000, 50_000])


def nested(boundaries: list[str]) -> bytes:
    return b"".join(f'Content-Type: multipart/x; boundary="{it}"\r\n\r\n--{it}\r\n'.encode() for it in boundaries)


def test_lin15_multiparts_inside_each_other() -> None:
    deep = [f"b{depth}" for depth in range(21)]
    body = b"--\r\n" + LONG + b"\r\n"
    written, _ = encode(nested(deep[:20]) + b"\r\n" + body + b"\r\n--b19--\r\n--b7\r\n\r\nlast\r\n")
    assert bodies(written) == [body, b"last"]
    with pytest.raises(Unencodable, match="more than 20 multiparts inside each other"):
        encode(nested(deep) + b"\r\n" + body)


@pytest.mark.parametrize("inner", ["b", "b--"])
def test_lin15_of_two_boundaries_that_are_alike_the_inner_one_counts(inner: str) -> None:
    """In "--b--" the part goes on, or the inner multipart ends; the outer one does neither."""
    content = nested(["b", inner]) + b"\r\nfirst\r\n--b--\r\n"
    if inner == "b":
        with pytest.raises(Unencodable, match="outside the parts"):
            encode(content + LONG)
    else:
        written, _ = encode(content + b"\r\n" + LONG)
        assert written.startswith(content.removesuffix(b"\r\n") + b"\r\nContent-Transfer-Encoding: quoted-printable")


def test_smu_header_sections_in_utf8_stay_where_they_may_be() -> None:
    """RFC 6532 section 3: also those of parts."""
    head = "Subject: grüße\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Description: é\r\n".encode()
    written, _ = encode(head + b"\r\n" + LONG + b"\r\n--b--\r\n", utf8=True)
    assert written.startswith(head + b"Content-Transfer-Encoding: quoted-printable\r\n\r\n")
    assert bodies(written) == [LONG]
    with pytest.raises(Unencodable, match="not valid UTF-8"):
        encode(b"Subject: \xff\r\n\r\n" + LONG, utf8=True)


@given(st.binary(max_size=400).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b"-=")), st.integers(0, 400))
@example(b"=" * 200, 73)
@example(b"-" * 200, 72)
@example(b" " * 100, 100)
@example(b"", 0)
def test_quoted_printable_round_trips(line: bytes, cut: int) -> None:
    coded = quoted_printable(line[:cut], True, False) + quoted_printable(line[cut:], False, True)
    assert quopri.decodestring(coded) == line + b"\r\n"
    assert quopri.decodestring(quoted_printable(line, True, True)) == line + b"\r\n"
    for text in (coded, quoted_printable(line, True, True)):
        first, *others = text.split(b"\r\n")
        assert max(map(len, [first, *others])) <= 76
        assert not any(other.startswith(b"-") for other in others)


lines = st.sampled_from(
    [
        *(b"Content-Type: multipart/mixed; boundary=b", b"Content-Type: multipart/x; boundary*0*=utf-99'a'b"),
        *(b"Content-Type: text/plain; charset*=\xff", b"Content-Type: message/rfc822", b"Content-Type"),
        *(b"Content-Type:multipart/=?utf-8?q?x?=;boundary==?x?q?b?=", b'Content-Type: multipart/x; boundary="'),
        *(b"", b"--b", b"--b--", b"x", b"y" * 1200, b" -", b"-", b"\xe9"),
    ]
)


@given(st.lists(lines, max_size=12), cuts)
def test_no_message_breaks_it_and_what_is_written_is_legal(content: list[bytes], where: list[int]) -> None:
    whole = b"".join(line + b"\r\n" for line in content)
    try:
        written, _ = encode(whole, where)
    except Unencodable:
        return
    assert is_legal(written)
    assert bodies(written) == bodies(whole)
    if is_legal(whole):
        assert written == whole
