"""DSNs: golden files, read back by a second parser, and what no reply can do to them (conformance DSN-08 to DSN-17)."""

import email
import email.policy
import re
from dataclasses import replace
from email.message import EmailMessage, Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.reply import Reply, finding, parse_reply
from mta.policy.compose import Stamp, date_time
from mta.policy.dsn import HEADER_LIMIT, Dsn, DsnRecipient, Fate, header_section, status_of
from mta.policy.dsn_mail import compose_dsn
from tests.policy.dsn_cases import BUSY, CASES, DOUBT, GOLDEN, HEADER, LATE, STAMP, UNKNOWN, dsn, recipient

NO_SUCH_USER = {
    "Action": "failed",
    "Status": "5.1.1",
    "Remote-MTA": "dns; mx1.example.org",
    "Diagnostic-Code": "smtp; 550 5.1.1 no such user here",
}
GROUPS: dict[str, list[dict[str, str]]] = {
    "failed": [NO_SUCH_USER],
    "failed-several": [
        NO_SUCH_USER,
        {
            "Action": "failed",
            "Status": "5.2.2",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "smtp; 552 5.2.2 quota exceeded",
        },
        {
            "Action": "failed",
            "Status": "4.2.1",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "smtp; 450 4.2.1 mailbox busy",
        },
    ],
    "delayed": [
        {
            "Action": "delayed",
            "Status": "4.2.1",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "smtp; 450 4.2.1 mailbox busy",
            "Will-Retry-Until": "Wed, 07 Jan 2026 03:03:00 +0000",
        }
    ],
    "dead-with-doubt": [
        {
            "Action": "failed",
            "Status": "4.4.2",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "X-mta; connection lost after the final dot",
        }
    ],
    "held-doubt": [
        {
            "Action": "delayed",
            "Status": "4.4.2",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "X-mta; connection lost after the final dot",
        }
    ],
    "null-mx": [
        {
            "Action": "failed",
            "Status": "5.1.10",
            "Diagnostic-Code": "X-mta; nullmx.example accepts no mail (null MX)",
        }
    ],
    "multi-line-reply": [
        {
            "Action": "failed",
            "Status": "5.2.1",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "smtp; 550 5.2.1 The mailbox is disabled: see https://example.org/help",
        }
    ],
    "non-ascii-reply": [
        {
            "Action": "failed",
            "Status": "5.0.0",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "smtp; 550 black ip \\xb7\\xa2\\xd0\\xc5\\xc8\\xcb \\x1b[2J\\x00",
        }
    ],
    "deadline": [{"Action": "failed", "Status": "5.4.7", "Diagnostic-Code": f"X-mta; {LATE}"}],
    "late": [
        {
            "Action": "delayed",
            "Status": "4.4.7",
            "Diagnostic-Code": f"X-mta; {LATE}",
            "Will-Retry-Until": "Wed, 07 Jan 2026 03:03:00 +0000",
        }
    ],
    "relayed": [
        {
            "Action": "relayed",
            "Status": "2.0.0",
            "Remote-MTA": "dns; mx1.example.org",
            "Diagnostic-Code": "smtp; 250 2.0.0 Ok: queued as 4QXYZ",
        }
    ],
    "purged-original": [NO_SUCH_USER],
    "asked": [
        {"Original-Recipient": "rfc822; Ann+Shop@Example.org", **NO_SUCH_USER},
        {"Original-Recipient": "x-id; 4 711\\xe9", **NO_SUCH_USER},
    ],
    "whole": [NO_SUCH_USER],
}
"""What each recipient's group has besides Final-Recipient: no field more, none less."""
DELIVER_BY = {"Deliver-By-Date": "Fri, 02 Jan 2026 03:05:00 +0000"}
MESSAGE: dict[str, dict[str, str]] = {
    "deadline": {**DELIVER_BY, "Future-Release-Request": "until;2026-01-02T03:04:00Z"},
    "late": DELIVER_BY,
    "relayed": DELIVER_BY,
    "asked": {"Original-Envelope-Id": "Q+Q314159="},
}
"""What the message's group has besides the reporter and the arrival."""
RETURNED = {"purged-original": "", "whole-purged": "", "whole": "message/rfc822", "whole-8-bit": "message/rfc822"}
"""The type of the third part, where it is not the header section; "": there is none."""


def read(content: bytes) -> EmailMessage:
    """Read by the standard library's parser, without a single defect."""
    parsed = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(parsed, EmailMessage)
    assert not [defect for part in parsed.walk() for defect in part.defects]
    return parsed


def groups(content: bytes) -> list[Message]:
    """The groups of the part for programs, as a parser that does not interpret fields gives them."""
    status = email.message_from_bytes(content, policy=email.policy.compat32).get_payload(1)
    assert isinstance(status, Message)
    assert status.get_content_type() == "message/delivery-status"
    found = status.get_payload()
    assert isinstance(found, list)
    return [group for group in found if group.keys()]


