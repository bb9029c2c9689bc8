"""What submission does to a header section, and what a remote's reply tells of its queue id."""

import ipaddress
from datetime import UTC, datetime
from email import message_from_bytes
from email.utils import parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.reply import Reply, parse_reply
from mta.policy import header
from mta.policy.requests import Requests
from mta.policy.trace import Arrival, Prepared, client_at, hello_name, prepare, received, remote_queue_id

AT = 1_700_000_000.9
DAY = 86400.0
CLIENT = replace(client_at(ipaddress.ip_address("192.0.2.7")), hello="client.test", extended=True)
ARRIVAL = Arrival(
    client=CLIENT,
    hostname="mail.out.test",
    queue_id="06AN5HZ8W0ABCDEF",
    sole="",
    at=AT,
)
RECEIVED = (
    b"Received: from client.test ([192.0.2.7])\r\n"
    b"\tby mail.out.test with ESMTP id 06AN5HZ8W0ABCDEF;\r\n"
    b"\tTue, 14 Nov 2023 22:13:20 +0000\r\n"
)
MESSAGE_ID = b"Message-ID: <06AN5HZ8W0ABCDEF@mail.out.test>\r\n"
DATE = b"Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
OWN = b"Message-ID: <own@shop.test>\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n"


def prepared(content: bytes) -> Prepared:
    result = prepare(content, ARRIVAL, complete=True, max_hold=DAY, strict=False)
    assert isinstance(result, Prepared), result
    return result


def whole(content: bytes) -> bytes:
    result = prepared(content)
    return result.by + content[result.length :]


def refusal(content: bytes, *, complete: bool = True) -> str:
    result = prepare(content, ARRIVAL, complete=complete, max_hold=DAY, strict=False)
    assert isinstance(result, Reply)
    return str(result)


# ---------------------------------------------------------------- fix-ups
def test_hdr01_hdr02_hdr08_what_is_missing_is_added_and_the_rest_is_kept() -> None:
    assert whole(b"Subject: x\r\nTO :y\r\n z\r\n\r\nbody\r\n") == (
        RECEIVED + b"Subject: x\r\nTO :y\r\n z\r\n" + MESSAGE_ID + DATE + b"\r\nbody\r\n"
    )


@pytest.mark.parametrize(
    "field",
    [
        b"message-id: <own.1@shop.test>\r\n",
        b"Message-ID:\r\n\t<own.1@shop.test>\r\n",
        b"Message-ID: (by hand) <own.1@shop.test> (twice)\r\n",
        b'Message-ID: <"own 1"@shop.test>\r\n',
        b"Message-ID: <own.1@[192.0.2.1]>\r\n",
    ],
)
def test_b05_a_good_message_id_is_kept_whatever_its_name_looks_like(field: bytes) -> None:
    content = whole(field + b"dATE: Mon, 1 Jan 2024 00:00:00 +0000\r\n\r\n")
    assert content == RECEIVED + field + b"dATE: Mon, 1 Jan 2024 00:00:00 +0000\r\n\r\n"


@pytest.mark.parametrize(
    "field",
    [b"Message-Id: <>\r\n", b"Message-Id:\r\n", b"Message-Id: <a b@c>\r\n", b"Message-ID: x@y\r\n", b"Message-ID: <@>\r\n"],
)
def test_b05_a_void_message_id_is_replaced(field: bytes) -> None:
    content = whole(field + b"Date:\r\nSubject: x\r\n\r\n")
    assert content == RECEIVED + b"Subject: x\r\n" + MESSAGE_ID + DATE + b"\r\n"
    assert prepared(field).message_id == "<06AN5HZ8W0ABCDEF@mail.out.test>"


def test_b05_a_good_message_id_beside_a_void_one_is_the_one() -> None:
    result = prepared(b"Message-ID: <>\r\n" + OWN + b"\r\n")
    assert result.message_id == "<own@shop.test>"
    assert result.by == RECEIVED + OWN


def test_hdr16_bcc_is_taken_out_with_its_folded_lines() -> None:
    before, after = b"Bcc: a@b.test,\r\n c@d.test\r\n", b"bcc :x\r\n"
    rest = b"Subject: s\r\n\r\nBcc: body\r\n"
    assert whole(before + OWN + after + rest) == RECEIVED + OWN + rest


