"""The configuration in a daemon's life: area N of the field cases, SIGHUP."""

import asyncio
from typing import Any

import pytest

from tests.e2e.world import World
from tests.support.daemon import mta, run, until

MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "case": ("dns", {"IgnoreIpv6": True}, "IgnoreIpv6"),
    "unknown": ("delivery", {"max_sesions": 5}, "max_sesions"),
    "section": ("deliverry", {"port": 25}, "deliverry"),
    "unit": ("class.normal", {"give_up_after": "5 days"}, "give_up_after"),
    "number": ("class.normal", {"give_up_after": 5}, "give_up_after"),
    "negative": ("class.normal", {"max_attempts": -1}, "max_attempts"),
    "zero": ("delivery", {"max_sessions": 0}, "max_sessions"),
    "wildcard": ("submission", {"listen": [":25"]}, "listen"),
    "hostname": ("", {"hostname": "my host"}, "hostname"),
}


@pytest.mark.parametrize("kind", MISTAKES)
async def test_b52_a_mistake_refuses_the_start_and_is_named(world: World, kind: str) -> None:
    table, values, key = MISTAKES[kind]
    world.configure(table, **values)
    daemon = world.daemon
    await daemon.launch()
    assert await daemon.exited() == 78
    (line,) = daemon.log_text.splitlines()
    assert line.startswith("mta: ") and str(daemon.file) in line and key in line
    assert not (world.folder / "spool.db").exists()


async def test_b52_a_reload_takes_a_good_file_and_leaves_all_as_it_is_with_a_bad_one(world: World) -> None:
    daemon = world.daemon
    await daemon.start()
    world.configure("submission", max_recipients=1)
    await daemon.reload()
    assert await _second_recipient(world) == "452 4.5.3"
    assert len(daemon.logged("daemon", what="the configuration was read again")) == 1

    world.configure("submission", max_recipients=5, max_recipient=5)
    await daemon.reload()
    assert await _second_recipient(world) == "452 4.5.3"
    (trouble,) = daemon.logged("trouble", level="error")
    assert "max_recipient" in trouble["detail"]

    del daemon.config["submission"]["max_recipient"]
    world.configure("class.normal", first_retry="1h", max_interval="1h")
    await daemon.reload()
    assert await _second_recipient(world) == "250 2.1.5"
    await world.mx("later.test", script={"RCPT": "450 4.2.1 later"})
    queue_id = await daemon.submit("ann@later.test")
    deferred = await until(lambda: daemon.logged("deferred", qid=queue_id))
    shown = await daemon.show(queue_id)
    assert shown["recipients"][0]["next_attempt_at"] == shown["expires_at"], "an hour is beyond the age"
    assert len(deferred) == 1


async def _second_recipient(world: World) -> str:
    async with await world.daemon.client() as client:
        for line in ("EHLO c.test", "MAIL FROM:<a@shop.test>", "RCPT TO:<a@shop.test>"):
            assert (await client.command(line)).startswith("250")
        return (await client.command("RCPT TO:<b@shop.test>"))[:9]


async def test_a_reload_says_what_wants_a_restart(running: World) -> None:
    running.configure("", hostname="other.out.test")
    running.configure("spool", url=f"sqlite:{running.folder}/other.db")
    await running.daemon.reload()
    warned = running.daemon.warnings
    assert any("hostname" in what for what in warned) and any("spool" in what for what in warned)
    assert (await running.daemon.json("status"))["hostname"] == "mail.out.test"
    assert not (running.folder / "other.db").exists()


NO_NAME = """
import socket, time
def getfqdn(name=""):
    time.sleep(60)
socket.getfqdn = getfqdn
"""
ONE_NAME = """
import socket
def getfqdn(name="", asked=[]):
    assert not asked, "asked again"
    asked.append(name)
    return {name!r}
socket.getfqdn = getfqdn
"""


async def test_b53_a_name_that_is_configured_is_never_looked_up(world: World) -> None:
    """20 submissions, 20 deliveries, and the same name wherever we say it."""
    mx = await world.mx("good.test", "bad.test", script={"RCPT": _bad_is_refused})
    world.daemon.preamble = NO_NAME
    await world.daemon.start()
    await asyncio.gather(*(world.daemon.submit(f"r{number}@good.test") for number in range(20)))
    await world.daemon.submit("ann@bad.test", headers=["X-A: b"])
    (bounce,) = await until(world.bounces)
    await until(world.daemon.idle)
    assert len(mx.messages) == 20
    assert {line for line in mx.commands if line.startswith(("EHLO", "HELO"))} == {"EHLO mail.out.test"}
    for message in mx.messages:
        assert b"by mail.out.test " in message.content and b"@mail.out.test>" in message.content
    assert b"Reporting-MTA: dns; mail.out.test" in bounce.content


def _bad_is_refused(line: str) -> str:
    return "550 5.1.1 no" if "bad.test" in line else "250 ok"


async def test_b53_the_machine_s_name_is_asked_for_once(world: World) -> None:
    mx = await world.mx("good.test")
    del world.daemon.config["hostname"]
    world.daemon.preamble = ONE_NAME.format(name="found.out.test")
    await world.daemon.start()
    await asyncio.gather(*(world.daemon.submit(f"r{number}@good.test") for number in range(5)))
    await until(world.daemon.idle)
    assert {line for line in mx.commands if line.startswith("EHLO")} == {"EHLO found.out.test"}


async def test_b53_a_machine_without_a_usable_name_is_told_what_to_set(world: World) -> None:
    del world.daemon.config["hostname"]
    world.daemon.preamble = ONE_NAME.format(name="-no name-")
    await world.daemon.launch()
    assert await world.daemon.exited() == 78
    assert "set hostname in the configuration" in world.daemon.log_text


async def test_b53_a_refusal_of_our_name_bounces_nobody(running: World) -> None:
    """It is our own configuration's problem: the mail waits until the name is good."""
    await running.mx("picky.test", script={"EHLO": ["550 5.7.1 who are you"] * 3, "HELO": ["550 5.7.1 who are you"] * 3})
    queue_id = await running.daemon.submit("ann@picky.test")
    sent = await until(lambda: running.daemon.has(queue_id, "sent"))
    assert sent["attempts"] >= 2
    assert not running.bounces()


async def test_check_and_serve_agree_about_a_mistake(world: World) -> None:
    world.configure("delivery", max_sesions=5)
    await world.daemon.launch()
    await world.daemon.exited()
    checked = await run(*mta(), "check", "--config", str(world.daemon.file))
    assert checked.code == 78 and checked.err == world.daemon.log_text
