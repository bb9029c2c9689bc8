"""Where the parts of delivery meet: conversion and signatures, encryption and its reports, categories and what is
submitted again."""

import signal
from typing import Any

import pytest

from tests.e2e.keys import sign
from tests.e2e.requests import policies, replied, sent
from tests.e2e.test_limits import TOO_MANY
from tests.e2e.world import SENDER, World
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, Hold, ScriptedMx
from tests.support.smtp_client import stuffed
from tests.support.tls import issued_to, trust_file
from tests.support.verifiers import by_dkimpy, key, published
from tests.support.web_server import WebServer, page

RSA, ED, OURS = key("shop.test/2026", "rsa"), key("shop.test/2026ed"), key("out.test/1")
PUBLISHED = published(RSA, ED, OURS)
SEVEN_BIT = tuple(it for it in EXTENSIONS if it != "8BITMIME")
CHUNKING = (*EXTENSIONS, "CHUNKING")
HEAD = (
    b"From: Shop <app@shop.test>\r\nTo: ann@good.test\r\nSubject: hello\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
)
LARGE = HEAD + "grüße an alle, auch an den Rest\r\n".encode() * 4000


async def submit(world: World, content: bytes, *recipients: str) -> str:
    """The queue id."""
    async with await world.daemon.client() as client:
        reply = await client.submit(stuffed(content), SENDER, recipients or ("ann@good.test",))
    assert reply.startswith("250 2.0.0 Ok: queued as "), reply
    return reply.split()[-1]


# ---------------------------------------------------------------- conversion, chunks and signatures
@pytest.mark.parametrize("extensions", [SEVEN_BIT, (*SEVEN_BIT, "CHUNKING")], ids=["DATA", "BDAT"])
async def test_what_is_signed_and_measured_is_what_a_7_bit_server_gets(world: World, extensions: tuple[str, ...]) -> None:
    sign(world, RSA, ED)
    mx = await world.mx("good.test", extensions=extensions)
    await world.daemon.start()
    await sent(world, await submit(world, LARGE))
    (message,) = mx.messages
    assert message.content.isascii() and by_dkimpy(message.content, PUBLISHED) == [True, True]
    assert f" SIZE={len(message.content)}" in message.mail and "BODY=" not in message.mail
    assert bool(message.chunks) == ("CHUNKING" in extensions)


async def test_b57_a_doubt_about_chunks_is_retried_with_the_same_octets(world: World) -> None:
    hold = Hold("250 2.0.0 ok")
    sign(world, RSA, ED)
    mx = await world.mx("good.test", extensions=CHUNKING, script={"FINAL": [hold]})
    await world.daemon.start()
    queue_id = await submit(world, LARGE)
    await hold.reached.wait()
    await world.daemon.restart(signal.SIGKILL)
    await sent(world, queue_id)
    first, second = mx.messages
    assert len(second.chunks) > 1 and first.raw == second.raw and first.mail == second.mail
    assert by_dkimpy(second.content, PUBLISHED) == [True, True]


@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "BDAT"])
async def test_a_fallback_from_8_bit_chunks_to_7_bit_data_is_signed_anew(world: World, stage: str) -> None:
    sign(world, RSA, ED)
    first = await world.mx(extensions=CHUNKING, script={stage: "421 4.3.2 going down"})
    second = await world.mx(extensions=SEVEN_BIT)
    world.route("good.test", first.address, second.address)
    await world.daemon.start()
    queue_id = await submit(world, LARGE)
    assert (await sent(world, queue_id))["remote_address"] == second.address
    (message,) = second.messages
    assert message.content.isascii() and by_dkimpy(message.content, PUBLISHED) == [True, True]
    assert f" SIZE={len(message.content)}" in message.mail and not first.messages


# ---------------------------------------------------------------- categories
async def test_a_crowd_has_its_category(world: World) -> None:
    await world.mx("few.test", script={"RCPT": [TOO_MANY]})
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@few.test")
    await sent(world, queue_id)
    assert "too-many-connections" in await world.daemon.ask(f"json show {queue_id}")