@pytest.mark.parametrize(
    "body",
    [b"From shop Mon Jan  1 00:00:00 2024\r\nSubject: x\r\n\r\nbody\r\n", b"only text\r\n", b":\r\n"],
)
def test_dat23_what_is_no_field_is_body(body: bytes) -> None:
    assert whole(body) == RECEIVED + MESSAGE_ID + DATE + b"\r\n" + body
    assert whole(OWN + body) == RECEIVED + OWN + b"\r\n" + body
    assert whole(b" folded into nothing\r\n").endswith(b"\r\n\r\n folded into nothing\r\n")


def test_dat22_empty_and_headerless_messages() -> None:
    assert whole(b"") == RECEIVED + MESSAGE_ID + DATE
    assert whole(b"\r\nbody\r\n") == RECEIVED + MESSAGE_ID + DATE + b"\r\nbody\r\n"
    assert whole(OWN) == RECEIVED + OWN


@given(
    st.lists(
        st.sampled_from([b"Subject: x\r\n", b" y\r\n", b"\r\n", b"text\r\n", b"Received: z\r\n", b"A:\r\n", b"From me\r\n"]),
        max_size=8,
    ).map(b"".join)
)
def test_dat23_nothing_is_lost_and_a_second_parser_finds_the_additions(content: bytes) -> None:
    result = whole(OWN + content)
    assert result.replace(b"\r\n", b"") == (RECEIVED + OWN + content).replace(b"\r\n", b"")
    parsed = message_from_bytes(result)
    assert parsed.get_all("Message-ID") == ["<own@shop.test>"]
    assert parsed.get_all("Received")[0].startswith("from client.test")  # type: ignore[index]


def test_the_header_section_must_end_in_what_is_looked_at() -> None:
    start = b"Subject: x\r\n" * 10
    assert "longer" in refusal(start + b"Subj", complete=False)
    assert "longer" in refusal(start, complete=False)
    assert isinstance(prepare(start + b"\r\nbo", ARRIVAL, complete=False, max_hold=DAY, strict=False), Prepared)


@given(st.integers(0, 80))
def test_a_cut_inside_a_field_is_never_taken_for_its_end(cut: int) -> None:
    start = (b"Subject: x\r\n\tfolded\r\n" * 4)[:cut]
    assert "longer" in refusal(start, complete=False)


def test_dat21_eight_bit_octets_are_refused_by_the_fields_name() -> None:
    assert refusal(b"To: x\r\nX-Shop:\r\n gr\xfc\xdfe\r\n\r\n").startswith("554 5.6.0 Header field X-Shop has")
    assert whole("Subject: x\r\n\r\ngrüße\r\n".encode()).endswith("grüße\r\n".encode())


def test_b21_hdr19_a_loop_is_refused() -> None:
    assert refusal(b"Received: x\r\n" * 100 + b"\r\n").startswith("554 5.4.6")
    assert whole(b"Received: x\r\n" * 99 + b"\r\n").startswith(RECEIVED + b"Received: x\r\n")
    below = prepare(b"\r\n" + b"Received: x\r\n" * 200, ARRIVAL, complete=True, max_hold=DAY, strict=False)
    assert isinstance(below, Prepared)


# ---------------------------------------------------------------- trace
def test_hdr09_hdr10_hdr11_the_received_field() -> None:
    assert received(ARRIVAL) == RECEIVED
    peer = ipaddress.ip_address("2001:db8::1")
    other = replace(ARRIVAL, client=replace(client_at(peer), hello="[IPv6:::1]"), sole="ann@example.org")
    assert received(other) == (
        b"Received: from [IPv6:::1] ([IPv6:2001:db8::1])\r\n"
        b"\tby mail.out.test with SMTP id 06AN5HZ8W0ABCDEF\r\n"
        b"\tfor <ann@example.org>;\r\n"
        b"\tTue, 14 Nov 2023 22:13:20 +0000\r\n"
    )


def test_hdr14_the_trace_date_parses() -> None:
    date = received(ARRIVAL).rsplit(b"\t", 1)[1].decode().strip()
    assert parsedate_to_datetime(date) == datetime.fromtimestamp(int(AT), UTC)


@pytest.mark.parametrize(
    ("hello", "name"),
    [
        ("client.test", "client.test"),
        ("[192.0.2.1]", "[192.0.2.1]"),
        ("my laptop", "mylaptop"),
        ("a_b(evil)\r\nX: y", "abevilX:y"),
        ("()", "unknown"),
    ],
)
def test_hdr13_what_a_client_calls_itself_is_filtered(hello: str, name: str) -> None:
    assert hello_name(hello) == name


