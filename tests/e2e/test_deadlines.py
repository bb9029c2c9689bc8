"""Mail that is worthless after a time (B35; RFC 2852)."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.e2e.reports import delivery_status
from tests.e2e.requests import reply_to, submit_by
from tests.e2e.world import World
from tests.support.daemon import until

BUSY = {"RCPT": "451 4.3.0 later"}
PROMISING = ("PIPELINING", "DELIVERBY")


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds))


@pytest.mark.parametrize("how", ["duration", "date", "parameter", "class"])
async def test_b35_it_fails_at_its_instant_with_a_dsn(world: World, how: str) -> None:
    if how == "class":
        world.configure("class.normal", deadline="2s")
    await world.mx("busy.test", script=BUSY, extensions=PROMISING)
    daemon = world.daemon
    await daemon.start()
    at = time.time()
    if how == "parameter":
        queue_id = await submit_by(daemon, "ann@busy.test", "BY=2;R")
    else:
        fields = {"duration": ["Latest-Delivery-Time: 2s"], "date": [f"Latest-Delivery-Time: {in_seconds(2)}"], "class": []}
        queue_id = await daemon.submit("ann@busy.test", headers=fields[how])
    failed = await until(lambda: daemon.has(queue_id, "failed"))
    assert 0.9 <= time.time() - at < 3.5
    assert (failed["reply"]["code"], failed["reply"]["enhanced"]) == (None, "5.4.7")
    assert "451 4.3.0 later" in failed["reply"]["text"]
    (bounce,) = await until(world.bounces)
    message, recipient = delivery_status(bounce)
    assert (recipient["Action"], recipient["Status"]) == ("failed", "5.4.7")
    assert message["Deliver-By-Date"]


async def test_b35_over_a_stop_it_is_not_sent_afterwards(world: World) -> None:
    """Checked at the start, before anything is sent."""
    mx = await world.mx("late.test", script=BUSY)
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@late.test", headers=["Latest-Delivery-Time: 2s"])
    await daemon.stop()
    await asyncio.sleep(2)
    mx.script.clear()
    await daemon.start()
    await until(lambda: daemon.has(queue_id, "failed"))
    await until(world.bounces)
    assert not mx.messages


async def test_dby_06_a_strict_deadline_fails_at_once_where_nobody_keeps_it(world: World) -> None:
    plain = await world.mx("plain.test")
    await world.daemon.start()
    queue_id = await submit_by(world.daemon, "ann@plain.test", "BY=600;R")
    failed = await until(lambda: world.daemon.has(queue_id, "failed"))
    assert failed["reply"]["enhanced"] == "5.4.7"
    await until(world.bounces)
    assert not plain.messages
    world.configure("submission", deliver_by="handover")
    await world.daemon.reload()
    queue_id = await submit_by(world.daemon, "bob@plain.test", "BY=600;R")
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert "BY=" not in plain.messages[0].mail


async def test_dby_05_dby_10_it_goes_on_and_is_traced(running: World) -> None:
    mx = await running.mx("promise.test", extensions=PROMISING)
    queue_id = await submit_by(running.daemon, "ann@promise.test", "BY=600;RT")
    await until(lambda: running.daemon.has(queue_id, "sent"))
    (by,) = [word for word in mx.messages[0].mail.split() if word.startswith("BY=")]
    seconds, _, mode = by[3:].partition(";")
    assert (590 <= int(seconds) <= 600, mode) == (True, "RT")
    (report,) = await until(running.bounces)
    message, recipient = delivery_status(report)
    assert (recipient["Action"], recipient["Status"]) == ("relayed", "2.0.0")
    assert message["Arrival-Date"] and message["Deliver-By-Date"]
    assert (await running.daemon.show(queue_id))["timeline"][-1]["event"] == "bounced"


async def test_dby_08_dby_09_mode_n_warns_and_goes_on(running: World) -> None:
    mx = await running.mx("busy.test", script=BUSY)
    queue_id = await submit_by(running.daemon, "ann@busy.test", "BY=1;N")
    (warning,) = await until(running.bounces)
    _, recipient = delivery_status(warning)
    assert (recipient["Action"], recipient["Status"]) == ("delayed", "4.4.7")
    assert recipient["Will-Retry-Until"]
    mx.script.clear()
    await until(lambda: running.daemon.has(queue_id, "sent"))
    await until(running.daemon.idle)
    assert len(running.bounces()) == 1


async def test_dby_09_mode_n_in_time_is_told_of_where_nobody_else_will(running: World) -> None:
    mx = await running.mx("dsn.test", extensions=("PIPELINING", "DSN"))
    await submit_by(running.daemon, "ann@dsn.test", "BY=600;N")
    (report,) = await until(running.bounces)
    assert delivery_status(report)[1]["Action"] == "relayed"
    assert mx.messages[0].rcpts == ["RCPT TO:<ann@dsn.test> NOTIFY=FAILURE,DELAY"]


async def test_dby_02_late_from_the_beginning_is_late_at_once(running: World) -> None:
    await running.mx("busy.test", script=BUSY)
    await submit_by(running.daemon, "ann@busy.test", "BY=0;N")
    (warning,) = await until(running.bounces)
    assert delivery_status(warning)[1]["Status"] == "4.4.7"


@pytest.mark.parametrize("parameter", ["BY=0;R", "BY=-5;R", "BY=5;X", "BY=1234567890;R", "BY="])
async def test_dby_01_dby_02_what_is_no_deadline_is_refused(running: World, parameter: str) -> None:
    assert (await reply_to(running.daemon, "ann@good.test", parameter)).startswith("501 5.5.4")


@pytest.mark.parametrize("value", ["never", "-3s", "Tue, 31 Feb 2026 25:00:00 +0000", "Mon, 01 Jan 2024 00:00:00 +0000"])
async def test_b35_a_field_that_is_no_deadline_or_has_passed_is_refused(running: World, value: str) -> None:
    reply = await running.daemon.reply("ann@good.test", headers=[f"Latest-Delivery-Time: {value}"])
    assert reply.startswith("554 5.6.0") and "latest-delivery-time" in reply.lower()


async def test_held_over_it_fails_when_it_is_released(running: World) -> None:
    await running.mx("busy.test", script=BUSY)
    daemon = running.daemon
    queue_id = await daemon.submit("ann@busy.test", headers=["Latest-Delivery-Time: 2s"])
    assert (await daemon.cli("hold", queue_id)).code == 0
    await asyncio.sleep(2.5)
    assert await daemon.has(queue_id, "held")
    assert (await daemon.cli("release", queue_id)).code == 0
    await until(lambda: daemon.has(queue_id, "failed"))