@pytest.mark.parametrize("phase", ["BANNER", "EHLO"])
async def test_q3_a_refusal_for_our_reputation_is_told_as_such_where_encryption_is_required(
    world: World, phase: str
) -> None:
    """It comes before STARTTLS, and is not about encryption."""
    world.configure("", destination=[{"match": "wary.test", "tls": "encrypt"}])
    blocked = "421 4.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org"
    await world.mx("wary.test", script={phase: blocked}, tls=issued_to("mx1.wary.test"))
    await world.daemon.start()
    waits = await replied(world, await world.daemon.submit("ann@wary.test"))
    assert waits["category"] == "reputation" and waits["reply"]["code"] == 421
    await until(lambda: [it for it in world.mail_for("postmaster@admin.test") if b"trust us" in it.content])


# ---------------------------------------------------------------- what is configured wrongly
WRONG: dict[str, dict[str, Any]] = {
    "route.via": {"route": [{"match": "*", "via": "ftp://relay.test"}]},
    "route.password": {"route": [{"match": "*", "via": "smtp://shop@relay.test", "password": "/none/at/all"}]},
    "route.via of us": {"route": [{"match": "*", "via": "smtp://shop:secret@relay.test"}]},
    "route.source": {"route": [{"match": "*", "via": "mx", "source": ["192.0.2.1", "192.0.2.2"]}]},
    "destination.rate": {"destination": [{"match": "a.test", "rate": "many"}]},
    "destination.tls": {"destination": [{"match": "a.test", "tls": "always"}]},
    "destination.share": {"destination": [{"match": "a.test", "share": "ns"}]},
    "destination.max_sessions": {"destination": [{"match": "a.test", "max_sessions": 0}]},
    "destination.match": {"destination": [{"match": "a..test"}]},
    "dkim.key": {"dkim": [{"domain": "shop.test", "selector": "s", "key": "/none/at/all"}]},
    "dkim.selector": {"dkim": [{"domain": "shop.test", "selector": "a b", "key": "/none/at/all"}]},
    "suppression.keep": {"suppression": {"keep": "long"}},
    "tls.report": {"tls": {"report": "yes"}},
    "tls.unknown": {"tls": {"mta_sst": True}},
    "dns.trust_ad": {"dns": {"trust_ad": "loopback"}},
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_table_is_told_in_one_line_and_changes_nothing(world: World, name: str) -> None:
    """To `mta check`, at the start and at SIGHUP: mail goes on as it did."""
    daemon, good = world.daemon, dict(world.daemon.config)
    mx = await world.mx("good.test")
    await daemon.start()
    daemon.config = {**good, **{key: _joined(good.get(key), value) for key, value in WRONG[name].items()}}
    await daemon.reload()
    [trouble] = daemon.logged("trouble", level="error")
    table, _, key = name.split(" ")[0].partition(".")
    assert "as it was" in trouble["what"] or "as they were" in trouble["what"]
    if key not in ("unknown", "report", "trust_ad"):
        assert key in trouble["detail"] and table in trouble["detail"]
    await sent(world, await daemon.submit("ann@good.test"))
    assert len(mx.messages) == 1
    checked = await daemon.cli("check")
    await daemon.stop()
    before = daemon.log_text
    await daemon.launch()
    assert (checked.code, await daemon.exited()) == (78, 78)
    assert len(daemon.log_text[len(before) :].splitlines()) == 1
    assert "secret" not in checked.err + checked.out + daemon.log_text


def _joined(old: Any, new: Any) -> Any:
    return {**old, **new} if isinstance(old, dict) else new


# ---------------------------------------------------------------- suppression and keys
async def test_a_repeat_under_its_key_is_one_though_a_recipient_was_suppressed_meanwhile(world: World) -> None:
    """The first submission was taken for both."""
    world.configure("suppression", keep="30d")
    mx = await world.mx("gone.test", script={"RCPT": lambda line: "550 5.1.1 User unknown" if "ann@" in line else "250 ok"})
    await world.daemon.start()
    content = b"From: app@shop.test\r\nSubject: x\r\nIdempotency-Key: order-1\r\n\r\nx\r\n"
    queue_id = await submit(world, content, "ann@gone.test", "bob@gone.test")
    await until(lambda: world.daemon.has(queue_id, "failed", "ann@gone.test"))
    await sent(world, queue_id, "bob@gone.test")

    async def listed() -> list[Any]:
        found: list[Any] = (await world.daemon.json("suppression list"))["suppressions"]
        return found

    await until(listed)
    async with await world.daemon.client() as client:
        codes = [
            (await client.command(line))[:3]
            for line in ("EHLO c", f"MAIL FROM:<{SENDER}>", "RCPT TO:<ann@GONE.test>", "RCPT TO:<bob@gone.test>", "DATA")
        ]
        await client.send(stuffed(content) + b".\r\n")
        reply = await client.reply()
    assert codes == ["250", "250", "550", "250", "354"]
    assert reply == f"250 2.0.0 Ok: duplicate of {queue_id} (sent)"
    assert len(mx.messages) == 1


# ---------------------------------------------------------------- MTA-STS and TLS-RPT
HOST = "mx1.good.test"


async def sts(world: World, certified: str = HOST) -> tuple[ScriptedMx, WebServer]:
    """good.test publishes an enforced policy; its server has a certificate for `certified`."""
    web = await world.enter(WebServer("mta-sts.good.test"))
    web.answer = page(f"version: STSv1\nmode: enforce\nmx: {HOST}\nmax_age: 86400\n")
    world.dns.zones["mta-sts.good.test", "A"] = ["127.0.0.1"]
    world.dns.zones["_mta-sts.good.test", "TXT"] = ['"v=STSv1; id=1;"']
    world.daemon.environ["SSL_CERT_FILE"] = str(trust_file(world.folder))
    world.daemon.preamble = (
        f"from mta.sts.fetch import PolicyServers; PolicyServers.__init__.__kwdefaults__['port'] = {web.port}"
    )
    return await world.mx("good.test", tls=issued_to(certified)), web


async def test_tls_06_an_enforced_policy_is_fetched_shown_and_holds_though_it_disappears(world: World) -> None:
    mx, web = await sts(world)
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@good.test")
    await sent(world, queue_id)
    assert await policies(world, queue_id) == ["mta-sts verified"]
    assert "policy mta-sts verified" in (await world.daemon.cli("show", queue_id)).out
    del world.dns.zones["_mta-sts.good.test", "TXT"]
    web.answer = page("", status="404 Not Found")
    mx.tls = issued_to("other.test")
    await world.daemon.restart()
    waits = await replied(world, await world.daemon.submit("ann@good.test"))
    assert waits["reply"]["enhanced"] == "4.7.5" and "mta-sts" in waits["reply"]["text"]
    assert len(mx.messages) == len(web.requests) == 1


async def test_tls_07_what_failed_is_reported_signed_and_goes_where_tls_fails(world: World) -> None:
    world.configure("tls", report=True)
    world.configure("class.normal", give_up_after="1h")
    sign(world, OURS)
    mx, _ = await sts(world, certified="other.test")
    world.dns.zones["_smtp._tls.good.test", "TXT"] = ['"v=TLSRPTv1; rua=mailto:tls@good.test"']
    await world.daemon.start()
    await replied(world, await world.daemon.submit("ann@good.test"))
    await world.daemon.stop()
    with world.spool() as spool:
        spool.execute("UPDATE memories SET name = '2026-01-02 good.test' WHERE name LIKE '____-__-__ good.test'")
    await world.daemon.start()
    (report,) = await until(lambda: [it for it in mx.messages if it.forward_paths == ["tls@good.test"]])
    assert by_dkimpy(report.content, PUBLISHED) == [True] and report.tls
    assert all("ann@good.test" not in it.forward_paths for it in mx.messages)
