"""Python's smtplib, in the ways that programs use it: what was meant is what arrives."""

import asyncio
import email
import smtplib
from collections.abc import Callable
from email import policy
from email.message import EmailMessage
from email.policy import SMTPUTF8
from typing import Any

import pytest

from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, Message, ScriptedMx
from tests.support.offered import offered, require

HEAD = "From: app@shop.test\nTo: ann@good.test\nSubject: x\n\n"
TEXT = "first\n.\n..two\n.three\n\ntab\t end \nlast\n"


async def deliver(running: World, send: Callable[[smtplib.SMTP], Any], *extensions: str) -> Message:
    mx: ScriptedMx = await running.mx("good.test", extensions=(*EXTENSIONS, *extensions))

    def run() -> None:
        with smtplib.SMTP(*running.daemon.endpoint) as server:
            assert send(server) in ({}, None)

    await asyncio.to_thread(run)
    (message,) = await until(lambda: mx.messages)
    return message


def body(message: Message) -> bytes:
    return message.content.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
async def test_sendmail_of_text(running: World, line_end: str) -> None:
    text = (HEAD + TEXT).replace("\n", line_end)
    message = await deliver(running, lambda server: server.sendmail("app@shop.test", ["ann@good.test"], text))
    assert body(message) == TEXT.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
async def test_sendmail_of_octets(running: World, line_end: str) -> None:
    """8-bit text, with LF alone where Python leaves it so (LIN-03's deviation)."""
    text = (HEAD + TEXT + "größe\n").replace("\n", line_end).encode()
    message = await deliver(
        running, lambda server: server.sendmail("app@shop.test", ["ann@good.test"], text, mail_options=["body=8bitmime"])
    )
    added = b"" if text.endswith(b"\r\n") else b"\r\n"  # by smtplib itself
    assert body(message) == (TEXT + "größe\n").replace("\n", "\r\n").encode() + added
    assert "BODY=8BITMIME" in message.mail


async def test_send_message(running: World) -> None:
    """With an attachment; Bcc's recipients get it without knowing of each other."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Bcc"] = "Shöp <app@shop.test>", "ann@good.test", "bob@good.test"
    mail["Subject"] = "größe"
    mail.set_content("größe\n")
    mail.add_attachment(bytes(range(256)) * 50, maintype="application", subtype="octet-stream", filename="ü.bin")
    message = await deliver(running, lambda server: server.send_message(mail))
    assert sorted(message.forward_paths) == ["ann@good.test", "bob@good.test"]
    assert b"bob@good.test" not in message.content
    assert email.message_from_bytes(message.content, policy=policy.default)["Subject"] == "größe"


async def test_send_message_with_utf8(running: World) -> None:
    """EXT-09: to a non-ASCII address, with a policy that leaves the header section in UTF-8."""
    require({"SMTPUTF8"}, await offered(running.daemon.endpoint))
    mail = EmailMessage(SMTPUTF8)
    mail["From"], mail["To"], mail["Subject"] = "app@shop.test", "jörg@good.test", "größe"
    mail.set_content("x\n")
    message = await deliver(running, lambda server: server.send_message(mail), "SMTPUTF8")
    assert "SMTPUTF8" in message.mail
    assert "Subject: größe\r\n".encode() in message.content


async def test_dsn_options(running: World) -> None:
    """DSN-01, DSN-02, DSN-03: they go on as they came."""
    require({"DSN"}, await offered(running.daemon.endpoint))
    message = await deliver(
        running,
        lambda server: server.sendmail(
            "app@shop.test", ["ann@good.test"], HEAD + TEXT, ["RET=HDRS", "ENVID=order+2B1"],
            ["NOTIFY=FAILURE,DELAY", "ORCPT=rfc822;ann+2Bx@good.test"],
        ),
        "DSN",
    )  # fmt: skip
    assert "RET=HDRS" in message.mail and "ENVID=order+2B1" in message.mail
    assert all(word in message.rcpts[0] for word in ("NOTIFY=FAILURE,DELAY", "ORCPT=rfc822;ann+2Bx@good.test"))


async def test_a_refused_recipient_is_named(running: World) -> None:
    mx = await running.mx("good.test")

    def send() -> dict[str, tuple[int, bytes]]:
        with smtplib.SMTP(*running.daemon.endpoint) as server:
            return server.sendmail("app@shop.test", ["ann@good.test", "bob@sales"], HEAD + TEXT)

    refused = await asyncio.to_thread(send)
    assert {address: code for address, (code, _) in refused.items()} == {"bob@sales": 554}
    (message,) = await until(lambda: mx.messages)
    assert message.forward_paths == ["ann@good.test"]


async def test_many_messages_in_one_session(running: World) -> None:
    mx = await running.mx("good.test")

    def send() -> None:
        with smtplib.SMTP(*running.daemon.endpoint) as server:
            for number in range(20):
                server.sendmail("app@shop.test", [f"r{number}@good.test"], HEAD + TEXT)

    await asyncio.to_thread(send)
    await until(lambda: len(mx.messages) == 20)
    assert sorted(path for it in mx.messages for path in it.forward_paths) == sorted(f"r{at}@good.test" for at in range(20))
