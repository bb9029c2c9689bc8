"""Reply parsing from octets: B07 (its parsing side), B11, B12."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.outcome import Phase, Seen
from mta.smtp.replies import LINE_LIMIT, Answer, ReplyParser, observation, parse_extensions


def parse(*chunks: bytes) -> list[Answer]:
    parser = ReplyParser()
    for chunk in chunks:
        parser.feed(chunk)
    return list(parser.answers)


def test_lines_of_one_reply_are_joined() -> None:
    """B07: repeated enhanced codes go, the text is one line."""
    octets = b"550-5.2.1 The mailbox is\r\n550-5.2.1 disabled: see\r\n550 5.2.1 https://example.org/help\r\n"
    reply = observation(Phase.RCPT, parse(octets)[0]).reply
    assert reply is not None
    assert (reply.code, reply.enhanced) == (550, "5.2.1")
    assert reply.text == "The mailbox is disabled: see https://example.org/help"


@pytest.mark.parametrize("octets", [b"250\r\n", b"250 \r\n", b"250-\r\n250\r\n", b"250\n", b"250-a\n250 b\n"])
def test_b12_a_code_alone_is_a_reply(octets: bytes) -> None:
    assert [(it.seen, it.code) for it in parse(octets)] == [(Seen.REPLY, 250)]


@pytest.mark.parametrize(
    "octets",
    [
        b"220-x\r\n521 5.7.1 blocked\r\n",
        b"\r\n250 ok\r\n",
        b"hello world\r\n",
        b"25 ok\r\n",
        b"+25 ok\r\n",
        b"999 ok\r\n",
        b"199 ok\r\n",
        b"150-x\r\n",
        b"250xok\r\n",
        b"250\tok\r\n",
        b"2500 ok\r\n",
        "２５０ ok\r\n".encode(),
        b"250 " + b"x" * 100_000 + b"\r\n",
        b"250-x\r\n" * 101,
        b"x" * 1_000_000,
        b"\0\0\0\0\r\n",
    ],
    ids=lambda octets: repr(octets[:24]),
)
def test_b12_the_zoo_is_malformed(octets: bytes) -> None:
    (answer,) = parse(octets, b"250 and this is not read\r\n")
    assert (answer.seen, answer.code) == (Seen.MALFORMED, None)


def test_b12_the_text_of_a_malformed_reply_is_kept() -> None:
    found = observation(Phase.BANNER, parse(b"220-x\r\n521 5.7.1 blocked\r\n")[0]).reply
    assert found is not None
    assert found.text == "malformed reply: 220-x 521 5.7.1 blocked"


def test_b12_memory_is_bounded() -> None:
    parser = ReplyParser()
    for _ in range(1000):
        parser.feed(b"x" * 1000)
    (answer,) = parser.answers
    assert sum(map(len, answer.lines)) < LINE_LIMIT + 100
    assert parser.fragment == ()


def test_longest_legal_reply() -> None:
    line = b"250-" + b"x" * (LINE_LIMIT - 4) + b"\r\n"
    (answer,) = parse(line * 99 + b"250 end\r\n")
    assert (answer.code, len(answer.lines)) == (250, 100)


def test_b11_text_that_is_not_ascii() -> None:
    reply = observation(Phase.RCPT, parse(b"550 black ip \xb7\xa2\x1b[2J\0\r\n")[0]).reply
    assert reply is not None
    assert (reply.code, reply.text) == (550, "black ip \\xb7\\xa2\\x1b[2J\\x00")


TEXTS = st.binary(max_size=20).map(lambda it: it.replace(b"\n", b"").rstrip(b"\r"))
REPLIES = st.lists(st.tuples(st.integers(200, 599), st.lists(TEXTS, min_size=1)), max_size=4)


def _wire(code: int, lines: list[bytes]) -> bytes:
    last = len(lines) - 1
    return b"".join(b"%d%s%s\r\n" % (code, b" " if it == last else b"-", line) for it, line in enumerate(lines))


@given(REPLIES, st.data())
def test_replies_do_not_depend_on_how_they_arrive(replies: list[tuple[int, list[bytes]]], data: st.DataObject) -> None:
    octets = b"".join(_wire(code, lines) for code, lines in replies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=8)))
    chunks = [octets[start:end] for start, end in zip([0, *cuts], [*cuts, len(octets)], strict=True)]
    assert [(it.code, list(it.lines)) for it in parse(*chunks)] == replies


@given(st.lists(st.binary(max_size=300)))
def test_nothing_that_arrives_raises(chunks: list[bytes]) -> None:
    for answer in parse(*chunks):
        observation(Phase.MAIL, answer)
        parse_extensions(answer)


def test_extensions() -> None:
    octets = b"250-mx.example hello\r\n250-size 1000\r\n250-AUTH=LOGIN\r\n250-AUTH PLAIN\r\n250-\xff\r\n250 8BITMIME \r\n"
    assert parse_extensions(parse(octets)[0]) == {"SIZE": "1000", "AUTH": "LOGIN", "8BITMIME": ""}


@pytest.mark.parametrize("octets", [b"251-x\r\n251 SIZE\r\n", b"550-x\r\n550 SIZE\r\n", b"250 SIZE\r\n"])
def test_no_extensions(octets: bytes) -> None:
    """Other 2yz codes go on without extensions; the first line is the server's name."""
    assert parse_extensions(parse(octets)[0]) == {}
