"""What of a message goes back with a DSN (conformance DSN-10, B37)."""

import email
import email.policy
import sys
from collections.abc import Callable
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.policy.dsn_return import NOT_LEGAL, TOO_LARGE, TOO_LARGE_8_BIT, WHOLE_LIMIT, Returned, octets_needed, returned
from mta.policy.parts import DEPTH_LIMIT, PART_LIMIT
from mta.policy.seven_bit import SIZE_LIMIT

PLAIN = b"From: a@b.test\r\nSubject: x\r\n\r\n.first\r\n\r\nlast\r\n"
TEXT = (
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    b"Gr\xc3\xb6\xc3\x9fe, in a rather plain line\r\n"
)
MIME = b"From: a@b.test\r\nX-Folded: a;\r\n   b\r\nMIME-Version: 1.0\r\n"
MIXED = (
    MIME + b'Content-Type: multipart/mixed; boundary="=_b"\r\nContent-Transfer-Encoding: 8bit\r\n\r\nbefore\r\n--=_b\r\n'
    + TEXT + b"--=_b\r\nContent-Type: application/pdf\r\nContent-Transfer-Encoding: binary\r\n\r\n%PDF \xff\xfe\r\nx\r\n"
    b"--=_b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\nSubject: inside\r\n" + TEXT
    + b"--=_b\r\nContent-Type: text/plain\r\n\r\nplain = as it was\r\n--=_b--\r\nbehind\r\n"
)  # fmt: skip


def message_of(back: Returned) -> EmailMessage:
    assert back.whole and all(len(line) <= 998 for line in back.lines)
    octets = "".join(f"{line}\r\n" for line in back.lines).encode("ascii")
    parsed = email.message_from_bytes(octets, policy=email.policy.default)
    assert isinstance(parsed, EmailMessage)
    assert not [defect for part in parsed.walk() for defect in part.defects]
    return parsed


def encodings(message: EmailMessage) -> list[str]:
    return [str(part["Content-Transfer-Encoding"]) for part in message.walk()]


def test_dsn_10_an_ascii_message_goes_back_octet_for_octet():
    back = returned(PLAIN, whole=True)
    assert "".join(f"{line}\r\n" for line in back.lines).encode() == PLAIN
    assert (back.whole, back.withheld) == (True, "")


def test_dsn_10_without_ret_full_its_header_does():
    assert returned(PLAIN, whole=False) == Returned(("From: a@b.test", "Subject: x"))


def test_b37_an_8_bit_text_is_readable_in_7_bits():
    message = message_of(returned(MIME + TEXT, whole=True))
    assert message.get_content() == "Größe, in a rather plain line\r\n"
    assert encodings(message) == ["quoted-printable"]
    assert message["X-Folded"] == "a;   b"


def test_b37_a_text_of_another_script_becomes_base64():
    text = ("Здравствуйте! " * 20).encode()
    message = message_of(returned(MIME + TEXT[: TEXT.index(b"Gr")] + text + b"\r\n", whole=True))
    assert message.get_content().encode().strip() == text.strip()
    assert encodings(message) == ["base64"]


def test_b37_each_part_is_encoded_for_itself():
    """RFC 2045 section 6.4: no composite part keeps a label of 8 bits, and what is 7-bit stays as it is."""
    message = message_of(returned(MIXED, whole=True))
    assert encodings(message) == ["7bit", "quoted-printable", "base64", "7bit", "quoted-printable", "None"]
    text, pdf, inner, plain = message.iter_parts()
    assert text.get_content() == "Größe, in a rather plain line"
    assert pdf.get_content() == b"%PDF \xff\xfe\r\nx"
    assert inner.get_content()["Subject"] == "inside"
    assert plain.get_content() == "plain = as it was"


def test_b37_a_long_line_is_cut_by_soft_line_ends():
    text = "ö " + "and more " * 40
    last = MIME + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" + TEXT[: TEXT.index(b"Gr")] + text.encode()
    [part] = message_of(returned(last + b"\r\n--b--\r\n", whole=True)).iter_parts()
    assert part.get_content() == text


def test_b37_what_has_no_type_says_that_nobody_knows_it():
    message = message_of(returned(b"From: a@b.test\r\n\r\nGr\xf6\xdfe, in a rather plain line\r\n", whole=True))
    assert (message["MIME-Version"], message.get_content_charset()) == ("1.0", "unknown-8bit")
    assert message.get_payload(decode=True) == b"Gr\xf6\xdfe, in a rather plain line\r\n"


