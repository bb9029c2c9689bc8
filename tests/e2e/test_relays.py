"""Relays where they meet limits, encryption, passwords and what is learned of addresses."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.keys import sign
from tests.e2e.requests import policies, replied, sent, taking
from tests.e2e.test_limits import Crowd, submitted
from tests.e2e.test_seams import ED, PUBLISHED, RSA
from tests.e2e.world import SENDER, World
from tests.support.daemon import until
from tests.support.mx import EXTENSIONS, ScriptedMx
from tests.support.smtp_client import SmtpClient
from tests.support.tls import NAME as OWN_NAME
from tests.support.tls import client_context, files, issued_to, trust_file
from tests.support.verifiers import by_dkimpy

RELAY, LOGIN = "relay.net.test", ("shop", "correct horse")


async def relay(world: World, *domains: str, name: str = RELAY, scheme: str = "smtp", **how: Any) -> ScriptedMx:
    """A scripted one with a login, certified for `name`, that mail of `domains` (all without any) goes by."""
    mx = ScriptedMx(
        **{"tls": issued_to(name), "login": LOGIN, "host": world.address(), "implicit": scheme == "smtps", **how}
    )
    await world.enter(mx)
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