def unfolded(group: Message) -> dict[str, str]:
    assert len(group.keys()) == len(set(group.keys()))
    return {name: re.sub(r"\r?\n(?=[ \t])", "", str(value)) for name, value in group.items()}


def text_of(content: bytes) -> str:
    part = read(content).get_payload(0)
    assert isinstance(part, EmailMessage)
    return " ".join(part.get_content().split())


def assert_transportable(content: bytes) -> None:
    """7-bit, CRLF alone, no line above 998 octets, no control character."""
    assert content.isascii()
    assert content.endswith(b"\r\n")
    lines = content.removesuffix(b"\r\n").split(b"\r\n")
    assert not [line for line in lines if len(line) > 998 or re.search(rb"[^\t\x20-\x7e]", line)]


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str):
    assert compose_dsn(CASES[name], STAMP) == (GOLDEN / f"{name}.eml").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_any_server_takes_it(name: str):
    assert_transportable(compose_dsn(CASES[name], STAMP))


@pytest.mark.parametrize("name", CASES)
def test_parts_and_header(name: str):
    """DSN-09, DSN-15, B09: a report from a real mailbox to the sender, marked as an automatic answer."""
    parsed = read(compose_dsn(CASES[name], STAMP))
    assert parsed.get_content_type() == "multipart/report"
    assert parsed["Content-Type"].params["report-type"] == "delivery-status"
    expected = ["text/plain", "message/delivery-status", RETURNED.get(name, "text/rfc822-headers")]
    assert [part.get_content_type() for part in parsed.iter_parts()] == [*filter(None, expected)]
    assert parsed["From"].addresses[0].addr_spec == "MAILER-DAEMON@mail.example.com"
    assert [address.addr_spec for address in parsed["To"].addresses] == ["shop@example.com"]
    assert parsed["Auto-Submitted"] == "auto-replied"
    assert parsed["MIME-Version"] == "1.0"
    assert parsed["Message-ID"] == STAMP.message_id
    assert parsed["In-Reply-To"] == parsed["References"] == "<order-1234@example.com>"
    assert parsed["Date"].datetime.timestamp() == int(STAMP.at)


@pytest.mark.parametrize("name", GROUPS)
def test_fields_for_programs(name: str):
    """DSN-11, DSN-12, DSN-13, RTY-02, DBY-10, FRL-06, B07, B11: nothing is missing and nothing is invented."""
    message, *found = groups(compose_dsn(CASES[name], STAMP))
    arrival = "Fri, 02 Jan 2026 03:03:00 +0000"
    expected_of_message = {"Reporting-MTA": "dns; mail.example.com", "Arrival-Date": arrival, **MESSAGE.get(name, {})}
    assert unfolded(message) == expected_of_message
    addresses = [f"rfc822; {it.final_recipient}" for it in CASES[name].recipients]
    expected = [{"Final-Recipient": address, **rest} for address, rest in zip(addresses, GROUPS[name], strict=True)]
    assert [unfolded(group) for group in found] == expected


def test_b07_multi_line_reply_is_one_field():
    """B07: lines joined, repeated codes gone, the colon and the continuation make no field."""
    content = compose_dsn(CASES["multi-line-reply"], STAMP)
    assert content.count(b"Diagnostic-Code:") == 1
    assert b"Diagnostic-Code: smtp; 550 5.2.1 The mailbox is disabled: see\r\n https://example.org/help\r\n" in content


def test_b11_a_reply_in_no_known_encoding_is_readable_twice():
    text = text_of(compose_dsn(CASES["non-ascii-reply"], STAMP))
    assert "550 black ip \\xb7\\xa2\\xd0\\xc5\\xc8\\xcb \\x1b[2J\\x00" in text
    assert "Größe XL bestellt" in text


def test_b38_a_domain_of_its_own_script_keeps_its_a_label():
    """B38: the address under which it was tried, never question marks."""
    content = compose_dsn(dsn(recipient("info@xn--bcher-kva.example")), STAMP)
    assert unfolded(groups(content)[1])["Final-Recipient"] == "rfc822; info@xn--bcher-kva.example"
    assert "??" not in content.decode()


