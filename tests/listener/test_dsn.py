"""What is asked of DSNs, over SMTP: what becomes of it in the spool, and that it makes no other email (RFC 3461)."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from mta.doorbell import Doorbell
from mta.spool.base import DoubtPolicy
from mta.spool.connection import connect_inline
from mta.spool.sqlite import open_sqlite
from tests.support.smtp_client import SmtpClient
from tests.support.submission import NOW, Bench

Start = Callable[..., Awaitable[Bench]]
CONTENT = "From: app@shop.test\r\nSubject: Your receipt\r\nIdempotency-Key: order-1\r\n\r\nx\r\n."


async def submit(running: Bench, mail: str, *rcpts: str) -> str:
    """The reply to the final dot."""
    async with await SmtpClient.connect(running.endpoint) as client:
        for line in ("EHLO c.test", f"MAIL FROM:<app@shop.test>{mail}", *(f"RCPT TO:{rcpt}" for rcpt in rcpts)):
            assert (await client.command(line)).startswith("250"), line
        await client.command("DATA")
        return await client.command(CONTENT)


async def test_spl_04_adr_15_a_mailbox_named_twice_is_one_recipient_with_what_either_asks(start: Start) -> None:
    running = await start()
    asked = ("NOTIFY=NEVER", "NOTIFY=SUCCESS ORCPT=rfc822;a", "ORCPT=x;b")
    ann = [f"<ann@{domain}> {it}" for domain, it in zip(("Example.org", "example.org", "EXAMPLE.ORG"), asked, strict=True)]
    await submit(running, " RET=HDRS ENVID=Q", *ann, "<Ann@example.org> NOTIFY=NEVER")
    message, _ = running.spool.last
    assert (message.ret, message.envid) == ("HDRS", "Q")
    assert [(it.address, it.notify, it.orcpt) for it in message.recipients] == [
        ("ann@Example.org", "SUCCESS,FAILURE,DELAY", "rfc822;a"),
        ("Ann@example.org", "NEVER", ""),
    ]


async def test_dsn_01_a_reset_forgets_what_was_asked(start: Start) -> None:
    running = await start()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        await client.command("MAIL FROM:<app@shop.test> RET=FULL ENVID=Q")
        await client.command("RCPT TO:<ann@example.org> NOTIFY=NEVER")
        await client.command("RSET")
        await client.submit(b"Subject: x\r\n\r\nx\r\n")
    message, _ = running.spool.last
    assert (message.ret, message.envid, message.recipients[0].notify) == ("", "", "")


async def test_the_same_email_that_asks_for_other_dsns_is_a_duplicate(start: Start, tmp_path: Path) -> None:
    """They are no part of what it is."""
    doubts = DoubtPolicy(True, 600)
    spool, _ = await open_sqlite(tmp_path / "s.db", doubts=doubts, now=NOW, doorbell=Doorbell(), connect=connect_inline)
    running = await start(spool=spool)
    first = await submit(running, "", "<ann@example.org>")
    again = await submit(running, " RET=FULL ENVID=2", "<ann@example.org> NOTIFY=NEVER ORCPT=rfc822;x")
    assert again == f"250 2.0.0 Ok: duplicate of {first.split()[-1]} (pending)"
    await spool.close()
