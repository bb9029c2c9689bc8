"""SMTPUTF8 at submission, over real connections (RFC 6531)."""

from collections.abc import Callable
from typing import Any

import pytest

from mta.model.envelope import NewRecipient
from mta.model.events import Refused
from tests.support.smtp_client import SmtpClient
from tests.support.submission import HOSTNAME

Start = Callable[..., Any]
PLAIN = b"From: a@shop.test\r\nSubject: x\r\n\r\nx\r\n.\r\n"


async def submit(client: SmtpClient, *lines: str, content: bytes = PLAIN) -> str:
    """EHLO, `lines` in UTF-8 and DATA, each accepted; the reply to the end of `content`."""
    for line in ("EHLO client.test", *lines):
        reply = await client.command(line.encode())
        assert reply.startswith("250"), f"{line}: {reply}"
    assert (await client.command("DATA")).startswith("354")
    await client.send(content)
    return await client.reply()


async def test_adr14_ext09_lin12_lin19_what_is_not_announced_is_refused(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        offered = await client.command("EHLO client.test")
        assert "SMTPUTF8" in offered and "8BITMIME" in offered
        assert (await client.command("EHLO müller.test".encode())).startswith("501 5.5.2")
        assert (await client.command("MAIL FROM:<é@shop.test>".encode())).startswith("550 5.6.7")
        assert (await client.command("MAIL FROM:<a@shop.test> SMTPUTF8=1")).startswith("501 5.5.4")
        assert (await client.command("MAIL FROM:<a@shop.test> SMTPUTF8 SMTPUTF8")).startswith("501 5.5.4")
        assert (await client.command("MAIL FROM:<a@shop.test>")).startswith("250")
        assert (await client.command("RCPT TO:<é@example.org>".encode())).startswith("553 5.6.7")
        assert (await client.command("RCPT TO:<b@bücher.example>".encode())).startswith("553 5.6.7")
        assert (await client.command("RCPT TO:<b@xn--bcher-kva.example>")).startswith("250")
    refused = [fact.reason for fact in running.facts if isinstance(fact, Refused)]
    assert "RCPT TO:<b@bücher.example>" in refused, "a person can read it in the log"


async def test_ext09_not_after_helo(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("HELO client.test")
        assert (await client.command("MAIL FROM:<a@shop.test> SMTPUTF8")).startswith("555 5.5.4")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"RCPT TO:<\xe2\x82@example.org>", "501 5.1.3"),
        (b"RCPT TO:<\xc3\xa9\xff@example.org>", "501 5.1.3"),
        (b"RCPT TO:<\xed\xa0\x80@example.org>", "501 5.1.3"),  # a surrogate
        (b"RCPT TO:<\xc0\xaf@example.org>", "501 5.1.3"),  # an overlong form
        ("RCPT TO:<a\u202eb@example.org>".encode(), "501 5.1.3"),
        ("RCPT TO:<a@☃.example>".encode(), "501 5.1.3"),
        ("RCPT TO:<a@é>".encode(), "554 5.1.2"),
        ("RCPT TO:<é@example.org> SMTPUTF8".encode(), "555 5.5.4"),
    ],
)
async def test_adr14_what_is_no_address_in_utf8_either(start: Start, line: bytes, code: str) -> None:
    """RFC 6531 section 3.3."""
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        assert (await client.command("MAIL FROM:<é@shop.test> SMTPUTF8".encode())).startswith("250")
        assert (await client.command(line)).startswith(code)


async def test_b38_only_a_domain_beyond_ascii_needs_nothing(start: Start) -> None:
    """Its two spellings are one mailbox; the trace field has the form that any server takes."""
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        mailboxes = ("INFO@BÜCHER.example", "INFO@xn--bcher-kva.example")
        reply = await submit(client, "MAIL FROM:<app@Bücher.example> SMTPUTF8", *(f"RCPT TO:<{it}>" for it in mailboxes))
        assert reply.startswith("250")
    message, content = running.spool.last
    assert message.reverse_path == "app@xn--bcher-kva.example"
    assert message.recipients == (NewRecipient("INFO@xn--bcher-kva.example", "xn--bcher-kva.example"),)
    assert not message.utf8
    assert f" with UTF8SMTP id {message.queue_id}\r\n\tfor <INFO@xn--bcher-kva.example>;".encode() in content