@pytest.mark.parametrize(
    "message",
    [
        MIXED.replace(b"boundary", b"bound"),
        MIXED.replace(b"boundary", b"boundary*" + b"9" * 5000),
        MIXED.replace(b'boundary="', b"boundary*=\"punycode''"),
        b"From: a@b.test\r\n\r\n" + b"y" * 999 + b"\r\n",
        b"From: a@b.test\r\n\r\na\0b\r\n",
        "From: a@b.test\r\nSubject: größer\r\n\r\nx\r\n".encode(),
    ],
    ids=["no boundary", "a long number", "a charset", "a long line", "NUL", "an 8-bit header"],
)
def test_b37_what_cannot_be_made_legal_is_not_returned_whole(message: bytes):
    back = returned(message, whole=True)
    assert (back.whole, back.withheld) == (False, NOT_LEGAL)
    assert back.lines[0] == "From: a@b.test"


def test_dsn_10_beyond_the_limit_only_the_header_goes_back():
    full = PLAIN + b"y\r\n" * ((WHOLE_LIMIT - len(PLAIN)) // 3)
    assert returned(full, whole=True).whole
    back = returned((full + b"more\r\n")[: octets_needed(True)], whole=True)
    assert (back.whole, back.withheld, len(back.lines)) == (False, TOO_LARGE, 2)


def test_what_is_not_stored_any_more_is_not_withheld():
    assert returned(b"", whole=True) == Returned()


def nested(levels: int) -> bytes:
    """An 8-bit text in so many multiparts, one in the other."""
    frames = (f"Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n".encode() for level in range(levels))
    return MIME + b"".join(frames) + TEXT


FORWARDED = b"Content-Type: message/rfc822\r\n\r\n"
PARTED = MIME + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"


def test_dsn_10_what_is_nested_goes_back_as_deep_as_anybody_writes():
    for message in (nested(DEPTH_LIMIT), MIME + FORWARDED * DEPTH_LIMIT + TEXT):
        back = returned(message, whole=True)
        assert back.whole and back.lines[-1] == "Gr=C3=B6=C3=9Fe, in a rather plain line"


@pytest.mark.parametrize(
    "message",
    [
        nested(DEPTH_LIMIT + 1),
        nested(300),
        nested(4000),
        MIME + FORWARDED * 8000 + TEXT,
        PARTED + b"--b\r\n\r\n" * 30_000 + TEXT,
    ],
    ids=["one level too many", "300 levels", "4000 levels", "8000 forwardings", "30,000 parts"],
)
def test_dsn_10_what_no_program_writes_is_not_returned_whole(message: bytes):
    back = returned(message, whole=True)
    assert (back.whole, back.withheld, back.lines[0]) == (False, NOT_LEGAL, "From: a@b.test")


def test_dsn_10_a_large_message_goes_back_if_it_is_7_bit_already():
    large = (MIME + TEXT).replace(b"Gr\xc3\xb6\xc3\x9fe", b"Size") + b"y\r\n" * (SIZE_LIMIT // 3)
    assert returned(large, whole=True).whole
    back = returned(large + b"\xff\r\n", whole=True)
    assert (back.whole, back.withheld, back.lines[0]) == (False, TOO_LARGE_8_BIT, "From: a@b.test")


def steps(work: Callable[[], object]) -> int:
    """How many calls it makes."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


HOSTILE = {
    "empty lines": nested(DEPTH_LIMIT) + b"\r\n" * 100_000,
    "short lines": MIME + TEXT + "ö\r\n".encode() * 50_000,
    "what looks like boundaries": nested(DEPTH_LIMIT) + b"--\r\n" * 50_000,
    "boundaries": nested(DEPTH_LIMIT) + b"--b19\r\n\r\n" * (PART_LIMIT - DEPTH_LIMIT - 1) + b"--b19--\r\n" * 20_000,
    "fields": nested(DEPTH_LIMIT) + b"--b19\r\n" + b"a:\r\n" * 40_000 + b"\r\n",
    "words of a field": nested(1) + b"--b0\r\nX: a" + b" a" * 100_000 + b"\r\n\r\n",
    "parameters": PARTED + b'--b\r\nContent-Type: multipart/mixed; x="' + b";" * 200_000 + b"\r\n\r\n" + TEXT,
    "statuses": PARTED + b"--b\r\nContent-Type: message/delivery-status\r\n\r\n" + b"\r\n" * 100_000 + b"\xff",
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
def test_dsn_10_the_work_for_one_message_is_bounded(message: bytes):
    """It is done in one go while all sessions wait: no more than a few calls for each line."""
    assert len(message) <= SIZE_LIMIT
    assert steps(lambda: returned(message, whole=True)) < 250_000


@given(st.binary(max_size=400), st.sampled_from([b"", MIME, MIXED, MIME + TEXT]))
def test_no_message_raises_and_what_goes_back_is_legal(noise: bytes, start: bytes):
    back = returned(start + noise, whole=True)
    assert all(len(line) <= 998 and not {"\r", "\n", "\0"} & set(line) for line in back.lines)
    assert not back.whole or all(line.isascii() for line in back.lines)
