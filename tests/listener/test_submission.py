"""What a client hands over and what the spool gets, over real connections."""

import asyncio
import email.policy
import smtplib
import sqlite3
from collections.abc import Callable
from email import message_from_bytes
from typing import Any

import pytest

from mta.model.envelope import MailClass, NewRecipient
from mta.model.events import Accepted, Refused, Trouble
from mta.policy.schedule import DEFAULTS
from mta.spool.base import SpoolError, SpoolFull
from tests.support.smtp_client import SmtpClient, stuffed
from tests.support.submission import HOSTNAME, NOW, MemorySpool

BODY = (
    b"line one\r\n.dot line\r\n..two dots\r\n\r\ntrailing space \r\n\tTab\r\n"
    + "grüße\r\n".encode()
    + b"x" * 998
    + b"\r\n\r\n"
)
MAIL = b"From: app@shop.test\r\nSubject: hello\r\n\r\n" + BODY

Start = Callable[..., Any]


async def test_spl01_dat03_accepted_as_it_came_with_the_queue_id_in_the_reply(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        reply = await client.submit(stuffed(MAIL), recipients=["ann@Example.ORG", "bob@example.net"])
    message, content = running.spool.last
    head, _, body = content.partition(b"\r\n\r\n")
    assert reply == f"250 2.0.0 Ok: queued as {message.queue_id}"
    assert body == BODY
    assert (message.reverse_path, message.subject, message.eight_bit) == ("app@shop.test", "hello", True)
    assert message.size == len(content)
    assert message.recipients == (
        NewRecipient("ann@Example.ORG", "example.org"),
        NewRecipient("bob@example.net", "example.net"),
    )
    assert (message.accepted_at, message.mail_class) == (NOW, MailClass.NORMAL)
    assert message.expires_at == NOW + DEFAULTS["normal"].give_up_after
    assert message.warn_at == NOW + DEFAULTS["normal"].warn_after
    assert message.message_id == f"<{message.queue_id}@{HOSTNAME}>"
    assert head.startswith(f"Received: from client.test ([127.0.0.1])\r\n\tby {HOSTNAME} with ESMTP id ".encode())
    assert running.facts == [
        Accepted(message.queue_id, "", message.message_id, "app@shop.test", 2, len(content), "normal", "mail", "127.0.0.1")
    ]


async def test_dat05_ses07_one_session_many_transactions(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        for turn in range(3):
            assert (await client.submit(b"\r\nx\r\n", recipients=[f"r{turn}@example.org"])).startswith("250")
    assert [message.recipients[0].address for message, _ in running.spool.accepted] == [
        f"r{turn}@example.org" for turn in range(3)
    ]
    assert len({message.queue_id for message, _ in running.spool.accepted}) == 3


async def test_b39_python_sends_bare_line_feeds(start: Start) -> None:
    running = await start()
    host, port = running.endpoint

    def send() -> None:
        with smtplib.SMTP(host, port, local_hostname="client.test") as client:
            client.sendmail("app@shop.test", ["ann@example.org"], b"Subject: x\n\n.first\n..\nend")

    await asyncio.to_thread(send)
    assert running.spool.last[1].endswith(b"\r\n\r\n.first\r\n..\r\nend\r\n")


@pytest.mark.parametrize(
    ("content", "reply"),
    [
        (b"Subject: x\r\n\r\na\0b\r\n", "554 5.6.0"),
        (b"Subject: x\r\n\r\n" + b"x" * 999 + b"\r\n", "554 5.6.0"),
        (b"Subject: " + b"x" * 1200 + b"\r\n\r\n", "554 5.6.0"),
        (b"Subject: x\r\n\r\n" + b"x" * 3_000_000 + b"\r\n", "552 5.3.4"),
        (b"Subject: x\r\n\r\n" + b"x\r\n" * 30_000, "552 5.3.4"),
        ("Subject: grüße\r\n\r\n".encode(), "554 5.6.0"),
        (b"Priority: soon\r\n\r\nx\r\n", "554 5.6.0"),
        (b"Received: x\r\n" * 100 + b"\r\nx\r\n", "554 5.4.6"),
    ],
    ids=["nul", "long-line", "long-header-line", "long-and-large", "large", "eight-bit-header", "bad-priority", "b21-loop"],
)
async def test_b40_refused_once_at_the_end_and_the_session_goes_on(start: Start, content: bytes, reply: str) -> None:
    """DAT-04, DAT-06, DAT-21, HDR-19."""
    running = await start(max_message_size=65536)
    async with await SmtpClient.connect(running.endpoint) as client:
        said = await client.submit(content)
        assert said.startswith(reply)
        assert running.spool.accepted == []
        assert running.facts == [Refused("127.0.0.1", said, "content")]
        assert (await client.submit(MAIL)).startswith("250 2.0.0")


async def test_b03_bare_newlines_are_refused_where_that_is_wanted(start: Start) -> None:
    """LIN-03."""
    running = await start(bare_newlines="reject")
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(b"Subject: x\n\nx\r\n")).startswith("554 5.6.0")
        assert await client.command("NOOP") == "250 2.0.0 Ok"


async def test_dat22_an_empty_message_is_completed(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(b"")).startswith("250")
    message = message_from_bytes(running.spool.last[1], policy=email.policy.default)
    assert set(message) == {"Received", "Message-ID", "Date"}


async def test_a_header_section_without_end_is_refused(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        said = await client.submit(b"X-Filler: " + b"x" * 900 + b"\r\n" + (b" " + b"x" * 900 + b"\r\n") * 1200)
    assert said == "554 5.6.0 The header section is longer than 1048576 octets"


async def test_a_header_section_of_too_many_fields_is_refused(start: Start) -> None:
    """Reading them would hold up everybody else."""
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        assert (await client.submit(b"a:\r\n" * 10_000 + b"\r\n")).startswith("250")
        said = await client.submit(b"a:\r\n" * 10_001 + b"\r\n")
    assert said == "554 5.6.0 The header section has more than 10000 fields"


async def test_adr15_a_mailbox_gets_one_copy(start: Start) -> None:
    running = await start(aliases={"root": ("ops@admin.test", "ann@example.org")})
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.submit(MAIL, recipients=["ann@example.org", '"ann"@EXAMPLE.org', "Ann@example.org", "root"])
    assert [recipient.address for recipient in running.spool.last[0].recipients] == [
        "ann@example.org",
        "Ann@example.org",
        "ops@admin.test",
    ]


async def test_lin17_recipients_beyond_the_limit_wait_for_the_next_transaction(start: Start) -> None:
    running = await start(max_recipients=100)
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        await client.command("MAIL FROM:<a@shop.test>")
        said = [await client.command(f"RCPT TO:<r{turn}@example.org>") for turn in range(102)]
        assert said[:100] == ["250 2.1.5 Ok"] * 100
        assert said[100:] == ["452 4.5.3 Too many recipients"] * 2
        assert await client.command("RCPT TO:<r5@example.org>") == "250 2.1.5 Ok"
        await client.command("DATA")
        await client.send(b".\r\n")
        assert (await client.reply()).startswith("250")
    assert len(running.spool.last[0].recipients) == 100


async def test_hdr11_hdr16_recipients_are_named_only_where_there_is_one(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.submit(MAIL, recipients=["ann@example.org"])
        await client.submit(b"Bcc: bob@example.org\r\n" + MAIL, recipients=["ann@example.org", "bob@example.org"])
    alone, several = (content for _, content in running.spool.accepted)
    assert alone.count(b"\r\n\tfor <ann@example.org>;") == 1
    assert b"@example.org" not in several


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (SpoolFull("no space on /var/spool/x.db"), "452 4.3.1"),
        (SpoolError("SQL of /var/spool/x.db"), "451 4.3.0"),
        (sqlite3.OperationalError("disk I/O error /var/spool/x.db"), "451 4.3.0"),
        (MemoryError(), "451 4.3.0"),
        (TimeoutError(), "451 4.3.0"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("where", ["buffer", "write", "accept"])
async def test_b56_internal_trouble_is_transient_and_tells_nothing(
    start: Start, error: Exception, reply: str, where: str
) -> None:
    """DAT-07, SPL-03."""
    spool = MemorySpool()
    running = await start(spool=spool)
    whole = spool.buffer

    def fail(*_: object) -> Any:
        raise error

    def failing_buffer() -> Any:
        buffer = whole()
        buffer.write = fail  # type: ignore[method-assign]
        return buffer

    async def fail_to_accept() -> None:
        raise error

    spool.buffer = {"buffer": fail, "write": failing_buffer, "accept": whole}[where]
    spool.before_accept = fail_to_accept if where == "accept" else None
    async with await SmtpClient.connect(running.endpoint) as client:
        if where == "buffer":
            for line in ("EHLO c.test", "MAIL FROM:<a@b.test>", "RCPT TO:<c@d.test>"):
                await client.command(line)
            said = await client.command("DATA")
        else:
            said = await client.submit(MAIL)
        assert said.startswith(reply)
        assert not any(word in said for word in ("/var", "SQL", "Error", "disk"))
        trouble = next(fact for fact in running.facts if isinstance(fact, Trouble))
        assert type(error).__name__ in trouble.detail
        assert reply == "452 4.3.1" or said.split("error ")[1].rstrip(")") in trouble.what
        spool.buffer, spool.before_accept = whole, None
        assert (await client.submit(MAIL)).startswith("250 2.0.0")


async def test_b56_trouble_in_a_command_ends_its_transaction_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        with monkeypatch.context() as patch:
            patch.setattr("mta.listener.conversation.mail", lambda *_, **__: 1 / 0)
            said = await client.command("MAIL FROM:<a@shop.test>")
        assert said.startswith("451 4.3.0")
        assert "division" not in said
        assert (await client.submit(MAIL)).startswith("250")


async def test_ses27_a_stuck_client_blocks_nobody(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as stuck, await SmtpClient.connect(running.endpoint) as other:
        await stuck.envelope()
        await stuck.send(b"Subject: x\r\n")
        assert (await other.submit(MAIL)).startswith("250")
