"""What the name service says, and where mail goes: area F of the field cases."""

import contextlib
from typing import Any

import pytest

from tests.e2e.world import World
from tests.support.black_hole import black_hole
from tests.support.daemon import until
from tests.support.dns_server import DROP
from tests.support.smtp_client import stuffed


async def test_b19_null_mx_is_final_at_once_and_harms_nobody(running: World) -> None:
    good = await running.mx("good.test")
    zones = running.dns.zones
    zones["null.test", "MX"] = ["0 ."]
    zones["odd.test", "MX"] = ["10 ."]
    zones["mixed.test", "MX"] = ["0 .", "10 mx1.good.test."]
    daemon = running.daemon
    null, odd, mixed = [await daemon.submit(f"ann@{name}.test") for name in ("null", "odd", "mixed")]
    for queue_id in (null, odd):
        failed = await until(lambda queue_id=queue_id: daemon.has(queue_id, "failed"))
        assert failed["reply"]["enhanced"] == "5.1.10" and failed["reply"]["code"] is None
    await until(lambda: daemon.has(mixed, "sent"))
    await until(daemon.idle)
    assert len(running.bounces()) == 2
    assert not [query for query in running.dns.queries if query.name == ""]
    assert len(good.messages) == 1
    await daemon.restart()
    assert (await daemon.recipient(null))["status"] == "failed"


TROUBLE: dict[str, dict[tuple[str, str], Any]] = {
    "mx-servfail": {("x.test", "MX"): "SERVFAIL"},
    "mx-refused": {("x.test", "MX"): "REFUSED"},
    "mx-timeout": {("x.test", "MX"): DROP},
    "a-servfail": {("x.test", "MX"): ["10 mx.x.test."], ("mx.x.test", "*"): "SERVFAIL"},
    "aaaa-servfail": {("x.test", "MX"): ["10 mx.x.test."], ("mx.x.test", "A"): [], ("mx.x.test", "AAAA"): "SERVFAIL"},
    "cname-loop": {("x.test", "CNAME"): ["y.test."], ("y.test", "CNAME"): ["x.test."]},
}


@pytest.mark.parametrize("kind", TROUBLE)
async def test_b20_resolver_trouble_waits_and_is_no_way_to_the_web_server(world: World, kind: str) -> None:
    web = await world.mx("x.test")
    for key in [key for key in world.dns.zones if key[0].endswith("x.test")]:
        del world.dns.zones[key]
    world.dns.zones["x.test", "A"] = [web.address]
    world.dns.zones.update(TROUBLE[kind])
    if kind == "cname-loop":
        del world.dns.zones["x.test", "A"]
    world.configure("dns", timeout="300ms")
    world.configure("class.normal", give_up_after="1h")
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@x.test")
    await until(lambda: _attempts(world, queue_id, 2))
    recipient = await daemon.recipient(queue_id)
    assert recipient["status"] in ("pending", "sending")
    assert recipient["reply"]["enhanced"] == "4.4.3", recipient
    assert not web.connections and not world.bounces()


async def _attempts(world: World, queue_id: str, count: int) -> bool:
    return (await world.daemon.recipient(queue_id))["attempts"] >= count


async def test_b20_only_a_clean_answer_decides(running: World) -> None:
    """NXDOMAIN is final, NOERROR without MX means the domain's own address (RFC 5321 section 5.1)."""
    implicit = await running.mx()
    running.dns.zones["implicit.test", "A"] = [implicit.address]
    daemon = running.daemon
    gone, there = await daemon.submit("ann@gone.test"), await daemon.submit("ann@implicit.test")
    assert (await until(lambda: daemon.has(gone, "failed")))["reply"]["enhanced"] == "5.1.2"
    assert (await until(lambda: daemon.has(there, "sent")))["remote_host"] == "implicit.test"


async def test_b20_when_dns_is_back_the_mail_goes(running: World) -> None:
    mx = await running.mx()
    running.dns.zones["x.test", "*"] = "SERVFAIL"
    queue_id = await running.daemon.submit("ann@x.test")
    await until(lambda: _attempts(running, queue_id, 1))
    del running.dns.zones["x.test", "*"]
    running.route("x.test", mx.address)
    await until(lambda: running.daemon.has(queue_id, "sent"))


