"""`[[route]]` in a daemon's life: mail by a relay that is a daemon of ours too, passwords that change, what is said."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mta.passwords import hash_password
from tests.e2e.conftest import no_surprise
from tests.e2e.world import SENDER, World
from tests.support.daemon import until
from tests.support.mx import ScriptedMx
from tests.support.ports import free_port
from tests.support.tls import authority, issued_to, trust_file

USER, PASSWORD, NAME = "shop", "correct horse", "relay.net.test"


@pytest.fixture
async def relay(world: World) -> AsyncIterator[World]:
    """A daemon that takes mail of `USER` for all; `world` trusts its certificate, and knows its address."""
    with tempfile.TemporaryDirectory(prefix="mta-") as name:
        folder = Path(name)
        async with World(folder) as relay:
            issued = authority().issue_cert(NAME)
            issued.private_key_and_cert_chain_pem.write_to_path(folder / "all.pem")
            (folder / "all.pem").chmod(0o600)
            (folder / "users").write_text(f"{USER}:{hash_password(PASSWORD)}\n")
            (folder / "users").chmod(0o600)
            host, port = relay.daemon.endpoint
            pem = str(folder / "all.pem")
            relay.configure("", hostname=NAME)
            relay.configure(
                "submission", listen=[f"{host}:{port}", f"tls://{host}:{free_port()}"], allow=["192.0.2.0/24"],
                users_file=str(folder / "users"), tls={"certificate": pem, "key": pem},
            )  # fmt: skip
            world.dns.zones[NAME, "A"] = [host]
            world.daemon.environ["SSL_CERT_FILE"] = str(trust_file(world.folder))
            with no_surprise(relay.daemon):
                await relay.daemon.start()
                yield relay
                await relay.daemon.stop()


def password(world: World, text: str = PASSWORD) -> str:
    path = world.folder / "password"
    path.touch(0o600)
    path.write_text(f"{text}\n")
    return str(path)


def by(world: World, *vias: str, **how: Any) -> None:
    world.configure("", route=[{"match": ["*"], "via": list(vias), **how}])


def door(relay: World, scheme: str) -> str:
    entry = relay.daemon.config["submission"]["listen"][scheme == "smtps"]
    return f"{scheme}://{USER}@{NAME}:{entry.rpartition(':')[2]}"


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_mail_goes_by_a_relay_that_we_log_in_at(world: World, relay: World, scheme: str) -> None:
    """AUTH PLAIN inside STARTTLS and inside TLS from the first octet, from one daemon to the other."""
    dest = await relay.mx("dest.test")
    by(world, door(relay, scheme), password=password(world))
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@dest.test", subject="by the relay")
    sent = await until(lambda: world.daemon.has(queue_id, "sent"))
    assert (sent["remote_host"], sent["attempts"]) == (NAME, 1)
    (message,) = await until(lambda: dest.messages)
    assert b" with ESMTPSA " in message.content and b"by mail.out.test with " in message.content
    assert (await relay.daemon.show(sent["remote_id"]))["sender"] == SENDER
    assert f"{NAME} [" in (await world.daemon.cli("show", queue_id)).out
    (line,) = world.daemon.logged("sent", qid=queue_id)
    assert line["host"] == NAME and line["tls"].startswith("TLSv1.3")
    for daemon in (world.daemon, relay.daemon):
        assert PASSWORD not in daemon.log_text


async def test_a_password_that_was_changed_bounces_nothing_and_a_reload_brings_the_new_one(
    world: World, relay: World
) -> None:
    dest = await relay.mx("dest.test")
    world.configure("class.normal", give_up_after="1h")
    by(world, door(relay, "smtp"), password=password(world, "the old one"))
    daemon = world.daemon
    await daemon.start()
    ids = [await daemon.submit(f"{name}@dest.test") for name in ("ann", "bob", "cid")]
    refused = await until(lambda: _replied(world, ids[0]))
    assert (refused["status"], refused["reply"]["code"]) == ("pending", 535)
    (trouble,) = daemon.logged("trouble", level="error")
    assert "does not let us in as shop" in trouble["what"] and "the old one" not in daemon.log_text
    password(world)
    await daemon.reload()
    for queue_id in ids:
        await until(lambda queue_id=queue_id: daemon.has(queue_id, "sent"))
    await until(lambda: len(dest.messages) == 3)
    assert not world.bounces()


@pytest.mark.parametrize("answer", ["SERVFAIL", "REFUSED", None])
async def test_b20_a_relay_that_can_not_be_looked_up_waits_until_it_can(world: World, answer: str | None) -> None:
    """None: NXDOMAIN. The domain's own servers get nothing meanwhile."""
    own = await world.mx("dest.test")
    async with ScriptedMx(host=world.address()) as relay:
        if answer:
            world.dns.zones[NAME, "*"] = answer
        world.configure("class.normal", give_up_after="1h")
        by(world, f"smtp://{NAME}:{relay.port}")
        await world.daemon.start()
        queue_id = await world.daemon.submit("ann@dest.test")
        waits = await until(lambda: _replied(world, queue_id))
        assert waits["reply"]["enhanced"] == ("4.4.3" if answer else "4.4.4") and NAME in waits["reply"]["text"]
        world.dns.zones.pop((NAME, "*"), None)
        world.dns.zones[NAME, "A"] = [relay.address]
        if answer is None:  # a denial is remembered for as long as it asks for
            await world.daemon.restart()
        assert (await until(lambda: world.daemon.has(queue_id, "sent")))["remote_host"] == NAME
        assert not own.connections


