"""Against a real Postfix, and with its load tools."""

import asyncio
import email
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import dns.flags
import pytest

from tests.e2e.reports import delivery_status
from tests.e2e.world import World
from tests.support.certificates import in_zone, tlsa
from tests.support.daemon import until
from tests.support.ports import free_port
from tests.support.postfix import Postfix

pytestmark = [pytest.mark.postfix, pytest.mark.root]


@pytest.fixture
async def postfix(running: World) -> AsyncIterator[Postfix]:
    with tempfile.TemporaryDirectory(prefix="mta-postfix-") as folder:
        host = running.address()
        async with Postfix(Path(folder), host, running.port) as postfix:
            Path(folder).chmod(0o755)
            running.route("real.test", host)
            yield postfix
            print(postfix.log)


async def test_a_message_goes_to_postfix_in_tls_and_is_found_in_its_mailbox(running: World, postfix: Postfix) -> None:
    daemon = running.daemon
    body = b".dot\r\n" + "grüße\r\n".encode() + b"x" * 900 + b"\r\n"
    queue_id = await daemon.submit("ann@real.test", body=body, subject="for postfix")
    sent = await until(lambda: daemon.has(queue_id, "sent"))
    (arrived,) = await until(lambda: postfix.mail("ann@real.test"))
    assert arrived.replace(b"\n", b"\r\n").endswith(b"\r\n\r\n" + body)
    assert b"Return-Path: <app@shop.test>" in arrived
    assert sent["remote_id"] in postfix.log and len(sent["remote_id"]) > 5
    (line,) = daemon.logged("sent", qid=queue_id)
    assert line["tls"].startswith("TLSv1.3")
    assert "TLSv1.3" in (await daemon.cli("show", queue_id)).out
    assert "Anonymous TLS connection established" in postfix.log


async def test_tls_03_dane_with_postfix_as_the_server(running: World, postfix: Postfix) -> None:
    """The record is its certificate's: verified. Its name is that of nobody we know: with `verify`, nothing arrives."""
    daemon, zones = running.daemon, running.dns.zones
    certificate = ssl.PEM_cert_to_DER_cert((postfix.folder / "conf" / "cert.pem").read_text())
    owner = f"_{running.port}._tcp.mx1.real.test"
    running.dns.flags |= dns.flags.AD
    zones[owner, "TLSA"] = in_zone([tlsa(3, 1, 2, certificate)])
    first = await daemon.submit("ann@real.test")
    await until(lambda: daemon.has(first, "sent"))
    (sent,) = [it for it in (await daemon.show(first))["timeline"] if it["event"] == "sent"]
    assert sent["policy"] == "dane verified"
    await until(lambda: postfix.mail("ann@real.test"))

    running.configure("", destination=[{"match": "real.test", "tls": "verify"}])
    running.configure("tls", dane=False)
    await daemon.reload()
    second = await daemon.submit("bob@real.test")
    waiting = await until(lambda: daemon.has(second, "dead"))
    assert waiting["reply"]["enhanced"] == "4.7.5" and "certificate is not valid" in waiting["reply"]["text"]
    assert postfix.mail("bob@real.test") == []


