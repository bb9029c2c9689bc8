"""Clients that other people wrote: nodemailer, swaks, msmtp, curl, and `mail` by way of `mta sendmail`."""

import email
import os
import sys
from email import policy
from pathlib import Path

import pytest

from tests.clients.conftest import submit
from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, Message, ScriptedMx
from tests.support.offered import offered, require

NODE = Path(__file__).parent / "node"
MODULES = Path(__file__).parents[2] / ".venv-tests/node/node_modules"
"""Where tests/run installs what package-lock.json names."""
MAIL = b"From: app@shop.test\nTo: ann@good.test\nSubject: x\n\nfirst\n.\n..two\n.three\n\ngr\xc3\xb6\xc3\x9fe\nlast\n"
BODY = MAIL.partition(b"\n\n")[2].replace(b"\n", b"\r\n")


async def good(running: World, *extensions: str) -> ScriptedMx:
    return await running.mx("good.test", extensions=(*EXTENSIONS, *extensions))


async def only(mx: ScriptedMx) -> Message:
    (message,) = await until(lambda: mx.messages)
    return message


def body(message: Message) -> bytes:
    return message.content.partition(b"\r\n\r\n")[2]


# ---------------------------------------------------------------- nodemailer
async def nodemailer(running: World, kind: str) -> str:
    host, port = running.daemon.endpoint
    env = {"NODE_PATH": os.environ.get("NODE_PATH", str(MODULES))}
    return await submit("node", str(NODE / "send.js"), host, str(port), kind, env=env)


@pytest.mark.nodemailer
async def test_nodemailer_text(running: World) -> None:
    mx = await good(running)
    assert (await nodemailer(running, "text")).startswith("250 2.0.0 Ok: queued as ")
    message = await only(mx)
    assert sorted(message.forward_paths) == ["ann@good.test", "bob@good.test", "carl@good.test"]
    parsed = email.message_from_bytes(message.content, policy=policy.default)
    assert parsed["Subject"] == "größe" and "carl" not in message.content.decode()
    assert parsed.get_content().replace("\r\n", "\n").rstrip("\n") == "first\n.\n..two\n.three\n\ngröße €\nlast"  # type: ignore[attr-defined]


@pytest.mark.nodemailer
async def test_nodemailer_attachment(running: World) -> None:
    mx = await good(running)
    await nodemailer(running, "html")
    parsed = email.message_from_bytes((await only(mx)).content, policy=policy.default)
    (attachment,) = parsed.iter_attachments()  # type: ignore[attr-defined]
    assert attachment.get_content() == bytes(at % 256 for at in range(4096))


@pytest.mark.nodemailer
async def test_nodemailer_utf8(running: World) -> None:
    """EXT-09."""
    require({"SMTPUTF8"}, await offered(running.daemon.endpoint))
    mx = await good(running, "SMTPUTF8")
    await nodemailer(running, "utf8")
    message = await until(lambda: next((it for it in mx.messages if "j" in it.rcpts[0]), None))
    assert "SMTPUTF8" in message.mail


@pytest.mark.nodemailer
async def test_nodemailer_dsn(running: World) -> None:
    """DSN-01, DSN-02, DSN-03."""
    require({"DSN"}, await offered(running.daemon.endpoint))
    mx = await good(running, "DSN")
    await nodemailer(running, "dsn")
    message = await only(mx)
    assert "RET=HDRS" in message.mail and "ENVID=order-1" in message.mail
    assert all("NOTIFY=FAILURE,DELAY" in line and "ORCPT=rfc822;ann@good.test" in line for line in message.rcpts)


# ---------------------------------------------------------------- swaks
@pytest.mark.swaks
@pytest.mark.parametrize("pipeline", [False, True])
async def test_swaks(running: World, pipeline: bool) -> None:
    """EXT-06: with and without PIPELINING."""
    mx = await good(running)
    host, port = running.daemon.endpoint
    told = await submit(
        "swaks", "--server", host, "--port", str(port), "--helo", "client.test", "--from", "app@shop.test",
        "--to", "ann@good.test,bob@good.test", "--header", "Subject: swaks", "--body", "first\\n.\\n..two\\nlast",
        *(["--pipeline"] if pipeline else []),
    )  # fmt: skip
    assert "250 2.0.0 Ok: queued as " in told
    message = await only(mx)
    assert sorted(message.forward_paths) == ["ann@good.test", "bob@good.test"]
    assert body(message).startswith(b"first\r\n.\r\n..two\r\nlast\r\n")


