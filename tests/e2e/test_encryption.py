"""Encryption on the way out, by the whole daemon: what is demanded, what `mta show` tells of it, what a reload changes.
TLS-02, TLS-03, TLS-05, TLS-09; B27, B28."""

from typing import Any

import dns.flags
import pytest
import trustme

from tests.e2e.world import SENDER, World
from tests.support.certificates import chain, context, in_zone, issued, tlsa
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, ScriptedMx
from tests.support.smtp_client import SmtpClient
from tests.support.tls import NAME, client_context, files

HOST = "mx1.good.test"
LEAF = issued(trustme.CA(), "another.test")
RECORD = tlsa(3, 1, 1, chain(LEAF)[0])


@pytest.fixture
async def mx(world: World) -> ScriptedMx:
    world.dns.flags |= dns.flags.AD
    return await world.mx("good.test", tls=context(LEAF), extensions=(*EXTENSIONS, "REQUIRETLS"))


def publish(world: World, *records: str) -> None:
    world.dns.zones[f"_{world.port}._tcp.{HOST}", "TLSA"] = list(records)


async def test_tls_03_mail_under_dane_and_what_show_tells_of_it(world: World, mx: ScriptedMx) -> None:
    publish(world, *in_zone([RECORD]))
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@good.test")
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert world.mail_for("ann@good.test", mx)[0].tls
    (sent,) = [it for it in (await world.daemon.show(queue_id))["timeline"] if it["event"] == "sent"]
    assert sent["policy"] == "dane verified" and sent["tls"].startswith("TLSv1.3 TLS_")
    assert "policy dane verified" in (await world.daemon.cli("show", queue_id)).out


@pytest.mark.parametrize("records", [["3 1 1 " + "00" * 32], "SERVFAIL"], ids=["another's record", "SERVFAIL"])
async def test_tls_05_b28_it_waits_with_the_reason(world: World, mx: ScriptedMx, records: list[str] | str) -> None:
    world.dns.zones[f"_{world.port}._tcp.{HOST}", "TLSA"] = records
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@good.test")
    waiting = await until(lambda: _answered(world, queue_id))
    assert waiting["status"] in ("pending", "sending")
    assert waiting["reply"]["code"] is None and waiting["reply"]["enhanced"] == "4.7.5"
    assert "dane" in waiting["reply"]["text"].lower()
    assert mx.messages == []


async def test_tls_05_when_the_lookup_succeeds_again_it_goes_on(world: World, mx: ScriptedMx) -> None:
    world.dns.zones[f"_{world.port}._tcp.{HOST}", "TLSA"] = "SERVFAIL"
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@good.test")
    await until(lambda: _answered(world, queue_id))
    publish(world, *in_zone([RECORD]))
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert mx.messages[0].tls


async def test_b28_a_resolver_that_did_not_validate_is_not_asked_for_more(world: World, mx: ScriptedMx) -> None:
    world.dns.flags &= ~dns.flags.AD
    publish(world, "3 1 1 " + "00" * 32)
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@good.test")
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert mx.messages[0].tls and world.dns.count("TLSA") == 0


async def test_what_is_configured_holds_from_the_reload_on(world: World, mx: ScriptedMx) -> None:
    """Also for sessions that were open: the certificate is nobody's we know."""
    world.dns.flags &= ~dns.flags.AD
    await world.daemon.start()
    first = await world.daemon.submit("ann@good.test")
    await until(lambda: world.daemon.has(first, "sent"))
    world.configure("", destination=[{"match": "good.test", "tls": "verify"}])
    await world.daemon.reload()
    second = await world.daemon.submit("ann@good.test")
    waiting = await until(lambda: _answered(world, second))
    assert waiting["reply"]["enhanced"] == "4.7.5"
    assert "certificate is not valid" in waiting["reply"]["text"]
    assert len(mx.messages) == 1


async def _answered(world: World, queue_id: str) -> dict[str, Any] | None:
    (recipient,) = (await world.daemon.show(queue_id))["recipients"]
    return recipient if recipient["reply"] else None


async def _submit_inside_tls(world: World, parameters: str, fields: str = "") -> str:
    """The queue id."""
    async with await SmtpClient.connect(world.daemon.endpoint) as client:
        await client.command("EHLO c.test")
        assert (await client.command("STARTTLS")).startswith("220 ")
        await client.writer.start_tls(client_context(), server_hostname=NAME)
        for line in ("EHLO c.test", f"MAIL FROM:<{SENDER}>{parameters}", "RCPT TO:<ann@good.test>", "DATA"):
            assert (await client.command(line))[0] in "23", line
        reply = await client.command(f"From: {SENDER}\r\n{fields}Subject: a secret\r\n\r\nthe secret itself\r\n.")
    assert reply.startswith("250 2.0.0 Ok: queued as "), reply
    return reply.split()[-1]


def _offer_tls(world: World) -> None:
    certificate, key = files(world.folder)
    world.configure("submission.tls", certificate=str(certificate), key=str(key))


async def test_tls_09_requiretls_from_one_end_to_the_other(world: World, mx: ScriptedMx) -> None:
    _offer_tls(world)
    publish(world, *in_zone([RECORD]))
    await world.daemon.start()
    queue_id = await _submit_inside_tls(world, " REQUIRETLS")
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert mx.messages[0].tls and mx.messages[0].mail.endswith(" REQUIRETLS")


async def test_tls_09_what_can_not_be_sent_so_comes_back_without_its_text(world: World, mx: ScriptedMx) -> None:
    """5.7.30; RET=FULL changes nothing."""
    _offer_tls(world)
    publish(world, *in_zone([RECORD]))
    mx.extensions = EXTENSIONS
    await world.daemon.start()
    queue_id = await _submit_inside_tls(world, " REQUIRETLS RET=FULL")
    await until(lambda: world.daemon.has(queue_id, "failed"))
    (bounce,) = await until(world.bounces)
    assert b"Status: 5.7.30" in bounce.content
    assert b"a secret" in bounce.content and b"the secret itself" not in bounce.content
    assert mx.messages == []


async def test_tls_08_tls_required_no_goes_where_dane_would_keep_it_back(world: World, mx: ScriptedMx) -> None:
    _offer_tls(world)
    publish(world, "3 1 1 " + "00" * 32)
    await world.daemon.start()
    queue_id = await _submit_inside_tls(world, "", "TLS-Required: No\r\n")
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert mx.messages[0].tls and b"TLS-Required: No\r\n" in mx.messages[0].content
