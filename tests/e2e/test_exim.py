"""Against a real Exim, a second implementation of what a receiving server is: pipelining, 8BITMIME, SIZE."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.reports import delivery_status
from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.exim import SIZE_LIMIT, Exim

pytestmark = pytest.mark.exim


@pytest.fixture
async def exim(world: World) -> AsyncIterator[Exim]:
    world.configure("class.normal", first_retry="1h", max_interval="1h", give_up_after="5h")
    await world.daemon.start()
    with tempfile.TemporaryDirectory(prefix="mta-exim-") as folder:
        Path(folder).chmod(0o755)
        host = world.address()
        async with Exim(Path(folder), host, world.port) as exim:
            world.route("exim.test", host)
            yield exim
            print(exim.log)


async def test_cli_13_eight_bit_content_arrives_as_it_was(world: World, exim: Exim) -> None:
    body = b".dot\r\n..\r\n" + "grüße\r\n".encode() + b"x" * 900 + b"\r\n"
    queue_id = await world.daemon.submit("ann@exim.test", body=body, subject="for exim")
    sent = await until(lambda: world.daemon.has(queue_id, "sent"))
    (arrived,) = await until(lambda: exim.mail("ann@exim.test"))
    assert arrived.replace(b"\n", b"\r\n").endswith(b"\r\n\r\n" + body)
    assert b"Return-path: <app@shop.test>" in arrived
    assert sent["remote_id"] and f" {sent['remote_id']} <= app@shop.test" in exim.log
    assert " M8S=8" in exim.log  # declared as 8BITMIME


async def test_cli_10_cli_11_several_recipients_are_one_pipelined_transaction(world: World, exim: Exim) -> None:
    names = [f"{name}@exim.test" for name in ("ann", "nobody", "busy", "bob")]
    daemon = world.daemon
    queue_id = await daemon.submit(*names)
    await until(lambda: daemon.has(queue_id, "sent", "bob@exim.test"))
    statuses = {it["address"]: it["status"] for it in (await daemon.show(queue_id))["recipients"]}
    assert statuses == dict(zip(names, ("sent", "failed", "pending", "sent"), strict=True))
    await until(lambda: exim.mail("bob@exim.test"))
    (line,) = [line for line in exim.log.splitlines() if "<= app@shop.test" in line]
    assert " L. " in line  # PIPELINING was used, Exim's own extension of it was not
    (bounce,) = await until(world.bounces)
    _, group = delivery_status(bounce)
    assert "no such user here" in group["Diagnostic-Code"]


async def test_cli_14_a_message_larger_than_it_takes_fails_before_anything_is_sent(world: World, exim: Exim) -> None:
    line = b"x" * 78 + b"\r\n"
    queue_id = await world.daemon.submit("ann@exim.test", body=line * (SIZE_LIMIT // len(line) + 1))
    failed = await until(lambda: world.daemon.has(queue_id, "failed"))
    assert failed["reply"]["enhanced"] == "5.3.4" and failed["reply"]["code"] is None
    assert "MAIL" not in exim.log and "app@shop.test" not in exim.log
