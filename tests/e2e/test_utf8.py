"""Mail beyond ASCII through the whole daemon: B36, B38, and the reports about it."""

import json
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast

from tests.e2e.reports import delivery_status, parsed
from tests.e2e.world import POSTMASTER, World, no_surprise, subject
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, Message

OFFERING = (*EXTENSIONS, "SMTPUTF8")
HELLO = "From: Jörg <app@shop.test>\r\nSubject: grüße\r\n\r\nüber\r\n.\r\n"
PLAIN = "From: app@shop.test\r\nSubject: hello\r\n\r\nhello\r\n.\r\n"


async def submit(world: World, *recipients: str, sender: str = "app@shop.test", content: str = PLAIN) -> str:
    """The queue id."""
    async with await world.daemon.client() as client:
        lines = ["EHLO client.test", f"MAIL FROM:<{sender}> SMTPUTF8", *(f"RCPT TO:<{it}>" for it in recipients)]
        for line in lines:
            reply = await client.command(line.encode())
            assert reply.startswith("250"), f"{line}: {reply}"
        assert (await client.command("DATA")).startswith("354")
        await client.send(content.encode())
        reply = await client.reply()
    assert reply.startswith("250 2.0.0 Ok: queued as "), reply
    return reply.split()[-1]


def paths(message: Message) -> list[str]:
    return [it.encode("latin-1").decode() for it in message.forward_paths]


async def test_b36_one_recipient_fails_the_others_go_on_and_the_dsn_is_plain(running: World) -> None:
    """DSN-16, EXT-10."""
    mx, daemon = await running.mx("good.test"), running.daemon
    with no_surprise(daemon):
        queue_id = await submit(running, "jörg@good.test", "ann@good.test")
        (bounce,) = await until(running.bounces)
        await until(daemon.idle)
    assert [paths(it) for it in mx.messages] == [["ann@good.test"]]
    assert "SMTPUTF8" not in mx.messages[0].mail
    _, group = delivery_status(bounce)
    assert (group["Final-Recipient"], group["Action"], group["Status"]) == (
        "utf-8; j\\x{F6}rg@good.test", "failed", "5.6.7",
    )  # fmt: skip
    text, *_ = parsed(bounce).iter_parts()
    assert "<jörg@good.test>: not delivered" in cast(EmailMessage, text).get_content()
    shown = await daemon.cli("show", queue_id)
    assert "jörg@good.test: failed" in shown.out


async def test_b36_the_need_is_the_content_s(running: World) -> None:
    plain, offering = await running.mx("plain.test"), await running.mx("offering.test", extensions=OFFERING)
    await submit(running, "ann@plain.test", "ann@offering.test", content=PLAIN.replace("hello\r\n.", "über\r\n."))
    await submit(running, "bob@offering.test", content=HELLO)
    await until(lambda: len(plain.messages) == 1 and len(offering.messages) == 2)
    of_body, of_header = sorted(offering.messages, key=lambda it: it.forward_paths)
    assert "SMTPUTF8" not in plain.messages[0].mail + of_body.mail
    assert of_header.mail.endswith(" SMTPUTF8")
    assert HELLO.removesuffix(".\r\n").partition("\r\n\r\n")[2].encode() in of_header.content
    assert "From: Jörg <app@shop.test>\r\nSubject: grüße\r\n".encode() in of_header.content


async def test_dsn16_a_sender_beyond_ascii_gets_the_global_forms(running: World) -> None:
    home = await running.mx("xn--bcher-kva.test", extensions=OFFERING)
    await running.mx("good.test", extensions=OFFERING, script={"RCPT": "550 5.1.1 no such user"})
    await submit(running, "ann@good.test", "jörg@good.test", sender="shöp@bücher.test", content=HELLO)
    (bounce,) = await until(lambda: home.messages)
    assert bounce.mail.startswith("MAIL FROM:<> ") and bounce.mail.endswith("BODY=8BITMIME SMTPUTF8")
    assert paths(bounce) == ["shöp@bücher.test"]
    message = message_from_bytes(bounce.content, policy=policy.SMTPUTF8)
    kinds = [part.get_content_type() for part in message.iter_parts()]
    assert kinds == ["text/plain", "message/global-delivery-status", "message/global-headers"]
    assert "\r\nSubject: grüße\r\n".encode() in bounce.content
    assert b"Final-Recipient: rfc822; ann@good.test" in bounce.content
    assert "Final-Recipient: utf-8; jörg@good.test".encode() in bounce.content


async def test_dsn16_where_the_sender_cannot_be_told_the_postmaster_is(running: World) -> None:
    """The way back needs SMTPUTF8 for the address itself: no form of the DSN could go it."""
    await running.mx("good.test")
    with no_surprise(running.daemon):
        await submit(running, "ann@good.test", sender="shöp@shop.test")
        reports = await until(lambda: [it for it in running.mail_for(POSTMASTER) if b"delivery report" in it.content])
    assert all(it.raw.isascii() for it in reports) and subject(reports[0])


async def test_b38_all_spellings_of_a_domain_are_one(running: World) -> None:
    """To a server that has never heard of SMTPUTF8."""
    mx = await running.mx("xn--bcher-kva.test", script={"RCPT": ["250 2.1.5 ok", "550 5.1.1 no such user"]})
    await submit(running, "info@BÜCHER.test", "INFO@Bücher.test", "INFO@xn--bcher-kva.test")
    (bounce,) = await until(running.bounces)
    await until(running.daemon.idle)
    assert [line for line in mx.commands if line.startswith("RCPT")] == [
        "RCPT TO:<info@xn--bcher-kva.test>", "RCPT TO:<INFO@xn--bcher-kva.test>",
    ]  # fmt: skip
    assert "SMTPUTF8" not in "".join(mx.commands)
    _, group = delivery_status(bounce)
    assert group["Final-Recipient"] == "rfc822; INFO@xn--bcher-kva.test"


async def test_b38_no_such_domain(running: World) -> None:
    await submit(running, "info@nirgendwö.test")
    (bounce,) = await until(running.bounces)
    _, group = delivery_status(bounce)
    assert (group["Final-Recipient"], group["Status"]) == ("rfc822; info@xn--nirgendw-u4a.test", "5.1.2")
    assert b"??" not in bounce.content


async def test_a_person_names_such_mail_in_any_spelling(running: World) -> None:
    """Over a restart, whose checks of what is stored it passes."""
    daemon = running.daemon
    await daemon.ask("hold --all")
    queue_id = await submit(running, "jörg@bücher.test", "ann@bücher.test", sender="shöp@bücher.test")
    await daemon.stop()
    await daemon.start()
    for option in ("--sender=shöp@BÜCHER.test", "--domain=bücher.test", "--domain=XN--BCHER-KVA.test"):
        listed = json.loads((await daemon.cli("queue", "--json", option)).out)
        assert [it["queue_id"] for it in listed["messages"]] == [queue_id], option
    assert (await daemon.cli("cancel", queue_id, "--recipient", "jörg@xn--bcher-kva.test")).code == 0
    shown = json.loads((await daemon.cli("show", "--json", queue_id)).out)
    assert {it["address"]: it["status"] for it in shown["recipients"]} == {
        "jörg@bücher.test": "cancelled", "ann@xn--bcher-kva.test": "pending",
    }  # fmt: skip
