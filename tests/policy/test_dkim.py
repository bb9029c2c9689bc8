"""Canonical forms and signatures, against the known values of the standards and against dkimpy."""

import re
from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from dkim.canonicalization import Relaxed
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.dkim.keys import read_key
from mta.policy import dkim
from mta.policy.dkim import BodyHash, Digest, Reading
from mta.policy.header import HeaderError
from tests.support.verifiers import by_dkimpy, key, published

KEYS = (key("example.com/2026"), key("example.com/2026rsa", "rsa"))
HEAD = b"From: Ann <ann@example.com>\r\nTo: bob@example.org\r\nSubject: hello\r\n"


def signed(message: bytes, step: int = 0, at: float = 1_700_000_000.5) -> bytes:
    """As it is sent: with its signatures in front, and a line end behind."""
    digest = read(message, step or len(message) or 1).finish()
    head = b""
    for one in KEYS:
        field = dkim.unsigned_field(digest, one.name, one.algorithm, at)
        head += dkim.signed_field(field, one.sign(dkim.signed_octets(digest, field)))
    return head + message + b"\r\n" * (not message.endswith(b"\r\n"))


def read(message: bytes, step: int) -> Reading:
    reading = Reading()
    for start in range(0, len(message), step):
        reading.feed(message[start : start + step])
    return reading


def body_hash(body: bytes, step: int = 1000) -> str:
    hashed = BodyHash()
    for start in range(0, len(body), step):
        hashed.feed(body[start : start + step])
    return b64encode(hashed.digest()).decode()


def tags(field: bytes) -> dict[str, str]:
    text = re.sub(r"\s", "", field.decode().partition(":")[2])
    return dict(tag.split("=", 1) for tag in text.split(";") if tag)


# ---------------------------------------------------------------- bodies
@pytest.mark.parametrize("body", [b"", b"\r\n", b"  \r\n", b" \t", b"\r\n" * 9, b"\t\r\n \r\n"])
def test_b41_a_body_of_nothing_has_the_hash_of_nothing(body: bytes) -> None:
    """RFC 6376 section 3.4.4."""
    assert body_hash(body) == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def test_rfc_8463_appendix_a() -> None:
    body = b"Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n"
    assert body_hash(body) == "2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8="


def test_nbr04_rfc_8463_appendix_a_is_signed_as_it_is_there() -> None:
    name = b"From: Joe SixPack <joe@football.example.com>\r\n"
    other = (
        b"To: Suzie Q <suzie@shopping.example.net>\r\nSubject: Is dinner ready?\r\n"
        b"Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\nMessage-ID: <20030712040037.46341.5F8J@football.example.com>\r\n"
    )
    covered = re.sub(rb"(?m)^([\w-]+): ", lambda match: match[1].lower() + b":", name + other)
    field = (
        b"DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n"
        b" q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n subject : date : message-id : from : subject : date;\r\n"
        b" bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b="
    )
    private = Ed25519PrivateKey.from_private_bytes(b64decode("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="))
    file = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    known = read_key("football.example.com/brisbane", file)
    assert known.public == "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    signature = known.sign(dkim.signed_octets(Digest((), covered, ""), field))
    assert b64encode(signature).decode() == (
        "/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw=="
    )


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "body",
    [
        b"hello", b"hello\r\n\r\n\r\n", b"Hello!\r\n  \r\n\r\n", b"one\r\ntwo\r\n", b".dot\r\n",
        b" a \t b\t\r\n\r\n\r\n c  ", b"\r\n\r\nlate\r\n", b"x \r\n\t\r\n y\r\n \r\n\r\n",
    ],
)  # fmt: skip
def test_b41_bodies_however_they_are_cut(body: bytes, step: int) -> None:
    whole = Relaxed.canonicalize_body(body)
    expected = whole if not whole or whole.endswith(b"\r\n") else whole + b"\r\n"
    hashed = BodyHash()
    hashed.feed(expected)
    assert body_hash(body, step) == b64encode(hashed.digest()).decode()
    assert by_dkimpy(signed(HEAD + b"\r\n" + body, step), published(*KEYS)) == [True, True]


def test_a_great_many_line_ends_are_counted_not_kept() -> None:
    body = b"a\r\n" + b"\r\n" * 1_000_000 + b"b\r\n"
    assert body_hash(body, 65536) == body_hash(body, len(body))