def test_several_recipients_of_one_step_share_a_dsn():
    """DSN-14."""
    text = text_of(compose_dsn(CASES["failed-several"], STAMP))
    for address in ("ann@example.org", "bob@example.org", "carl@example.org"):
        assert f"<{address}>" in text
    assert "submitted as root@mail.example.com" in text
    assert "Given up after 23 attempts" in text


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("failed", ["could not be delivered", "will not be tried again", "There is no such mailbox"]),
        ("delayed", ["yet", "need not do anything", "tried again until Wed, 07 Jan 2026 03:03:00 +0000"]),
        ("dead-with-doubt", ["not known whether", "It may have been delivered", "2 times", "Ask the recipient"]),
        ("held-doubt", ["not known whether", "It may have been delivered", "A person at this mail system decides"]),
        ("null-mx", ["takes no mail"]),
        ("deadline", ["could not be delivered", "in the time it had", "the last answer was: 450 4.2.1 mailbox busy"]),
        ("late", ["yet", "not delivered by Fri, 02 Jan 2026 03:05:00 +0000", "tried again until Wed, 07 Jan 2026"]),
        ("relayed", ["handed over to the next mail server", "queued as 4QXYZ", "03:05:00", "no further report"]),
        ("purged-original", ["not stored here any more"]),
        ("whole", ["Your message is attached."]),
        ("whole-8-bit", ["Your message is attached."]),
        ("whole-too-large", ["Only the header of your message is attached", "larger than 1 MiB"]),
        ("whole-purged", ["not stored here any more"]),
    ],
)
def test_a_person_is_told_what_it_means(case: str, told: list[str]):
    text = text_of(compose_dsn(CASES[case], STAMP))
    assert [words for words in told if words not in text] == []
    assert "06ABCDEFGHJKMN00" in text


@pytest.mark.parametrize(
    ("notify", "told"), [("", "You will be told if"), ("DELAY", "you will not be told if"), ("DELAY,FAILURE", "You will be")]
)
def test_dsn_06_a_delay_says_whether_a_failure_is_told(notify: str, told: str):
    it = DsnRecipient("a@b.test", "", Fate.DELAYED, BUSY, "", "rcpt", 1, 0, notify=notify)
    assert told in text_of(compose_dsn(dsn(it), STAMP))


@pytest.mark.parametrize("case", ["failed", "delayed", "null-mx", "deadline", "late", "relayed"])
def test_without_a_doubt_none_is_raised(case: str):
    assert "may have been" not in text_of(compose_dsn(CASES[case], STAMP))


@pytest.mark.parametrize(
    ("fate", "reply", "status"),
    [
        (Fate.REFUSED, UNKNOWN, "5.1.1"),
        (Fate.REFUSED, parse_reply(550, ["no code"]), "5.0.0"),
        (Fate.REFUSED, parse_reply(550, ["4.7.1 code of another class"]), "5.0.0"),
        (Fate.REFUSED, finding("4.4.7", "out of time"), "5.4.7"),
        (Fate.REFUSED, finding("garbage", "damaged"), "5.0.0"),
        (Fate.REFUSED, Reply(None, None, ""), "5.4.7"),
        (Fate.GIVEN_UP, BUSY, "4.2.1"),
        (Fate.GIVEN_UP, finding("4.4.1", "connection refused"), "4.4.1"),
        (Fate.GIVEN_UP, parse_reply(550, ["5.5.0 your name"]), "5.5.0"),
        (Fate.GIVEN_UP, Reply(None, None, ""), "4.4.7"),
        (Fate.GIVEN_UP, parse_reply(250, ["2.0.0 fine"]), "4.0.0"),
        (Fate.DELAYED, BUSY, "4.2.1"),
        (Fate.DELAYED, parse_reply(550, ["5.5.0 your name"]), "4.5.0"),
        (Fate.UNDECIDED, DOUBT, "4.4.2"),
        (Fate.RELAYED, parse_reply(250, ["2.1.5 fine"]), "2.1.5"),
        (Fate.RELAYED, parse_reply(250, ["Ok"]), "2.0.0"),
        (Fate.RELAYED, UNKNOWN, "2.1.1"),
    ],
)
def test_status_fits_the_action(fate: Fate, reply: Reply, status: str):
    """DSN-13, RTY-02: the last real problem, 4.4.7 only where there is none, the class by the action."""
    assert status_of(recipient(fate=fate, reply=reply)) == status


def test_a_held_doubt_without_its_header_is_not_said_to_be_gone():
    it = recipient(fate=Fate.UNDECIDED, reply=DOUBT, phase="final", doubts=1)
    assert "not stored here" not in text_of(compose_dsn(dsn(it, header=b""), STAMP))


def test_only_the_header_of_the_original_goes_back():
    """DSN-10."""
    content = compose_dsn(dsn(recipient()), STAMP)
    returned = read(content).get_payload(2)
    assert isinstance(returned, EmailMessage)
    original = email.message_from_string(returned.get_content(), policy=email.policy.default)
    assert original["Subject"] == "Your order 1234"
    assert original["Received"].endswith("06ABCDEFGHJKMN00")
    assert b"Body that stays here" not in content


def test_a_header_without_end_is_cut_at_a_line():
    endless = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 70) for number in range(2000))
    lines = header_section(endless)
    assert sum(len(line) + 1 for line in lines) <= HEADER_LIMIT
    assert set(map(len, lines)) <= {75, 76, 77}


