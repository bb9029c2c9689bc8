"""Waiting: dead hosts, the "delayed" warning, give-up, and who waits for whom (area H of the field cases)."""

import asyncio

from tests.e2e.reports import delivery_status
from tests.e2e.world import SENDER, World, subject
from tests.support.black_hole import black_hole
from tests.support.daemon import until
from tests.support.smtp_client import stuffed


async def submit_many(world: World, domain: str, count: int) -> None:
    """Over one connection."""
    content = stuffed(b"From: a@b.test\r\nSubject: many\r\n\r\nx\r\n")
    async with await world.daemon.client() as client:
        await client.command("EHLO client.test")
        for number in range(count):
            envelope = f"MAIL FROM:<{SENDER}>\r\nRCPT TO:<r{number}@{domain}>\r\nDATA\r\n"
            await client.send(envelope.encode())
            assert (await client.replies(3))[-1].startswith("354")
            await client.send(content + b".\r\n")
            assert (await client.reply()).startswith("250")


async def test_two_thousand_messages_at_a_dead_host_do_not_each_wait_for_a_timeout(world: World) -> None:
    """Nor does anybody else, meanwhile or after it; and they all go when it lives."""
    good = await world.mx("good.test")
    dead = world.address()
    world.route("dead.test", dead)
    world.configure("delivery", timeouts={"connect": "1s"})
    world.configure("class.normal", first_retry="30s", max_interval="30s", give_up_after="1h")
    daemon = world.daemon
    await daemon.start()
    with black_hole(dead, world.port):
        loop = asyncio.get_running_loop()
        await submit_many(world, "dead.test", 2000)
        begun = loop.time()
        await daemon.submit("ann@good.test")
        await until(lambda: good.messages, 10)
        (trouble,) = [it for it in (await daemon.json("status"))["destinations"] if it["domain"] == "dead.test"]
        assert trouble["pending"] == 2000
        await until(lambda: _suspended(world, "dead.test"))
        assert loop.time() - begun < 20
        queued = await daemon.json("queue --domain dead.test --limit 2000")
        tried = [it for it in queued["messages"] if it["recipients"][0]["attempts"]]
        assert 0 < len(tried) < 200, "each waits for the host, not for its own timeout"
    mx = await world.mx(host=dead)
    await daemon.ask("retry --domain dead.test")
    await until(lambda: mx.messages, 10)
    await until(daemon.idle, 30)
    assert len({message.forward_paths[0] for message in mx.messages}) == len(mx.messages) == 2000


async def _suspended(world: World, domain: str) -> bool:
    destinations = (await world.daemon.json("status"))["destinations"]
    return any(it["domain"] == domain and it["suspended_until"] for it in destinations)


async def test_a_dead_host_is_remembered_for_the_next_domain(world: World) -> None:
    """Its address was found dead by one domain's mail: another's goes to the second host without waiting for it."""
    dead, alive = world.address(), await world.mx()
    world.route("one.test", dead)
    world.route("two.test", dead, alive.address)
    world.configure("delivery", timeouts={"connect": "4s"})
    world.configure("class.normal", first_retry="30s", max_interval="30s", give_up_after="1h")
    daemon = world.daemon
    await daemon.start()
    with black_hole(dead, world.port):
        first = await daemon.submit("ann@one.test")
        await until(lambda: _has_waited(world, first))
        second = await daemon.submit("ann@two.test")
        sent = await until(lambda: daemon.has(second, "sent"), 3)
    assert sent["remote_address"] == alive.address and sent["attempts"] == 1


async def _has_waited(world: World, queue_id: str) -> bool:
    return bool((await world.daemon.recipient(queue_id))["attempts"])


async def test_the_sender_is_warned_once_and_told_when_it_is_given_up(world: World) -> None:
    world.configure("class.normal", warn_after="1s", give_up_after="4s")
    await world.mx("never.test", script={"RCPT": "450 4.2.1 mailbox busy"})
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@never.test", subject="warn me")
    await until(lambda: len(world.bounces()) == 1)
    assert (await daemon.recipient(queue_id))["status"] in ("pending", "sending")
    dead = await until(lambda: daemon.has(queue_id, "dead"))
    await until(lambda: len(world.bounces()) == 2)
    delayed, failed = map(delivery_status, world.bounces())
    assert (delayed[1]["Action"], delayed[1]["Status"]) == ("delayed", "4.2.1")
    assert "Will-Retry-Until" in delayed[1]
    assert failed[1]["Action"] == "failed"
    assert dead["attempts"] >= 3 and dead["reply"]["code"] == 450
    shown = await daemon.show(queue_id)
    ages = [entry["at"] for entry in shown["timeline"] if entry["event"] in ("deferred", "dead")]
    assert ages[-1] >= shown["expires_at"], "the last attempt is made when the age is used up"
    (listed,) = (await daemon.json("dead"))["messages"]
    assert listed["queue_id"] == queue_id
    (alert,) = await until(lambda: world.mail_for("postmaster@admin.test"))
    assert queue_id.encode() in alert.content


async def test_max_attempts_gives_up_before_the_age_does(world: World) -> None:
    world.configure("class.normal", max_attempts=2, give_up_after="1h")
    await world.mx("never.test", script={"RCPT": "450 4.2.1 mailbox busy"})
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@never.test")
    assert (await until(lambda: world.daemon.has(queue_id, "dead")))["attempts"] == 2


async def test_b31_what_cannot_even_be_tried_is_set_apart_and_the_rest_goes(running: World) -> None:
    """The content of eight messages is gone before their turn comes: no busy loop, no bounce, the ninth arrives."""
    daemon = running.daemon
    await daemon.ask("hold --domain good.test")
    mx = await running.mx("good.test")
    poison = [await daemon.submit(f"r{number}@good.test") for number in range(8)]
    await daemon.stop()
    with running.spool() as spool:
        spool.execute("DELETE FROM content")
    await daemon.start()
    good = await daemon.submit("ann@good.test", subject="the ninth")
    await daemon.ask("release --domain good.test")
    await until(lambda: daemon.has(good, "sent"))
    assert (await daemon.json("status"))["damaged"] == 8
    assert {it["queue_id"] for it in (await daemon.json("dead"))["messages"]} == set(poison)
    assert [subject(message) for message in mx.messages if message.code] == ["the ninth"]
    assert not running.bounces()
    for queue_id in poison:
        assert (await daemon.recipient(queue_id))["attempts"] <= 1