async def test_b36_the_parameter_alone_is_no_need(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        lines = ("MAIL FROM:<a@example.com> SMTPUTF8 BODY=8BITMIME", "RCPT TO:<b@example.org>")
        assert (await submit(client, *lines, content="Subject: x\r\n\r\ngrüße\r\n.\r\n".encode())).startswith("250")
    message, _ = running.spool.last
    assert (message.utf8, message.eight_bit) == (False, True)


@pytest.mark.parametrize(
    ("sender", "recipient", "header", "needs"),
    [
        ("é@shop.test", "b@example.org", "Subject: x", True),
        ("a@shop.test", "b@example.org", "Subject: grüße", True),
        ("a@shop.test", "é@example.org", "Subject: x", False),  # that recipient needs it, not the message
        ("a@shop.test", "b@example.org", "Bcc: é@example.org", False),  # is taken out
    ],
)
async def test_b36_hdr10_the_need_of_the_message(
    start: Start, sender: str, recipient: str, header: str, needs: bool
) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        lines = (f"MAIL FROM:<{sender}> SMTPUTF8", f"RCPT TO:<{recipient}>")
        assert (await submit(client, *lines, content=f"{header}\r\n\r\nx\r\n.\r\n".encode())).startswith("250")
    message, content = running.spool.last
    assert message.utf8 is needs
    assert message.recipients[0].address == recipient
    assert f"by {HOSTNAME} with UTF8SMTP id".encode() in content
    assert content.partition(b"\r\nSubject")[0].isascii() or "Subject" not in header


@pytest.mark.parametrize(
    ("parameter", "field", "reply"),
    [
        ("", "Subject: grüße".encode(), "554 5.6.0 Header field Subject has non-ASCII characters"),
        (" SMTPUTF8", b"Subject: gr\xfc\xdfe", "554 5.6.0 Header field Subject is not valid UTF-8"),
        (" SMTPUTF8", b"X-T: ok\r\n \xff", "554 5.6.0 Header field X-T is not valid UTF-8"),
    ],
)
async def test_dat21_the_header_section(start: Start, parameter: str, field: bytes, reply: str) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        lines = (f"MAIL FROM:<a@shop.test>{parameter}", "RCPT TO:<b@example.org>")
        assert (await submit(client, *lines, content=field + b"\r\n\r\nx\r\n.\r\n")).startswith(reply)
    assert not running.spool.accepted


async def test_the_subject_is_shown_as_it_is_meant(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        lines = ("MAIL FROM:<a@shop.test> SMTPUTF8", "RCPT TO:<b@example.org>")
        await submit(client, *lines, content="Subject: grüße \u202e!\r\n\r\nx\r\n.\r\n".encode())
    assert running.spool.last[0].subject == "grüße \\u202e!"


async def test_rset_forgets_the_parameter(start: Start) -> None:
    """EXT-09."""
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        await client.command("MAIL FROM:<a@shop.test> SMTPUTF8")
        await client.command("RSET")
        await client.command("MAIL FROM:<a@shop.test>")
        assert (await client.command("RCPT TO:<é@example.org>".encode())).startswith("553 5.6.7")


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        (b"postmaster", "252"),
        (b"postmaster SMTPUTF8", "252"),
        ("jörg SMTPUTF8".encode(), "252"),
        ("jörg smtputf8".encode(), "252"),
        ("jörg".encode(), "501"),
        (b"j\xf6rg SMTPUTF8", "501"),
        (b"\xc2\x85 SMTPUTF8", "501"),
    ],
)
async def test_ses18_lin12_vrfy(start: Start, argument: bytes, code: str) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.command(b"VRFY " + argument)).startswith(code)