# ---------------------------------------------------------------- msmtp
@pytest.mark.msmtp
async def test_msmtp(running: World) -> None:
    mx = await good(running)
    await submit(*_msmtp(running), "ann@good.test", stdin=MAIL)
    assert body(await only(mx)) == BODY


@pytest.mark.msmtp
async def test_msmtp_takes_recipients_from_the_header(running: World) -> None:
    mx = await good(running)
    await submit(*_msmtp(running), "-t", stdin=b"Bcc: bob@good.test\n" + MAIL)
    message = await only(mx)
    assert sorted(message.forward_paths) == ["ann@good.test", "bob@good.test"]
    assert b"bob@" not in message.content


@pytest.mark.msmtp
async def test_msmtp_dsn(running: World) -> None:
    """DSN-01, DSN-02."""
    require({"DSN"}, await offered(running.daemon.endpoint))
    mx = await good(running, "DSN")
    await submit(*_msmtp(running), "--dsn-notify=failure,delay", "--dsn-return=full", "ann@good.test", stdin=MAIL)
    message = await only(mx)
    assert "RET=FULL" in message.mail and "NOTIFY=FAILURE,DELAY" in message.rcpts[0]


def _msmtp(running: World) -> list[str]:
    host, port = running.daemon.endpoint
    return ["msmtp", f"--host={host}", f"--port={port}", "--from=app@shop.test", "--domain=client.test", "--file=/dev/null"]


# ---------------------------------------------------------------- curl
@pytest.mark.curl
async def test_curl(running: World) -> None:
    mx = await good(running)
    mail = running.folder / "mail"
    mail.write_bytes(MAIL.replace(b"\n", b"\r\n"))
    host, port = running.daemon.endpoint
    await submit(
        "curl", "--silent", "--show-error", f"smtp://{host}:{port}/client.test", "--mail-from", "app@shop.test",
        "--mail-rcpt", "ann@good.test", "--mail-rcpt", "bob@good.test", "--upload-file", str(mail),
    )  # fmt: skip
    message = await only(mx)
    assert sorted(message.forward_paths) == ["ann@good.test", "bob@good.test"]
    assert body(message) == BODY


@pytest.mark.curl
async def test_curl_asks(running: World) -> None:
    """SES-18."""
    host, port = running.daemon.endpoint
    told = await submit("curl", "--silent", "--show-error", f"smtp://{host}:{port}", "--request", "VRFY ann@good.test")
    assert told.startswith("252 2.0.0 ")


# ---------------------------------------------------------------- mail
@pytest.mark.mailx
async def test_mail(running: World) -> None:
    """`mail` as people type it, with /usr/sbin/sendmail's part played by `mta sendmail`."""
    mx = await good(running)
    sendmail = running.folder / "sendmail"
    mta = Path(sys.executable).with_name("mta")
    sendmail.write_text(f'#!/bin/sh\nexec {mta} sendmail --config {running.daemon.file} "$@"\n')
    sendmail.chmod(0o755)
    if (await running.daemon.cli("sendmail", "-bp")).code != 0:
        pytest.skip("needs the command mta sendmail, which is not there")
    settings = running.folder / "mailrc"
    settings.write_text(f"set sendmail={sendmail}\nset sendwait\n")
    await submit(
        "bsd-mailx", "-s", "hello", "-r", "app@shop.test", "-b", "bob@good.test", "ann@good.test",
        stdin=b"first\n..two\nlast\n", env={"MAILRC": str(settings)},
    )  # fmt: skip
    message = await only(mx)
    assert sorted(message.forward_paths) == ["ann@good.test", "bob@good.test"]
    assert message.reverse_path == "app@shop.test"
    assert b"bob@" not in message.content and body(message) == b"first\r\n..two\r\nlast\r\n"
