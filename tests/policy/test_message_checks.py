"""What a header section must have, and what is said where it has not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.policy import header
from mta.policy.message_checks import flaw, loop, mailboxes

HOST = "mail.out.test"


def said(content: bytes) -> str:
    """The refusal, "" for a message that is as it should be."""
    reply = flaw(header.read_section(content, complete=True), content)
    return str(reply) if reply is not None else ""


@pytest.mark.parametrize(
    "content",
    [
        b"From: a@b.test\r\n",
        b"From: a@b.test\r\n\r\n",
        b"from :\r\n a@b.test\r\nTo: x\r\nto-day: y\r\n\r\nFrom: b\r\nFrom: c\r\n",
        b"From: root (Cron Daemon)\r\n\r\n",
        b"From: a@b.test, c@d.test\r\nSender: a@b.test\r\n\r\n",
        b"From: a@b.test\r\nDate:\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n\r\n",
        b"From: a@b.test\r\nMessage-ID: <>\r\nMessage-ID: <a@b.test>\r\n\r\n",
        b"From: a@b.test\r\nReceived: x\r\nReceived: y\r\nComments: 1\r\nComments: 2\r\nKeywords: 1\r\nKeywords: 2\r\n\r\n",
    ],
)
def test_hdr04_hdr05_good_header_sections(content: bytes) -> None:
    assert said(content) == ""


def test_dat09_resent_fields_and_mime_are_nobody_s_business() -> None:
    resent = b"Resent-To: a\r\nResent-To: b\r\nResent-From: a@b.test, c@d.test\r\nResent-Date: never\r\n"
    mime = b"Content-Type: multipart/mixed\r\nMIME-Version: 9\r\nContent-Type: x\r\nContent-Transfer-Encoding: moon\r\n"
    assert said(b"From: a@b.test\r\n" + resent + mime + b"\r\nx\r\n") == ""


@pytest.mark.parametrize("content", [b"", b"\r\nFrom: a@b.test\r\n", b"Subject: x\r\n\r\nx\r\n", b"From:\r\n \r\n\r\n"])
def test_hdr05_dat22_without_from(content: bytes) -> None:
    assert said(content) == "554 5.6.0 The From header field is missing: say who writes"


@pytest.mark.parametrize(
    "name",
    ["Date", "From", "Sender", "Reply-To", "To", "Cc", "Bcc", "Message-ID", "In-Reply-To", "References", "Subject"],
)
def test_hdr05_fields_that_stand_once(name: str) -> None:
    value = "<x@y.test>"
    fields = f"From: a@b.test\r\n{name.lower()}: {value}\r\nX: y\r\n{name.upper()} : {value}\r\n\r\n"
    fields = fields.removeprefix("From: a@b.test\r\n") if name == "From" else fields
    assert said(fields.encode()) == f"554 5.6.0 More than one {name} header field: send one"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"From shop Mon Jan  1 00:00:00 2024\r\nFrom: a@b.test\r\n\r\n", 'an mbox file ("From ...")'),
        (b">From shop Mon\r\nFrom: a@b.test\r\n\r\n", 'an mbox file ("From ...")'),
        (b"only text\r\n", "The first line is no header field"),
        (b" From: a@b.test\r\n\r\n", "The first line is no header field"),
        (b":\r\n", "The first line is no header field"),
        (b"From: a@b.test\r\nHello Ann\r\n\r\n", "Line 2 is no header field, and no empty line comes before it"),
        (b"From: a@b.test\r\n\tx\r\nTo: x\r\nEvil\x1b[2J\xff\r\n\r\n", "Line 4 is no header field"),
    ],
)
def test_dat23_a_line_that_is_no_field(content: bytes, text: str) -> None:
    assert said(content).startswith("554 5.6.0 ")
    assert text in said(content)
    assert said(content).isascii()
    assert said(content).isprintable()


def test_hdr04_two_authors_need_a_sender() -> None:
    assert said(b"From: a@b.test, c@d.test\r\n\r\n") == (
        "554 5.6.0 From names more than one mailbox: add a Sender header field that names the one who sends"
    )


@pytest.mark.parametrize(
    "one",
    [
        "a@b.test",
        "Ann <a@b.test>",
        "Doe, John <john@b.test>",
        '"Doe, John @ work" <john@b.test>',
        '"a,\\"b@c" <john@b.test>',
        "<@x.test,@y.test:a@b.test>",
        "a@b.test (or c@d.test, perhaps (or e@f.test))",
        "(x@y, z@w) a@b.test",
        '"a@c,d@e"@b.test',
        "=?utf-8?q?Doe,_John?= <john@b.test>",
        "Team: a@b.test, c@d.test;",
        "undisclosed-recipients:;",
        "a@b.test,",
        ",a@b.test,,",
        "root",
        "a@b.test (unclosed, c@d.test",
        'a@b.test "unclosed, c@d.test',
        "a@b.test), c@d.test",
        "<a@b.test, c@d.test",
        "a@b.test; c@d.test",
        "a@[IPv6:::1], b@c.test",
    ],
)
def test_hdr04_one_mailbox_or_doubt(one: str) -> None:
    assert mailboxes(one) == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a@b.test,c@d.test", 2),
        ("Ann <a@b.test>, Bob <c@d.test>", 2),
        ('"Doe, J" <a@b.test>, (x,y) c@d.test (z)', 2),
        ("a@b.test, Doe, John <c@d.test>, e@f.test", 3),
        ("a@[192.0.2.1], b@c.test", 2),
    ],
)
def test_hdr04_more_than_one_mailbox(text: str, count: int) -> None:
    assert mailboxes(text) == count


def test_hdr05_an_address_list_without_end_is_not_counted() -> None:
    assert mailboxes("a@b.test," * 1000) == 1000
    assert mailboxes("a@b.test," * 10_000) == 1


@given(st.text('ab@.,:;<>()[]"\\ \t', max_size=40))
def test_counting_mailboxes_never_fails(text: str) -> None:
    assert 1 <= mailboxes(text) <= text.count("@") + 1


# ---------------------------------------------------------------- loops
def hops(*names: str) -> header.Section:
    fields = "".join(f"Received: from x ([192.0.2.1])\r\n\tby {name} with ESMTP id x;\r\n\tdate\r\n" for name in names)
    return header.read_section(f"{fields}\r\n".encode(), complete=True)


def test_hdr19_b21_so_many_hops_are_a_loop() -> None:
    assert loop(hops(*["other.test"] * 99), HOST, 10) is None
    assert str(loop(hops(*["other.test"] * 100), HOST, 10)).startswith("554 5.4.6 Mail loop: 100 or more")


def test_hdr19_a_message_that_comes_back_to_this_host_is_a_loop() -> None:
    others = ["other.test", f"sub.{HOST}", f"{HOST}.other.test", "other.test (by mail.out.test)"]
    assert loop(hops(HOST, *others, HOST), HOST, 3) is None
    assert str(loop(hops(HOST, *others, "MAIL.out.test", HOST), HOST, 3)) == (
        "554 5.4.6 Mail loop: the message was here 3 times (Received fields by mail.out.test)"
    )
