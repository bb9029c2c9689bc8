"""Encryption on the way out, by the whole daemon: what is demanded, what `mta show` tells of it, what a reload changes.
TLS-02, TLS-03, TLS-05, TLS-09; B27, B28."""

from typing import Any

import dns.flags
import pytest
import trustme

from tests.e2e.world import World
from tests.support.certificates import chain, context, in_zone, issued, tlsa
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, ScriptedMx

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
