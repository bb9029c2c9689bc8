"""What a submission asks of DSNs, from MAIL and RCPT to what its sender and the next server get (RFC 3461)."""

from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

import pytest

from tests.e2e.reports import delivery_status, parsed
from tests.e2e.world import POSTMASTER, SENDER, World
from tests.support.daemon import Daemon, until

REFUSING = {"RCPT": "550 5.1.1 no such user"}
BODY = b"Gr\xc3\xbc\xc3\x9fe an alle, und nun der ganze Text:\r\n" + b"..punkt, eine lange Zeile ohne Umlaute\r\n" * 2000
MIME = b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n"


async def submit(daemon: Daemon, *rcpts: str, mail: str = "", body: bytes = b"hello\r\n", mime: bytes = b"") -> str:
    """The queue id; `rcpts` are the arguments of RCPT, `mail` the parameters of MAIL."""
    async with await daemon.client() as client:
        await client.command("EHLO client.test")
        for line in (f"MAIL FROM:<{SENDER}>{mail}", *(f"RCPT TO:{rcpt}" for rcpt in rcpts)):
            assert (await client.command(line)).startswith("250 "), line
        assert (await client.command("DATA")).startswith("354")
        head = b"From: %s\r\nSubject: hello\r\n%s\r\n" % (SENDER.encode(), mime)
        reply = await client.command(head + body + b".")
    assert reply.startswith("250 2.0.0 Ok: queued as "), reply
    return reply.split()[-1]


async def test_dsn_06_notify_never_fails_in_silence_but_not_for_the_postmaster(running: World) -> None:
    await running.mx("bad.test", script=REFUSING)
    queue_id = await submit(running.daemon, "<ann@bad.test> NOTIFY=NEVER")
    await until(lambda: running.daemon.has(queue_id, "failed"))
    (report,) = await until(lambda: running.mail_for(POSTMASTER))
    assert b"its sender asked not to be told" in report.content
    await until(running.daemon.idle)
    assert not running.bounces()


async def test_dsn_05_a_success_at_a_server_without_dsn_is_told_once(running: World) -> None:
    await running.mx("plain.test")
    queue_id = await submit(
        running.daemon,
        "<ann@plain.test> NOTIFY=SUCCESS ORCPT=rfc822;Ann+2B1@plain.test",
        "<bob@plain.test> NOTIFY=FAILURE",
        mail=" ENVID=QQ+2B314159 RET=FULL",
    )
    (report,) = await until(running.bounces)
    message, recipient = delivery_status(report)
    assert message["Original-Envelope-Id"] == "QQ+314159"
    assert recipient["Original-Recipient"] == "rfc822; Ann+1@plain.test"
    assert (recipient["Action"], recipient["Status"]) == ("relayed", "2.0.0")
    assert [part.get_content_type() for part in parsed(report).iter_parts()][2] == "text/rfc822-headers"
    await until(running.daemon.idle)
    assert len(running.bounces()) == 1
    shown = await running.daemon.show(queue_id)
    assert (shown["ret"], shown["envid"]) == ("FULL", "QQ+2B314159")
    assert [it["notify"] for it in shown["recipients"]] == ["SUCCESS", "FAILURE"]


async def test_dsn_03_dsn_04_what_was_asked_reaches_a_server_with_dsn_as_it_was(running: World) -> None:
    orcpt = f"ORCPT=rfc822;{'Long+2B' * 70}@Old.test"
    mx = await running.mx("dsn.test", extensions=("PIPELINING", "DSN"))
    asked = f" RET=HDRS ENVID={'e' * 100}"
    ann = f"<ann@dsn.test> NOTIFY=SUCCESS,FAILURE {orcpt}"
    queue_id = await submit(running.daemon, ann, "<bob@dsn.test>", mail=asked)
    await until(lambda: running.daemon.has(queue_id, "sent"))
    (message,) = mx.messages
    assert message.mail == f"MAIL FROM:<{SENDER}>{asked}"
    assert message.rcpts == [f"RCPT TO:{ann}", "RCPT TO:<bob@dsn.test>"]
    await until(running.daemon.idle)
    assert not running.bounces()


@pytest.mark.parametrize("ret", ["", " RET=HDRS", " RET=FULL"])
async def test_dsn_10_ret_full_returns_the_message_in_7_bits(running: World, ret: str) -> None:
    """B37: also to a sender whose server has no 8BITMIME."""
    running.home.extensions = ("PIPELINING",)
    await running.mx("bad.test", script=REFUSING)
    await submit(running.daemon, "<ann@bad.test>", mail=ret, body=BODY, mime=MIME)
    (bounce,) = await until(running.bounces)
    back = [*parsed(bounce).iter_parts()][2]
    if ret != " RET=FULL":
        assert back.get_content_type() == "text/rfc822-headers"
        return
    assert back.get_content_type() == "message/rfc822"
    original = BytesParser(policy=default).parsebytes(bounce.content.partition(b"Content-Type: message/rfc822\r\n\r\n")[2])
    assert isinstance(original, EmailMessage)
    text = original.get_payload(decode=True).partition(b"\r\n--=_")[0]
    assert text.startswith("Grüße an alle".encode()) and text.count(b"\r\n.punkt") == 2000
