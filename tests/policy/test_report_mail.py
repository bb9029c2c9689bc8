"""Mail to the postmaster: every failure is in it, and nothing that came from outside can act."""

import email
import email.policy
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.envelope import Kind
from mta.model.reply import finding, parse_reply
from mta.policy.compose import Stamp
from mta.policy.report_mail import ENTRY_LIMIT, Entry, compose_alert, compose_report

STAMP = Stamp("mail.example.com", 1767323045.678, "<06REPORT00000001@mail.example.com>", "=_unused")
Compose = Callable[[Sequence[Entry], str, Stamp], bytes]


def entry(number: int = 1, **changes: object) -> Entry:
    values: dict[str, object] = {
        "queue_id": f"06ABCDEFGHJKM{number:03}",
        "kind": Kind.MAIL,
        "sender": "shop@example.com",
        "recipient": f"ann{number}@example.org",
        "subject": "Your order 1234",
        "at": 1767323000.0,
        "status": "failed",
        "doubts": 0,
        "reply": parse_reply(550, ["5.1.1 no such user here"]),
        "remote_host": "mx1.example.org",
    }
    return Entry(**(values | changes))


def body(content: bytes) -> str:
    parsed = email.message_from_bytes(content, policy=email.policy.default)
    assert parsed["To"] == "postmaster@example.com"
    assert parsed["From"].addresses[0].addr_spec == "MAILER-DAEMON@mail.example.com"
    assert parsed["Auto-Submitted"] == "auto-generated"
    assert parsed.get_content_type() == "text/plain"
    return str(parsed.get_content())


def test_a_report_tells_all_of_a_failure():
    content = compose_report([entry()], "postmaster@example.com", STAMP)
    text = body(content)
    assert b"Subject: 1 recipient failed\r\n" in content
    for fact in (
        "06ABCDEFGHJKM001", "<ann1@example.org>", "<shop@example.com>", "Your order 1234", "550 5.1.1 no such user here",
        "mx1.example.org", "Fri, 02 Jan 2026 03:03:20 +0000", "failed",
    ):  # fmt: skip
        assert fact in text


def test_a_finding_of_ours_is_not_called_a_reply():
    found = entry(reply=finding("5.1.2", "no such domain"), remote_host="")
    text = body(compose_report([found], "postmaster@example.com", STAMP))
    assert "found:   5.1.2 no such domain" in text
    assert "reply:" not in text
    assert "server:" not in text


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"sender": ""}, "no sender who could be told"),
        ({"sender": "", "kind": Kind.DSN}, "itself a delivery report"),
        ({}, None),
    ],
)
def test_b09_who_was_not_told_is_named(changes: dict[str, object], note: str | None):
    """B09: the double bounce is visible to the postmaster."""
    text = " ".join(body(compose_report([entry(**changes)], "postmaster@example.com", STAMP)).split())
    assert note in text if note else "note:" not in text


def test_what_is_above_the_limit_is_counted():
    entries = [entry(number) for number in range(ENTRY_LIMIT + 7)]
    content = compose_report(entries, "postmaster@example.com", STAMP)
    assert f"Subject: {ENTRY_LIMIT + 7} recipients failed".encode() in content
    assert content.count(b"  status:") == ENTRY_LIMIT
    assert b"... and 7 more." in content


@pytest.mark.parametrize(
    ("changes", "commands"),
    [
        ({"status": "dead"}, ["show", "retry"]),
        ({"status": "dead", "doubts": 2}, ["show", "retry", "resolve", "resolve"]),
        ({"status": "in_doubt", "doubts": 1}, ["show", "resolve", "resolve"]),
    ],
)
def test_an_alert_says_what_a_person_can_do(changes: dict[str, object], commands: list[str]):
    """Only the verbs that apply (interface.md section 1)."""
    text = body(compose_alert([entry(**changes)], "postmaster@example.com", STAMP))
    assert re.findall(r"^  mta (\w+) 06ABCDEFGHJKM001", text, re.MULTILINE) == commands
    assert ("may have been delivered" in text) == bool(changes.get("doubts"))


def test_the_subject_counts():
    one = compose_alert([entry()], "postmaster@example.com", STAMP)
    two = compose_alert([entry(1), entry(2)], "postmaster@example.com", STAMP)
    assert b"Subject: 1 recipient needs a person\r\n" in one
    assert b"Subject: 2 recipients need a person\r\n" in two


def test_no_command_holds_what_came_from_outside():
    """A local part may hold what a shell acts on."""
    text = body(compose_alert([entry(recipient="`reboot`@example.org", status="dead")], "postmaster@example.com", STAMP))
    assert not [line for line in text.splitlines() if line.startswith("  mta") and "reboot" in line]


@given(st.sampled_from([compose_report, compose_alert]), st.text(), st.text(), st.text(), st.text())
def test_nothing_from_outside_makes_a_line(compose: Compose, sender: str, recipient: str, subject: str, reply: str):
    made = entry(sender=sender, recipient=recipient, subject=subject, reply=parse_reply(550, [reply]), remote_host=subject)
    content = compose([made], "postmaster@example.com", STAMP)
    assert content.isascii()
    head, _, text = content.partition(b"\r\n\r\n")
    assert len(head.split(b"\r\n")) == 9
    assert not [line for line in text.split(b"\r\n") if len(line) > 998 or re.search(rb"[^\x20-\x7e]", line)]
    assert text.count(b"  status:") >= 1


@pytest.mark.parametrize("compose", [compose_report, compose_alert])
def test_b38_addresses_beyond_ascii_can_be_read(compose: Compose):
    """In 7 bits on the wire, and without what turns a line around."""
    it = entry(recipient="jörg@bücher.example", sender="用户@example.com", subject="a\u202eb")
    content = compose([it], "postmaster@example.com", STAMP)
    assert content.isascii()
    assert all(words in body(content) for words in ("<jörg@bücher.example>", "<用户@example.com>", "a\\u202eb"))


DISTRUST = parse_reply(554, ["5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org"])


def test_q3_a_server_that_does_not_trust_us_is_no_recipient_that_waits():
    """Quirk Q3 of Table A: what it says of us is quoted, and nobody is told that the mail waits for a person."""
    content = compose_alert([entry(distrusted=True, reply=DISTRUST)], "postmaster@example.com", STAMP)
    text = " ".join(body(content).split())
    assert b"Subject: a server does not trust us\r\n" in content
    for words in ("blocked using zen.spamhaus.org", "by its reputation: mx1.example.org", "Nobody else tells"):
        assert words in text
    assert "nothing more is tried" not in text
    assert "mta dead" not in text


def test_what_needs_a_person_comes_before_what_is_told_beside_it():
    entries = [entry(1, distrusted=True, reply=DISTRUST), entry(2, status="dead")]
    content = compose_alert(entries, "postmaster@example.com", STAMP)
    text = body(content)
    assert b"Subject: 1 recipient needs a person, a server does not trust us\r\n" in content
    assert text.index("ann2@example.org") < text.index("ann1@example.org")
    assert "mta retry" in text