@given(st.text(max_size=300), st.sampled_from(["", "x" * 64 + "@" + "d" * 63 + ".test"]))
def test_hdr13_hdr17_no_name_breaks_the_field(hello: str, sole: str) -> None:
    field = received(replace(ARRIVAL, client=replace(CLIENT, hello=hello), sole=sole))
    lines = field.split(b"\r\n")
    assert [line[:1] for line in lines] == [b"R", b"\t", *([b"\t"] if sole else []), b"\t", b""]
    assert all(len(line) <= 998 for line in lines)
    assert not set(field.replace(b"\r\n", b"")) & set(b"\r\n\0")


@pytest.mark.parametrize(
    ("given", "sole", "said"),
    [
        (None, "", b"06AN5HZ8W0ABCDEF;\r\n"),
        (0, "", b"06AN5HZ8W0ABCDEF\r\n\tPRIORITY 0;\r\n"),
        (-9, "ann@example.org", b"06AN5HZ8W0ABCDEF\r\n\tfor <ann@example.org>\r\n\tPRIORITY -9;\r\n"),
    ],
)
def test_hdr12_the_received_field_names_the_priority_of_mail(given: int | None, sole: str, said: bytes) -> None:
    assert said + b"\tTue, 14 Nov" in received(replace(ARRIVAL, sole=sole, requests=Requests(priority=given)))


# ---------------------------------------------------------------- what fields say
@pytest.mark.parametrize(
    ("given", "fields", "kept", "added"),
    [
        (4, b"", b"", b"MT-Priority: 4\r\n"),
        (0, b"", b"", b"MT-Priority: 0\r\n"),
        (None, b"mt-priority: (x) 4\r\n", b"mt-priority: (x) 4\r\n", b""),
        (4, b"MT-Priority:\r\n 4\r\n", b"MT-Priority:\r\n 4\r\n", b""),
        (None, b"MT-Priority: 4\r\nX: y\r\nMT-Priority: 4\r\n", b"X: y\r\n", b"MT-Priority: 4\r\n"),
        (None, b"Importance: high\r\n", b"Importance: high\r\n", b""),
        (None, b"Priority: urgent\r\n", b"Priority: urgent\r\n", b""),
    ],
)
def test_pri04_a_priority_is_said_once_in_the_content(given: int | None, fields: bytes, kept: bytes, added: bytes) -> None:
    arrival = replace(ARRIVAL, requests=Requests(priority=given))
    result = prepare(fields + OWN + b"\r\n", arrival, complete=True, max_hold=DAY, strict=False)
    assert isinstance(result, Prepared)
    assert result.by == received(arrival) + kept + OWN + added


def test_what_says_when_a_message_is_to_be_sent_is_taken_out() -> None:
    fields = b"latest-delivery-time: 2h\r\nX: y\r\nDeferred-Delivery:\r\n 1h\r\n"
    arrival = replace(ARRIVAL, began_at=AT - 10)
    result = prepare(fields + OWN + b"\r\n", arrival, complete=True, max_hold=DAY, strict=False)
    assert isinstance(result, Prepared)
    assert result.by == RECEIVED + b"X: y\r\n" + OWN
    assert (result.wish.not_before, result.wish.deliver_by) == (AT + 3590, DeliverBy(AT + 7190, ByMode.HANDOVER))


@pytest.mark.parametrize(
    ("fields", "mail_class"),
    [
        (b"", MailClass.NORMAL),
        (b"Priority: urgent\r\n", MailClass.URGENT),
        (b"priority: Non-Urgent \r\n", MailClass.BULK),
        (b"Priority: normal\r\nPrecedence: bulk\r\n", MailClass.NORMAL),
        (b"Precedence: bulk\r\n", MailClass.BULK),
        (b"Precedence: LIST\r\n", MailClass.BULK),
        (b"Precedence: junk\r\n", MailClass.BULK),
        (b"Precedence: first-class\r\n", MailClass.NORMAL),
        (b"MT-Priority: 0\r\nPriority: urgent\r\n", MailClass.NORMAL),
        (b"Priority: urgent\r\nMT-Priority: -9\r\n", MailClass.BULK),
        (b"MT-Priority: (high) 9\r\n", MailClass.URGENT),
    ],
)
def test_the_class_comes_from_the_first_there_is(fields: bytes, mail_class: MailClass) -> None:
    result = prepared(OWN + fields + b"\r\n")
    assert result.wish.mail_class is mail_class
    assert result.by == RECEIVED + OWN + fields, "left in place"


