"""Real clients that authenticate inside TLS, from a network that may not submit without (EXT-13, EXT-14, EXT-15)."""

import os
import smtplib
from asyncio import to_thread
from collections.abc import AsyncIterator

import pytest

from tests.clients.conftest import submit
from tests.clients.test_programs import MODULES, NODE
from tests.dialogues.houses import PASSWORD, USER, House, Houses
from tests.dialogues.script import unverified
from tests.support.daemon import until
from tests.support.mx import Message
from tests.support.offered import require

MAIL = b"From: app@shop.test\r\nTo: ann@dest.test\r\nSubject: x\r\n\r\nfirst\r\n..two\r\nlast\r\n"


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with Houses() as houses:
        house = await houses.get("users")
        require({"STARTTLS", "AUTH"}, await house.offers("plain"))
        yield house


async def arrived(house: House) -> Message:
    """Once, by ESMTPSA, with what was meant."""
    (message,) = await until(lambda: house.dest.messages)
    assert b" with ESMTPSA id " in message.content
    assert b"\r\n\r\nfirst\r\n..two\r\nlast\r\n" in message.content
    assert PASSWORD not in house.world.daemon.log_text
    return message


@pytest.mark.parametrize("door", ["plain", "tls"])
async def test_smtplib(house: House, door: str) -> None:
    def send() -> None:
        kind, options = (smtplib.SMTP_SSL, {"context": unverified()}) if door == "tls" else (smtplib.SMTP, {})
        with kind(*house.doors[door], **options) as server:
            if door == "plain":
                server.starttls(context=unverified())
            with pytest.raises(smtplib.SMTPResponseException, match=r"5\.7\.0"):
                server.sendmail("app@shop.test", ["ann@dest.test"], MAIL)
            server.login(USER, PASSWORD)
            server.sendmail("app@shop.test", ["ann@dest.test"], MAIL)

    await to_thread(send)
    await arrived(house)


async def test_a_user_who_is_removed_loses_the_session_that_is_open(house: House) -> None:
    """`mta user remove` and SIGHUP: 421 at the next MAIL; the last one gone, nobody need come any more."""
    server = await to_thread(lambda: smtplib.SMTP_SSL(*house.doors["tls"], context=unverified()))
    await to_thread(server.login, USER, PASSWORD)
    assert (await to_thread(server.mail, "app@shop.test"))[0] == 250
    await to_thread(server.rset)
    assert (await house.world.daemon.cli("user", "remove", USER)).code == 0
    await house.world.daemon.reload()
    assert (await to_thread(server.mail, "app@shop.test"))[0] == 421
    with pytest.raises(smtplib.SMTPConnectError, match="554"):
        await to_thread(lambda: smtplib.SMTP_SSL(*house.doors["tls"], context=unverified()))


@pytest.mark.nodemailer
async def test_nodemailer(house: House) -> None:
    host, port = house.doors["plain"]
    env = {"NODE_PATH": os.environ.get("NODE_PATH", str(MODULES))}
    await submit("node", str(NODE / "send.js"), host, str(port), "user", USER, PASSWORD, env=env)
    await arrived(house)


@pytest.mark.swaks
@pytest.mark.parametrize(("door", "tls"), [("plain", "--tls"), ("tls", "--tls-on-connect")])
@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
async def test_swaks(house: House, door: str, tls: str, mechanism: str) -> None:
    host, port = house.doors[door]
    await submit(
        "swaks", "--server", host, "--port", str(port), tls, "--auth", mechanism, "--auth-user", USER,
        "--auth-password", PASSWORD, "--helo", "client.test", "--from", "app@shop.test", "--to", "ann@dest.test",
        "--body", "first\\n..two\\nlast",
    )  # fmt: skip
    await arrived(house)


@pytest.mark.msmtp
async def test_msmtp(house: House) -> None:
    host, port = house.doors["plain"]
    await submit(
        "msmtp", "--file=/dev/null", f"--host={host}", f"--port={port}", "--from=app@shop.test", "--domain=client.test",
        "--tls=on", "--tls-starttls=on", "--tls-certcheck=off", "--auth=plain", f"--user={USER}",
        f"--passwordeval=echo {PASSWORD}", "ann@dest.test", stdin=MAIL.replace(b"\r\n", b"\n"),
    )  # fmt: skip
    await arrived(house)


@pytest.mark.curl
@pytest.mark.parametrize("door", ["plain", "tls"])
async def test_curl(house: House, door: str) -> None:
    host, port = house.doors[door]
    mail = house.world.folder / "mail"
    mail.write_bytes(MAIL)
    await submit(
        "curl", "--silent", "--show-error", f"{'smtps' if door == 'tls' else 'smtp'}://{host}:{port}/client.test",
        "--ssl-reqd", "--insecure", "--user", f"{USER}:{PASSWORD}", "--mail-from", "app@shop.test",
        "--mail-rcpt", "ann@dest.test", "--upload-file", str(mail),
    )  # fmt: skip
    await arrived(house)