async def _replied(world: World, queue_id: str) -> dict[str, Any] | None:
    found = await world.daemon.recipient(queue_id)
    return found if found["reply"] else None


async def test_a_reload_whose_password_can_not_be_read_keeps_the_old(world: World, relay: World) -> None:
    await relay.mx("dest.test")
    by(world, door(relay, "smtp"), password=password(world))
    daemon = world.daemon
    await daemon.start()
    (world.folder / "password").unlink()
    await daemon.reload()
    (trouble,) = daemon.logged("trouble", level="error")
    assert "the configuration is as it was" in trouble["what"] and f"{world.folder}/password" in trouble["detail"]
    queue_id = await daemon.submit("ann@dest.test")
    await until(lambda: daemon.has(queue_id, "sent"))


async def test_a_password_that_can_not_be_read_refuses_the_start_and_the_check(world: World) -> None:
    by(world, f"smtp://{USER}@{NAME}", password=f"{world.folder}/none")
    await world.daemon.launch()
    assert await world.daemon.exited() == 78
    [line] = world.daemon.log_text.splitlines()
    assert line == f"mta: {world.folder}/none: route.password: can't be read: No such file or directory"
    assert (await world.daemon.cli("check")).code == 78


async def test_check_says_where_mail_goes_and_warns_of_a_password_for_all_to_read(world: World) -> None:
    by(world, f"smtp://{USER}@{NAME}", "mx", password=password(world), source="192.0.2.5")
    Path(world.folder / "password").chmod(0o644)
    await world.daemon.start()
    assert [it for it in world.daemon.logged("trouble", level="warning") if "can be read by everybody" in it["what"]]
    ended = await world.daemon.cli("check")
    assert ended.code == 0
    where = f"smtp://{NAME}:587, logged in there as {USER} (inside TLS, with a certificate for {NAME})"
    assert f"{where}, else the servers of its domain (mx)" in ended.out
    assert "password can be read by everybody" in ended.out and PASSWORD not in ended.out


async def test_bounces_follow_routes_too_and_a_reload_moves_mail_to_another(world: World) -> None:
    """The relay's word about a recipient is final; the DSN goes by the same relay; mail of other domains does not."""
    async with ScriptedMx({"RCPT": lambda line: "550 5.1.1 who?" if "nobody@" in line else "250 ok"}) as relay:
        daemon = world.daemon
        world.configure("", route=[{"match": ["shop.test", "*.shop.test"], "via": f"smtp://{relay.address}:{relay.port}"}])
        own = await world.mx("own.test")
        await daemon.start()
        failed, other = await daemon.submit("nobody@mail.shop.test"), await daemon.submit("ann@own.test")
        await until(lambda: daemon.has(failed, "failed"))
        await until(lambda: daemon.has(other, "sent"))
        (bounce,) = await until(lambda: [it for it in relay.messages if it.forward_paths == [SENDER]])
        assert bounce.reverse_path == "" and len(own.messages) == 1
        world.configure("", route=[])
        await daemon.reload()
        moved = await daemon.submit("app@shop.test")
        assert (await until(lambda: daemon.has(moved, "sent")))["remote_address"] == world.home.address


async def test_a_relay_with_a_certificate_for_another_gets_nothing(world: World) -> None:
    async with ScriptedMx(tls=issued_to("other.net.test"), login=(USER, PASSWORD), host=world.address()) as relay:
        world.dns.zones[NAME, "A"] = [relay.address]
        world.daemon.environ["SSL_CERT_FILE"] = str(trust_file(world.folder))
        world.configure("class.normal", give_up_after="1h")
        by(world, f"smtp://{USER}@{NAME}:{relay.port}", password=password(world))
        await world.daemon.start()
        queue_id = await world.daemon.submit("ann@dest.test")
        waits = await until(lambda: _replied(world, queue_id))
        assert waits["status"] in ("pending", "sending") and "certificate is not valid" in waits["reply"]["text"]
        assert not relay.logins and not relay.messages