@pytest.mark.parametrize("value", [b"10", b"-10", b"+3", b"03", b"-0", b"", b"high", b"1 2"])
def test_a_bad_mt_priority_is_refused_by_name(value: bytes) -> None:
    said = refusal(b"MT-Priority: " + value + b"\r\n\r\n")
    assert said.startswith("554 5.6.0")
    assert "MT-Priority" in said


@pytest.mark.parametrize("value", [b"", b"high", b"1", b"urgent now"])
def test_a_bad_priority_is_refused_by_name_also_where_it_would_not_decide(value: bytes) -> None:
    assert "header field Priority" in refusal(b"MT-Priority: 1\r\nPriority: " + value + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (b"", ""),
        (b"Subject: Order 1234\r\n shipped\r\n", "Order 1234 shipped"),
        (b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= =?iso-8859-1?q?_=FC?=\r\n", "Grüße ü"),
        (b"Subject: =?utf-8?b?a?= x\r\n", "=?utf-8?b?a?= x"),
        (b"Subject: =?no-such?q?x?=\r\n", "=?no-such?q?x?="),
        (b"Subject: =?utf-8?q?a=0D=0Ab=1B[31m?=\r\n", "a\\x0d\\x0ab\\x1b[31m"),
        (b"Subject: =?us-ascii?q?=FF?=\r\n", "\ufffd"),
        (b"Subject: " + b"x" * 900 + b"\r\n", "x" * 199 + "…"),
    ],
)
def test_subjects_are_shown_decoded_and_safe(field: bytes, shown: str) -> None:
    assert header.shown_subject(prepared(field + b"\r\n").subject) == shown


@given(st.text(st.sampled_from([chr(code) for code in range(128) if code not in (10, 13)]), max_size=80).map(str.encode))
def test_no_subject_raises_or_prints_a_control_character(value: bytes) -> None:
    section = header.read_section(b"Subject: " + value + b"\r\n\r\n", complete=True)
    assert header.shown_subject(header.subject(section)).isprintable()


# ---------------------------------------------------------------- the remote's id
@pytest.mark.parametrize(
    ("reply", "remote_id"),
    [
        ("2.0.0 Ok: queued as 4Q2xAbCd12z9", "4Q2xAbCd12z9"),
        ("2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as 1234ABC", "1234ABC"),
        ("Ok: queued as R000123", "R000123"),
        ("2.0.0 Ok: queued as 06AN5HZ8W0ABCDEF", "06AN5HZ8W0ABCDEF"),
        ("OK id=1rKbcd-0004Xy-2A", "1rKbcd-0004Xy-2A"),
        ("2.0.0: 6a3d1b2c Message accepted for delivery", "6a3d1b2c"),
        ("2.0.0 u5FCabcd012345 Message accepted for delivery", "u5FCabcd012345"),
        ("Message Queued (E8F1A2B3-0C4D.1)", "E8F1A2B3-0C4D.1"),
        ("ok 1700000000 qp 12345", "1700000000 qp 12345"),
        (
            "2.6.0 <a@b.example> [InternalId=73409123456789, Hostname=X.prod.outlook.com] 8351 bytes in 0.1, 60 KB/sec "
            "Queued mail for delivery",
            "73409123456789",
        ),
        ("2.0.0 OK  1700000000 d9443c01a7336-1d4e2b-20020a17sm123.456 - gsmtp", "d9443c01a7336-1d4e2b-20020a17sm123.456"),
        ("Ok 0100018cabcdef01-2345abcd-0000", "0100018cabcdef01-2345abcd-0000"),
        ("2.0.0 Message queued with id 1a2b3c4d.", "1a2b3c4d"),
        ("Queued (0.016 seconds)", ""),
        ("2.0.0 Ok", ""),
        ("Thanks", ""),
        ("", ""),
    ],
)
def test_the_remote_queue_id(reply: str, remote_id: str) -> None:
    assert remote_queue_id(parse_reply(250, [reply]).text) == remote_id


@given(st.text(max_size=200))
def test_no_reply_text_raises_and_an_id_is_from_it(text: str) -> None:
    assert remote_queue_id(text) in text