@pytest.mark.parametrize(
    ("records", "status"),
    [
        ({("x.test", "MX"): ["10 localhost."]}, "5.4.6"),
        ({("x.test", "MX"): ["10 mail.out.test."]}, "5.4.6"),
        ({("x.test", "MX"): ["10 mx.x.test."], ("mx.x.test", "A"): ["127.0.0.1"]}, "5.4.4"),
        ({("x.test", "MX"): ["10 mx.x.test."], ("mx.x.test", "AAAA"): ["::1"]}, "5.4.4"),
        ({("x.test", "MX"): ["10 mx.x.test."], ("mx.x.test", "A"): ["0.0.0.0"]}, "5.4.4"),
        ({("x.test", "MX"): ["10 mx.x.test."], ("mx.x.test", "A"): ["169.254.1.1"]}, "5.4.4"),
        ({("x.test", "MX"): ["10 mx.x.test."], ("mx.x.test", "A"): ["10.1.2.3"]}, "5.4.4"),
    ],
)
async def test_b21_mail_exchangers_that_public_data_may_not_name(world: World, records: Any, status: str) -> None:
    world.configure("delivery", allow_private_addresses=False)
    await world.daemon.start()
    world.dns.zones.update(records)
    queue_id = await world.daemon.submit("ann@x.test")
    failed = await until(lambda: world.daemon.has(queue_id, "failed"))
    assert failed["reply"]["enhanced"] == status, failed


async def test_b21_our_own_listener_is_never_delivered_to(world: World) -> None:
    """Neither alone nor behind another one, although private addresses are allowed."""
    own = f"{world.net}.1"
    world.configure("submission", listen=[f"{own}:{world.port}"])
    other = await world.mx("both.test", script={"MAIL": ["451 4.3.0 later"]})
    world.route("home.test", own)
    world.route("both.test", other.address, own)
    daemon = world.daemon
    await daemon.start()
    home, both = await daemon.submit("ann@home.test"), await daemon.submit("ann@both.test")
    assert (await until(lambda: daemon.has(home, "failed")))["reply"]["enhanced"] == "5.4.6"
    sent = await until(lambda: daemon.has(both, "sent"))
    assert sent["attempts"] == 2 and sent["remote_address"] == other.address
    await until(daemon.idle)
    assert len(daemon.logged("accepted", kind="mail")) == 2


async def test_b21_a_message_that_has_seen_a_hundred_hosts_is_refused(running: World) -> None:
    trace = b"Received: from a by b; Mon, 1 Jan 2024 00:00:00 +0000\r\n"
    async with await running.daemon.client() as client:
        reply = await client.submit(stuffed(trace * 120 + b"From: a@b.test\r\nSubject: x\r\n\r\nx\r\n"))
    assert reply.startswith("554 5.4.6")
    assert await running.daemon.idle()


@pytest.mark.parametrize("dead", ["2001:db8::1", "fe80::1"])
async def test_b22_a_dead_family_does_not_cost_the_attempt(running: World, dead: str) -> None:
    mx = await running.mx("x.test")
    running.dns.zones["mx1.x.test", "AAAA"] = [dead]
    queue_id = await running.daemon.submit("ann@x.test")
    sent = await until(lambda: running.daemon.has(queue_id, "sent"))
    assert sent["attempts"] == 1 and sent["remote_address"] == mx.address


async def test_b22_five_black_holes_and_the_sixth_takes_it_in_the_same_attempt(world: World) -> None:
    holes = [world.address() for _ in range(5)]
    last = await world.mx()
    world.route("x.test", *holes, last.address)
    world.configure("delivery", timeouts={"connect": "200ms"})
    with contextlib.ExitStack() as stack:
        for hole in holes:
            stack.enter_context(black_hole(hole, world.port))
        await world.daemon.start()
        queue_id = await world.daemon.submit("ann@x.test")
        sent = await until(lambda: world.daemon.has(queue_id, "sent"))
        assert (sent["attempts"], sent["remote_address"]) == (1, last.address)
        events = [entry["event"] for entry in (await world.daemon.show(queue_id))["timeline"]]
        assert events == ["accepted", *["attempt"] * 5, "sent"]


async def test_b23_the_main_server_comes_before_the_backup_in_whatever_order_it_is_named(running: World) -> None:
    main, backup = await running.mx(), await running.mx()
    running.dns.zones.update(
        {
            ("x.test", "MX"): ["20 backup.x.test.", "10 main.x.test."],
            ("backup.x.test", "A"): [backup.address],
            ("main.x.test", "A"): [main.address],
        }
    )
    for number in range(5):
        await running.daemon.submit(f"r{number}@x.test")
    await until(running.daemon.idle)
    assert len(main.messages) == 5 and not backup.connections