async def test_several_recipients_are_one_transaction_with_their_own_results(running: World, postfix: Postfix) -> None:
    """A 5yz of its access map is told to the sender, a 4yz waits until the map is changed."""
    daemon = running.daemon
    postfix.refuse("nobody@real.test", "550 5.1.1 no such user here")
    postfix.refuse("busy@real.test", "450 4.2.1 mailbox busy")
    await postfix.reload()
    names = [f"{name}@real.test" for name in ("ann", "nobody", "busy", "bob")]
    running.configure("class.normal", first_retry="1h", max_interval="1h", give_up_after="5h")
    await daemon.reload()
    queue_id = await daemon.submit(*names)
    await until(lambda: daemon.has(queue_id, "sent", "bob@real.test"))
    statuses = {it["address"]: it["status"] for it in (await daemon.show(queue_id))["recipients"]}
    assert statuses == dict(zip(names, ("sent", "failed", "pending", "sent"), strict=True))
    await until(lambda: ": from=<app@shop.test>" in postfix.log)
    assert postfix.log.count(": from=<app@shop.test>") == 1
    (bounce,) = await until(running.bounces)
    _, group = delivery_status(bounce)
    assert group["Final-Recipient"] == "rfc822; nobody@real.test" and group["Status"] == "5.1.1"
    assert "no such user here" in group["Diagnostic-Code"]

    postfix.refuse("busy@real.test", "")
    await until(lambda: postfix.is_idle)  # a session keeps to what it has read of a map
    await postfix.reload()
    assert (await daemon.cli("retry", queue_id)).code == 0
    assert (await until(lambda: daemon.has(queue_id, "sent", "busy@real.test")))["attempts"] == 2
    await until(lambda: postfix.mail("busy@real.test"))
    assert len(postfix.mail("ann@real.test")) == 1


async def test_a_large_message_goes_to_postfix_in_chunks(running: World, postfix: Postfix) -> None:
    """RFC 3030: no octet is lost, none is added."""
    daemon = running.daemon
    body = b"".join(b".%075d\r\n" % number for number in range(8000))
    queue_id = await daemon.submit("ann@real.test", body=body)
    await until(lambda: daemon.has(queue_id, "sent"))
    (arrived,) = await until(lambda: postfix.mail("ann@real.test"))
    assert arrived.replace(b"\n", b"\r\n").endswith(b"\r\n\r\n" + body)
    await until(lambda: "bdat=6" in postfix.log, 20)
    assert "data=" not in postfix.log


async def test_b37_a_postfix_without_8bitmime_gets_7_bit(running: World, postfix: Postfix) -> None:
    postfix.set("smtpd_discard_ehlo_keywords", "8bitmime, smtputf8")
    await postfix.reload()
    body = "grüße aus einer Zeile, in der sonst nichts ist\r\n".encode() * 5000
    queue_id = await running.daemon.submit("ann@real.test", body=body)
    await until(lambda: running.daemon.has(queue_id, "sent"))
    (arrived,) = await until(lambda: postfix.mail("ann@real.test"))
    assert arrived.isascii()
    payload = email.message_from_bytes(arrived).get_payload(decode=True)
    assert isinstance(payload, bytes) and payload.replace(b"\n", b"\r\n") == body


async def test_postfix_s_load_tools_at_both_ends(world: World) -> None:
    """smtp-source hands over 400 messages in 20 sessions at once, smtp-sink gets each once."""
    count, sink = 400, f"{world.address()}:{free_port()}"
    host, _, port = sink.partition(":")
    world.configure("delivery", port=int(port))
    world.route("sink.test", host)
    world.daemon.config["log"] = {"format": "kv"}
    dump = world.folder / "mail"
    dump.mkdir()
    world.folder.chmod(0o755)
    shutil.chown(dump, "nobody")
    receiving = await asyncio.create_subprocess_exec(
        "setpriv", "--pdeathsig", "KILL", "smtp-sink", "-u", "nobody", "-d", f"{dump}/%M.", sink, "512"
    )
    try:
        await world.daemon.start()
        listener = ":".join(map(str, world.daemon.endpoint))
        sending = await asyncio.create_subprocess_exec(
            "smtp-source", "-m", str(count), "-s", "20", "-l", "4000", "-f", "app@shop.test", "-t", "ann@sink.test",
            "-S", "load", listener,
        )  # fmt: skip
        assert await asyncio.wait_for(sending.wait(), 60) == 0
        await until(lambda: _all_sent(world, count), 60)
        ids = [_message_id(path) for path in dump.iterdir()]
        assert len(ids) == len(set(ids)) == count
    finally:
        receiving.kill()
        await receiving.wait()


async def _all_sent(world: World, count: int) -> bool:
    return (await world.daemon.counts())["sent"] == count


def _message_id(path: Path) -> str:
    lines = path.read_text().splitlines()
    return next(line for line in lines if line.lower().startswith("message-id:"))
