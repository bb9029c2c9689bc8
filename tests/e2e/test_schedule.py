"""Mail that is to be sent later (RFC 4865; `Deferred-Delivery`)."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from tests.e2e.reports import delivery_status
from tests.e2e.requests import reply_to, submit_by, taking
from tests.e2e.world import World
from tests.support.daemon import until


async def test_frl_03_not_before_and_not_long_after(world: World) -> None:
    arrived: list[float] = []
    mx = await world.mx("good.test", script={"FINAL": taking(0, arrived)})
    await world.daemon.start()
    at = time.time()
    until_date = (datetime.now(UTC) + timedelta(seconds=3)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await submit_by(world.daemon, "ann@good.test", "HOLDFOR=3")
    await submit_by(world.daemon, "bob@good.test", f"HOLDUNTIL={until_date}")
    await world.daemon.submit("carl@good.test", headers=["Deferred-Delivery: 3s"])
    await until(lambda: len(mx.messages) == 3)
    assert all(2.9 < it - at < 4.5 for it in arrived), arrived
    assert not [it for it in mx.messages if b"deferred-delivery" in it.content.lower()]


async def test_frl_03_over_a_restart(world: World) -> None:
    arrived: list[float] = []
    mx = await world.mx("good.test", script={"FINAL": taking(0, arrived)})
    daemon = world.daemon
    await daemon.start()
    at = time.time()
    queue_id = await submit_by(daemon, "ann@good.test", "HOLDFOR=4")
    await daemon.restart()
    shown = await daemon.show(queue_id)
    assert shown["recipients"][0]["status"] == "pending" and shown["not_before"]
    await until(lambda: mx.messages)
    assert 3.9 < arrived[0] - at < 5.5


async def test_what_is_scheduled_is_listed_cancelled_held_and_released(running: World) -> None:
    mx, daemon = await running.mx("good.test"), running.daemon
    ids = [await daemon.submit(f"{name}@good.test", headers=["Deferred-Delivery: 3s"]) for name in ("ann", "bob")]
    later = await daemon.submit("carl@good.test", headers=["Deferred-Delivery: 1h"])
    listed = (await daemon.cli("queue", "--status", "pending", "--scheduled")).out
    assert all(queue_id in listed for queue_id in (*ids, later))
    assert (await daemon.cli("cancel", ids[0])).code == 0
    assert (await daemon.cli("hold", ids[1])).code == 0
    await asyncio.sleep(3.5)
    assert not mx.messages
    assert (await daemon.recipient(ids[0]))["status"] == "cancelled"
    assert (await daemon.cli("release", ids[1])).code == 0
    await until(lambda: running.mail_for("bob@good.test", mx))
    assert (await daemon.cli("retry", "--all")).code == 0
    await asyncio.sleep(0.5)
    assert await daemon.has(later, "pending"), "a retry of everything sends nothing early"
    assert (await daemon.cli("retry", later)).code == 0
    await until(lambda: running.mail_for("carl@good.test", mx))
    assert not running.bounces()


async def test_frl_06_a_dsn_says_what_was_asked_for(running: World) -> None:
    await running.mx("bad.test", script={"RCPT": "550 5.1.1 no such user"})
    await submit_by(running.daemon, "ann@bad.test", "HOLDFOR=1")
    (bounce,) = await until(running.bounces)
    message, _ = delivery_status(bounce)
    assert message["Future-Release-Request"] == "for;1"


async def test_frl_04_a_release_behind_the_deadline_is_refused(running: World) -> None:
    daemon = running.daemon
    assert (await reply_to(daemon, "ann@good.test", "HOLDFOR=60 BY=60;R")).startswith("501 5.5.4")
    headers = ["Latest-Delivery-Time: 1m", "Deferred-Delivery: 2m"]
    assert (await daemon.reply("ann@good.test", headers=headers)).startswith("554 5.6.0")


async def test_frl_04_a_deadline_behind_the_release_counts(running: World) -> None:
    """Held for a second, and two later it is too late."""
    await running.mx("busy.test", script={"RCPT": "451 4.3.0 later"})
    daemon = running.daemon
    queue_id = await daemon.submit("ann@busy.test", headers=["Deferred-Delivery: 1s", "Latest-Delivery-Time: 3s"])
    failed = await until(lambda: daemon.has(queue_id, "failed"))
    assert failed["reply"]["enhanced"] == "5.4.7" and failed["attempts"] >= 1