@pytest.mark.parametrize("content", [b"", b"\r\n", b"\r\nbody\r\n", b"cut in the mid"])
def test_an_original_without_header_gives_no_lines(content: bytes):
    assert header_section(content) == ()


def test_a_message_id_that_is_none_is_not_quoted():
    case = CASES["failed"]
    for bad in ("", "<>", "<a b@c>", "<a@b>\r\nBcc: x@y", "<" + "x" * 300 + ">"):
        changed = Dsn(case.to, case.queue_id, bad, case.subject, case.arrival_date, 0.0, case.recipients, ())
        parsed = read(compose_dsn(changed, STAMP))
        assert parsed["In-Reply-To"] is None
        assert parsed["Bcc"] is None


anything = st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
injections = st.lists(
    st.sampled_from(["\r\n", "\n", "\r", ":", "Action: sent", " ", "\t", "\0", "\u2028", f"--{STAMP.boundary}", "x" * 1100]),
    max_size=8,
).map("".join)
nasty = anything | injections


@given(st.sampled_from(Fate), nasty, nasty, nasty, nasty, st.binary(max_size=400), st.floats(allow_nan=False))
def test_nothing_from_outside_makes_a_field_or_a_line(
    fate: Fate, reply: str, subject: str, address: str, host: str, header: bytes, at: float
):
    """B07, B11, DSN-17: whatever a server, a submitter or a damaged row holds, the DSN has its shape."""
    plain = parse_reply(550, [reply])
    case = Dsn(
        to="shop@example.com",
        queue_id="06ABCDEFGHJKMN00",
        message_id=address,
        subject=subject,
        arrival_date=min(max(at, 0.0), 1e15),
        will_retry_until=1767754980.0,
        recipients=(DsnRecipient(address, host, fate, plain, host, "rcpt", 1, 1, address),),
        original_header=header_section(header.replace(STAMP.boundary.encode(), b"") + b"\r\n\r\n"),
        envid=host,
    )
    content = compose_dsn(case, STAMP)
    assert_transportable(content)
    parsed = email.message_from_bytes(content, policy=email.policy.compat32)
    assert len(parsed.get_payload()) == (3 if case.original_header else 2)
    message, group = groups(content)
    assert list(message.keys()) == [*(["Original-Envelope-Id"] if host else []), "Reporting-MTA", "Arrival-Date"]
    retry = ["Will-Retry-Until"] if fate is Fate.DELAYED else []
    remote = ["Remote-MTA"] if host else []
    original = ["Original-Recipient"] if address else []
    assert list(group.keys()) == [*original, "Final-Recipient", "Action", "Status", *remote, "Diagnostic-Code", *retry]
    assert group["Action"] in ("failed", "delayed", "relayed")


@pytest.mark.parametrize(("priority", "field"), [(0, None), (4, "4"), (-9, "-9")])
def test_pri_04_a_dsn_inherits_the_priority(priority: int, field: str | None):
    """RFC 6758: where the next server does not offer MT-PRIORITY, the field has it."""
    assert read(compose_dsn(dsn(recipient(), priority=priority), STAMP))["MT-Priority"] == field


def test_dates_at_the_ends_of_the_calendar():
    assert date_time(-5.0) == "Thu, 01 Jan 1970 00:00:00 +0000"
    assert date_time(1e15) == "Fri, 31 Dec 9999 23:59:59 +0000"


def test_two_stamps_give_two_mails():
    other = Stamp(STAMP.hostname, STAMP.at, "<other@mail.example.com>", "=_other")
    assert compose_dsn(dsn(recipient(), header=HEADER), other) != compose_dsn(dsn(recipient(), header=HEADER), STAMP)


@pytest.mark.parametrize(
    ("reply", "category", "words"),
    [
        ("550 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org", "reputation", "does not trust this"),
        ("554 delivery error: dd This user doesn't have a yahoo.com account", "no-such-user", "There is no such mailbox."),
        ("550 5.4.1 Recipient address rejected: Access denied", "no-such-user", "There is no such mailbox."),
        ("550 5.1.10 RESOLVER.ADR.RecipientNotFound", "no-such-user", "There is no such mailbox."),
        ("552 5.2.2 over quota", "mailbox-full", "Send the message again when its owner has made room."),
        ("550 5.7.1 no", "", "The server refused it by its own rules."),
        ("550 5.1.2 no", "", "There is no such domain."),
    ],
)
def test_what_a_server_means_is_said_in_words(reply: str, category: str, words: str):
    """The server's words outweigh a status that says something else."""
    told = replace(recipient(reply=parse_reply(int(reply[:3]), [reply[4:]])), category=category)
    text = text_of(compose_dsn(dsn(told), STAMP))
    assert words in text
    assert "takes no mail" not in text
    assert "could be reached" not in text
