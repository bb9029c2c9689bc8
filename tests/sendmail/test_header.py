"""What is read from, and added to, the header section."""

import pytest

from mta.control.errors import Exit
from mta.policy.header import FIELD_LIMIT, LIMIT, Section
from mta.sendmail.errors import NotTaken
from mta.sendmail.header import author, completed, has_author, read_head, recipients


def head(text: str) -> Section:
    return read_head(text.replace("\n", "\r\n").encode(), complete=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("To: a@x.org\nCC: b@x.org\nbcc:c@x.org\nReply-To: d@x.org\n\nTo: e@x.org\n", ["a@x.org", "b@x.org", "c@x.org"]),
        ("To: a@x.org\nTo : b@x.org,\n c@x.org\n\n", ["a@x.org", "b@x.org", "c@x.org"]),
        ("To: a@x.org\nResent-From: m@x.org\nResent-To: b@x.org\nResent-Bcc: c@x.org\n\n", ["b@x.org", "c@x.org"]),
        ("To: a@x.org\nResent-From: m@x.org\n\n", []),
        ("\nTo: a@x.org\n", []),
        ("Subject: x\n\nTo: a@x.org\n", []),
        ("To: a@x.org\nSubject: x\nhello\n", ["a@x.org"]),
        ("To: undisclosed-recipients:;\nBcc: a@x.org\n\n", ["a@x.org"]),
        ("", []),
    ],
)
def test_recipients_are_of_to_cc_and_bcc(text: str, expected: list[str]) -> None:
    assert list(recipients(head(text))) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("To: a@x.org, b@@x.org\n\n", 'To: "b@@x.org" is no address'),
        ("Resent-To: a@x.org\nReceived: x\nResent-To: b@x.org\n\n", "more than once"),
    ],
)
def test_what_can_t_be_read_for_sure_is_65(text: str, says: str) -> None:
    with pytest.raises(NotTaken, match=says) as caught:
        list(recipients(head(text)))
    assert caught.value.code is Exit.DATA


@pytest.mark.parametrize(
    "text",
    [
        "To: a@x.org\nbroken line\nBcc: b@x.org\n\nbody\n",
        "To: a@x.org\nSubject: x\rCc: b@x.org\n\nbody\n",
        "From: m@x.org\n-\nbcc : b@x.org\n",
    ],
)
def test_recipients_behind_a_broken_line_are_neither_lost_nor_shown(text: str) -> None:
    with pytest.raises(NotTaken, match="no header field stands before") as caught:
        head(text)
    assert caught.value.code is Exit.DATA


def test_a_header_without_an_end_is_65() -> None:
    with pytest.raises(NotTaken, match="longer than"):
        read_head(b"X: " + b"x" * LIMIT, complete=False)


def test_a_header_of_too_many_fields_is_65() -> None:
    with pytest.raises(NotTaken, match=f"can't be taken: The header section has more than {FIELD_LIMIT} fields") as caught:
        read_head(b"a:\r\n" * (FIELD_LIMIT + 1), complete=True)
    assert caught.value.code is Exit.DATA


def test_what_is_there_keeps_its_octets() -> None:
    fields = "Subject:  a\n\tb\nX-U: ü\nBcc: c@x.org\n"
    wire = fields.replace("\n", "\r\n").encode()
    assert completed(head(f"{fields}\nx"), b"K: v\r\n") == wire + b"K: v\r\n"
    assert completed(head(f"{fields}no field\n"), b"") == wire + b"\r\n"


def test_a_resent_bcc_and_a_void_from_are_taken_out() -> None:
    found = head("From: \nResent-Bcc: eve@x.org\nSubject: x\n\n")
    assert not has_author(found)
    assert completed(found, b"From: a@x.org\r\n") == b"Subject: x\r\nFrom: a@x.org\r\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "From: ann@x.org\r\n"),
        ("Ann Doe", "From: Ann Doe <ann@x.org>\r\n"),
        ("Doe, Ann (IT)", 'From: "Doe, Ann (IT)" <ann@x.org>\r\n'),
        ('a"b\\', 'From: "a\\"b\\\\" <ann@x.org>\r\n'),
        ("Grüße", "From: =?utf-8?b?R3LDvMOfZQ==?=\r\n <ann@x.org>\r\n"),
    ],
)
def test_a_name_is_legal_whatever_is_in_it(name: str, expected: str) -> None:
    assert author(name, "ann@x.org") == expected.encode()


def test_a_long_name_is_folded() -> None:
    lines = author("ü" * 200, "ann@x.org").split(b"\r\n")
    assert max(map(len, lines)) <= 78
    assert len(lines) > 5
