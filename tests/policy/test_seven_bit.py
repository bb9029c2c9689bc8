"""8-bit messages made 7-bit, however they go by (B37; RFC 6152 section 3)."""

import email
import email.policy
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.policy.outline import Unencodable
from mta.policy.parts import LONGEST_LINE
from mta.policy.seven_bit import Rewriter, Survey, seven_bit

HEAD = b"From: a@b.test\r\nMIME-Version: 1.0\r\n"
TEXT = b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
PARTED = HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
MIXED = (
    HEAD + b"Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n\r\nbefore\r\n--b\r\n" + TEXT
    + "Grüße, eine Zeile\r\n-- \r\nmit Strich\r\n".encode() + b"--b \t\r\nContent-Type: application/pdf\r\n\r\n%PDF\xff\xfe"
    + b"\xf0" * 100 + b"\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inside\r\n" + TEXT + "ö\r\n".encode()
    + b"--b\r\n\r\nplain = \r\n--bx\r\n--b--\r\nbehind\r\n"
)  # fmt: skip
SEALED = (
    HEAD + b"Content-Type: multipart/signed; protocol=x; boundary=s\r\n\r\n--s\r\n" + TEXT + b"%s--s\r\n"
    b"Content-Type: application/x\r\n\r\nsignature\r\n--s--\r\n"
)  # fmt: skip


def cut(message: bytes, places: list[int]) -> bytes:
    """Converted as it comes in pieces."""
    ends = [*sorted({place % (len(message) + 1) for place in places}), len(message)]
    pieces = [message[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    survey = Survey()
    for piece in pieces:
        survey.feed(piece)
    rewriter = Rewriter(survey.finish())
    return b"".join([*map(rewriter.feed, pieces), rewriter.finish()])


def parsed(octets: bytes) -> EmailMessage:
    message = email.message_from_bytes(octets, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert not [defect for part in message.walk() for defect in part.defects]
    return message


def payloads(octets: bytes) -> list[object]:
    return [part.get_payload(decode=True) for part in parsed(octets).walk() if not part.is_multipart()]


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_b37_what_is_written_does_not_depend_on_how_the_message_is_cut(places: list[int]) -> None:
    assert cut(MIXED, places) == seven_bit(MIXED)


def test_b37_every_octet_can_be_decoded_again() -> None:
    converted = cut(MIXED, list(range(len(MIXED))))
    assert converted.isascii()
    assert payloads(converted) == payloads(MIXED)
    assert converted.endswith(b"\r\n--b\r\n\r\nplain = \r\n--bx\r\n--b--\r\nbehind\r\n"), "what is 7-bit keeps its octets"


BODY = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=120), min_size=1, max_size=8)


@given(BODY, st.lists(st.integers(0, 10_000), max_size=8))
def test_b37_any_text_can_be_decoded_again_and_its_lines_are_short(lines: list[str], places: list[int]) -> None:
    body = "".join(f"{line}\r\n" for line in lines).encode()
    converted = cut(HEAD + TEXT + body, places)
    assert converted.isascii() and payloads(converted) == [body]
    assert body.isascii() or all(len(line) <= 76 for line in converted.partition(b"\r\n\r\n")[2].split(b"\r\n"))


def test_b37_no_line_end_that_is_added_makes_a_boundary() -> None:
    """What stood in the midst of a line stays text."""
    lines = b"".join(b"x" * length + b"--b\r\n" for length in range(60, 90))
    message = PARTED + b"--b\r\n" + TEXT + "ö\r\n".encode() + lines + b"--b--\r\n"
    assert payloads(seven_bit(message)) == payloads(message)


@pytest.mark.parametrize(
    ("message", "obstacle"),
    [
        (SEALED % b"caf\xe9\r\n", "signed or encrypted"),
        ((SEALED % b"caf\xe9\r\n").replace(b"multipart/signed", b"multipart/encrypted"), "signed or encrypted"),
        (HEAD + b"X: \xe9\r\n\r\nx\r\n", "header section"),
        (PARTED + b"d\xe9j\xe0\r\n--b\r\n\r\nx\r\n--b--\r\n", "outside the parts"),
        (HEAD + b"Content-Transfer-Encoding: base64\r\n\r\n\xe9\r\n", "an encoding already"),
        (HEAD + b"Content-Type: message/delivery-status\r\n\r\n\xe9\r\n", "message/delivery-status"),
        (HEAD + b"Content-Type: multipart/mixed\r\n\r\n\xe9\r\n", "without a boundary"),
        (HEAD + b"\r\n" + b"\xe9" * 3 * LONGEST_LINE + b"\r\n", "a line of"),
        (HEAD + (b"X: y\r\n" * 200_000), "a header section of"),
    ],
)  # fmt: skip
def test_b37_what_can_not_be_converted_says_why(message: bytes, obstacle: str) -> None:
    with pytest.raises(Unencodable, match=obstacle):
        cut(message, list(range(0, len(message), 65536)))


def test_b37_what_is_signed_and_7_bit_keeps_its_octets_beside_what_is_not() -> None:
    """RFC 1847 section 2.1."""
    inner = (SEALED % b"cafe\r\n").removeprefix(HEAD)
    message = HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" + TEXT + b"caf\xe9 and more text\r\n--b\r\n"
    converted = seven_bit(message + inner + b"--b--\r\n")
    assert converted.isascii() and inner in converted
