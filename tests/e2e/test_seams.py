"""Where the parts of delivery meet: conversion and signatures, relays and limits, encryption and its reports,
categories and what is submitted again."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.keys import sign
from tests.e2e.requests import taking
from tests.e2e.test_limits import TOO_MANY, Crowd, submitted
from tests.e2e.world import SENDER, World
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, Hold, ScriptedMx
from tests.support.smtp_client import SmtpClient, stuffed
from tests.support.tls import NAME as OWN_NAME
from tests.support.tls import client_context, files, issued_to, trust_file
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
RELAY, LOGIN = "relay.net.test", ("shop", "correct horse")


async def submit(world: World, content: bytes, *recipients: str) -> str:
    """The queue id."""
    async with await world.daemon.client() as client:
        reply = await client.submit(stuffed(content), SENDER, recipients or ("ann@good.test",))
    assert reply.startswith("250 2.0.0 Ok: queued as "), reply
    return reply.split()[-1]


async def sent(world: World, queue_id: str, address: str = "") -> dict[str, Any]:
    found: dict[str, Any] = await until(lambda: world.daemon.has(queue_id, "sent", address))
    return found


async def replied(world: World, queue_id: str) -> dict[str, Any]:
    """The recipient, once something was said of it."""

    async def look() -> dict[str, Any] | None:
        found = await world.daemon.recipient(queue_id)
        return found if found["reply"] else None

    found: dict[str, Any] = await until(look)
    return found


async def policies(world: World, queue_id: str) -> list[str]:
    return [it["policy"] for it in (await world.daemon.show(queue_id))["timeline"] if it["event"] == "sent"]


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


# ---------------------------------------------------------------- relays
async def relay(world: World, *domains: str, name: str = RELAY, scheme: str = "smtp", **how: Any) -> ScriptedMx:
    """A scripted one with a login, certified for `name`, that mail of `domains` (all without any) goes by."""
    mx = ScriptedMx(
        **{"tls": issued_to(name), "login": LOGIN, "host": world.address(), "implicit": scheme == "smtps", **how}
    )
    await world._stack.enter_async_context(mx)
    world.dns.zones[RELAY, "A"] = [mx.address]
    world.daemon.environ["SSL_CERT_FILE"] = str(trust_file(world.folder))
    user = f"{LOGIN[0]}@" if mx.login else ""
    table = {"match": list(domains) or ["*"], "via": [f"{scheme}://{user}{RELAY}:{mx.port}"]}
    world.configure("", route=[{**table, **({"password": secret(world)} if mx.login else {})}])
    return mx


def secret(world: World, text: str = LOGIN[1]) -> str:
    path = Path(world.folder / "password")
    path.touch(0o600)
    path.write_text(f"{text}\n")
    return str(path)


async def test_the_sessions_of_a_relay_are_those_of_its_host_s_table_for_all_domains_together(world: World) -> None:
    world.configure("", destination=[{"match": RELAY, "max_sessions": 2}])
    mx, crowd = await relay(world, script={"FINAL": taking(0.02)}), Crowd()
    crowd.counts(mx)
    await world.daemon.start()
    await asyncio.gather(*(submitted(world, domain, 12) for domain in ("a.test", "b.test", "c.test")))
    await until(lambda: len(mx.messages) == 36)
    assert crowd.peak == 2


async def test_a_421_of_a_crowded_relay_lowers_the_cap_of_all_that_goes_there(world: World) -> None:
    world.configure("lanes", urgent_reserve=0.0)
    mx, crowd = await relay(world, script={"FINAL": taking(0.05)}), Crowd(2)
    crowd.counts(mx)
    await world.daemon.start()
    await asyncio.gather(*(submitted(world, domain, 20) for domain in ("a.test", "b.test", "c.test")))

    async def learned() -> list[dict[str, Any]]:
        rows = (await world.daemon.json("status"))["destinations"]
        return [it["limit"] for it in rows if it["limit"] and it["limit"]["why"] == "learned"]

    limits = await until(learned)
    assert all(it["cap"] <= 3 and "too many" in it["learned_from"] for it in limits)
    assert any(RELAY in (it["shared_as"] or "") for it in limits)
    await until(lambda: sum(it.code == 250 for it in mx.messages) == 60, 30)
    assert crowd.peak == 2 and not world.bounces()


async def test_a_rate_of_a_relay_s_host_is_for_all_domains_and_urgent_mail_goes_first(world: World) -> None:
    world.configure("", destination=[{"match": RELAY, "rate": "5/1s", "burst": 2}])
    arrived: list[float] = []
    mx = await relay(world, script={"FINAL": taking(0.0, arrived)})
    await world.daemon.start()
    await asyncio.gather(*(submitted(world, domain, 8) for domain in ("a.test", "b.test", "c.test")))
    await until(lambda: len(arrived) >= 3)
    urgent = await world.daemon.submit("ann@d.test", headers=["X-MTA-Class: urgent"])
    order = [it.forward_paths for it in mx.messages]
    await sent(world, urgent)
    assert [it.forward_paths for it in mx.messages].index(["ann@d.test"]) <= len(order) + 3
    await world.daemon.cli("retry", "--domain", "a.test")
    await until(lambda: len(arrived) == 25)
    for n, start in enumerate(arrived):
        for span in (0.5, 1, 2):
            assert sum(it <= start + span for it in arrived[n:]) <= 2 + 5 * span + 2, "2 for what the network delays"


async def test_a_session_at_a_relay_serves_all_its_domains_and_no_other(world: World) -> None:
    world.configure("", destination=[{"match": RELAY, "max_sessions": 1}])
    sign(world, RSA, ED)
    mx, own = await relay(world, "a.test", "b.test"), await world.mx("own.test")
    await world.daemon.start()
    for domain in ("a.test", "own.test", "b.test", "own.test", "a.test"):
        await sent(world, await world.daemon.submit(f"ann@{domain}"))
    assert [it.forward_paths[0] for it in mx.messages] == ["ann@a.test", "ann@b.test", "ann@a.test"]
    assert len(own.messages) == 2 and len(mx.connections) == 1
    assert all(by_dkimpy(it.content, PUBLISHED) == [True, True] for it in mx.messages)


async def test_a_new_password_is_used_from_the_reload_on_though_sessions_idle(world: World) -> None:
    mx = await relay(world)
    await world.daemon.start()
    await sent(world, await world.daemon.submit("ann@a.test"))
    secret(world, "battery staple")
    mx.login = (LOGIN[0], "battery staple")
    await world.daemon.reload()
    await sent(world, await world.daemon.submit("ann@a.test"))
    assert [password for _, _, password in mx.logins] == [LOGIN[1], "battery staple"]


async def test_an_smtps_relay_with_another_s_certificate_gets_nothing(world: World) -> None:
    world.configure("class.normal", give_up_after="1h")
    mx = await relay(world, name="other.net.test", scheme="smtps")
    await world.daemon.start()
    waits = await replied(world, await world.daemon.submit("ann@a.test"))
    assert waits["status"] in ("pending", "sending") and waits["reply"]["enhanced"].startswith("4.7.")
    assert not mx.logins and not mx.messages and not world.bounces()


@pytest.mark.parametrize("name", [RELAY, "other.net.test"])
async def test_where_dane_is_demanded_a_relay_has_to_prove_its_name(world: World, name: str) -> None:
    world.configure("class.normal", give_up_after="1h")
    world.configure("", destination=[{"match": "a.test", "tls": "dane"}])
    mx = await relay(world, name=name, login=None)
    await world.daemon.start()
    weak = await world.daemon.submit("ann@b.test")
    await sent(world, weak)
    queue_id = await world.daemon.submit("ann@a.test")
    if name == RELAY:
        await sent(world, queue_id)
        assert await policies(world, queue_id) == ["configured verified"]
    else:
        assert (await replied(world, queue_id))["reply"]["enhanced"] == "4.7.5"
        assert len(mx.messages) == 1


@pytest.mark.parametrize("offered", [True, False])
async def test_tls_09_mail_with_requiretls_goes_by_a_relay_that_offers_it_alone(world: World, offered: bool) -> None:
    certificate, private = files(world.folder)
    world.configure("submission.tls", certificate=str(certificate), key=str(private))
    mx = await relay(world, extensions=(*EXTENSIONS, *(["REQUIRETLS"] if offered else [])))
    own = await world.mx("shop.test")
    await world.daemon.start()
    await sent(world, await world.daemon.submit("ann@a.test"))
    async with await SmtpClient.connect(world.daemon.endpoint) as client:
        for line in ("EHLO c.test", "STARTTLS"):
            await client.command(line)
        await client.writer.start_tls(client_context(), server_hostname=OWN_NAME)
        for line in ("EHLO c.test", f"MAIL FROM:<{SENDER}> REQUIRETLS", "RCPT TO:<ann@a.test>", "DATA"):
            assert (await client.command(line))[0] in "23", line
        queue_id = (await client.command(f"From: {SENDER}\r\nSubject: a secret\r\n\r\nx\r\n.")).split()[-1]
    found = await until(lambda: world.daemon.has(queue_id, "sent" if offered else "failed"))
    assert offered or found["reply"]["enhanced"] == "5.7.30"
    assert sum("REQUIRETLS" in it.mail for it in mx.messages) == offered and not own.messages


async def test_greylisting_at_a_relay_is_waited_for_and_teaches_nothing_about_the_address(world: World) -> None:
    world.configure("suppression", keep="30d")
    world.configure("class.normal", first_retry="1h", max_interval="1s", give_up_after="1h")
    refusals = ["450 4.2.0 <ann@a.test>: Recipient address rejected: Greylisted", "250 ok", "550 5.1.1 User unknown"]
    mx = await relay(world, script={"RCPT": refusals})
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@a.test")
    assert (await replied(world, queue_id))["category"] == "greylisting"
    await sent(world, queue_id)
    gone = await world.daemon.submit("gone@a.test")
    failed = await until(lambda: world.daemon.has(gone, "failed"))
    assert failed["category"] == "no-such-user" and mx.messages
    assert not (await world.daemon.json("suppression list"))["suppressions"]


async def test_domains_of_the_same_servers_and_a_relay_do_not_share(world: World) -> None:
    """`share = "mx"` is for what goes there by MX; what a route takes elsewhere has the relay's limits."""
    names = ["a.test", "b.test", "c.test"]
    world.configure("", destination=[{"match": names, "share": "mx", "max_sessions": 1}])
    mx, own, crowd = await relay(world, "c.test"), await world.mx("few.test", script={"FINAL": taking(0.02)}), Crowd()
    crowd.counts(own)
    for name in names:
        world.dns.zones[name, "MX"] = ["10 mx1.few.test."]
    await world.daemon.start()
    await asyncio.gather(*(submitted(world, name, 10) for name in names))
    await until(lambda: len(own.messages) == 20 and len(mx.messages) == 10)
    assert crowd.peak == 1


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
    web = await world._stack.enter_async_context(WebServer("mta-sts.good.test"))
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