# ---------------------------------------------------------------- what is signed
def test_nbr02_nbr05_each_field_is_listed_once_more_than_it_is_there() -> None:
    fields = (
        b"Received: from a\r\n\tby b\r\nReturn-Path: <x@y.example>\r\nX-Other: 1\r\n" + HEAD + b"to: carl@example.org\r\n"
        b"List-Unsubscribe: <https://u.example/1>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
        b"List-Id: <l.example>\r\n"
    )
    message = signed(fields + b"\r\nbody\r\n")
    found = tags(message.partition(b"\r\nDKIM-Signature")[0])
    names = found["h"].split(":")
    counts = {name: names.count(name) for name in names}
    twice = {"from", "subject", "list-unsubscribe", "list-unsubscribe-post", "list-id"}
    assert set(counts) == set(dkim.SIGNED)
    assert {name for name, count in counts.items() if count == 2} == twice and counts["to"] == 3
    assert {name for name, count in counts.items() if count == 1} == set(dkim.SIGNED) - twice - {"to"}
    assert found.keys() == {"v", "a", "c", "d", "s", "t", "h", "bh", "b"}  # no l=
    assert by_dkimpy(message, published(*KEYS)) == [True, True]


@pytest.mark.parametrize("more", [b"From: e@x.example\r\n", b"Subject: x\r\n", b"Cc: e@x.example\r\n", b"List-Id: <x>\r\n"])
def test_nbr02_a_field_that_is_added_later_breaks_the_signature(more: bytes) -> None:
    message = signed(HEAD + b"\r\nbody\r\n")
    assert by_dkimpy(message, published(*KEYS)) == [True, True]
    broken = message.replace(b"From: Ann", more + b"From: Ann")
    assert by_dkimpy(broken, published(*KEYS)) == [False, False]


def test_nbr03_nbr04_both_algorithms_and_the_time_of_acceptance() -> None:
    first, second = signed(HEAD + b"\r\nbody\r\n").split(b"DKIM-Signature:")[1:]
    one, two = tags(b"x:" + first), tags(b"x:" + second.partition(b"\r\nFrom:")[0])
    assert (one["a"], one["d"], one["s"], one["t"]) == ("ed25519-sha256", "example.com", "2026", "1700000000")
    assert (two["a"], two["s"], two["c"]) == ("rsa-sha256", "2026rsa", "relaxed/relaxed")
    assert len(b64decode(KEYS[0].public)) == 32 and len(KEYS[0].public) == 44


def test_lines_of_a_signature_are_short_however_many_fields_there_are() -> None:
    head = HEAD + b"".join(b"To: %d@example.org\r\n" % n for n in range(500))
    message = signed(head + b"\r\nbody\r\n")
    field = message.partition(b"\r\nFrom:")[0]
    assert max(map(len, field.split(b"\r\n"))) <= 78
    assert by_dkimpy(message, published(*KEYS)) == [True, True]


def test_a_signature_is_the_same_each_time() -> None:
    message = HEAD + b"\r\nbody\r\n" * 100
    assert signed(message) == signed(message, 17) != signed(message, at=1_700_000_001)


def test_a_header_section_without_end_is_not_kept() -> None:
    reading = Reading()
    reading.feed(b"x" * (dkim.HEAD_LIMIT - 1))
    with pytest.raises(HeaderError):
        reading.feed(b"xx")


# ---------------------------------------------------------------- anything
_TEXT = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=40).map(lambda it: it.encode("latin-1"))
_BLANKS = st.text(" \t", min_size=1, max_size=4).map(str.encode)
_LINE = st.lists(_TEXT | _BLANKS, max_size=4).map(b"".join)
_BODY = st.lists(_LINE, max_size=8).map(b"\r\n".join)
_WORD = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30).map(str.encode)
_FOLD = st.sampled_from([b" ", b"  ", b"\t", b" \t ", b"\r\n ", b"\r\n\t", b" \r\n  "])
_VALUE = st.lists(st.tuples(_FOLD, _WORD), max_size=6).map(lambda pairs: b"".join(a + b for a, b in pairs))
_NAME = st.sampled_from([b"From", b"to", b"SUBJECT", b"Cc", b"X-Other", b"List-Unsubscribe", b"Content-Type", b"Received"])
_FIELDS = st.lists(st.tuples(_NAME, _VALUE), min_size=1, max_size=12)


@settings(max_examples=300, deadline=None)
@given(_FIELDS, _BODY, st.integers(1, 64))
def test_dkimpy_verifies_whatever_is_signed(fields: list[tuple[bytes, bytes]], body: bytes, step: int) -> None:
    """It wants a From."""
    head = b"From: a@example.com\r\n" + b"".join(name + b":" + value + b"\r\n" for name, value in fields)
    assert by_dkimpy(signed(head + b"\r\n" + body, step), published(*KEYS)) == [True, True]
