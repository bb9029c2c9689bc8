"""Mail to an address that does not exist is refused at RCPT once that is known, with the server's own words."""

from typing import Any

from tests.e2e.world import SENDER, World
from tests.support.daemon import until
from tests.support.mx import ScriptedMx


async def failed_once(world: World) -> tuple[str, ScriptedMx]:
    """One message to ann@gone.test is refused; what comes then would be taken."""
    world.configure("suppression", keep="30d")
    gone = await world.mx("gone.test", script={"RCPT": ["550 5.1.1 <ann@gone.test>: User unknown here"]})
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@gone.test")
    await until(lambda: listed(world))
    return queue_id, gone


async def listed(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.daemon.json("suppression list"))["suppressions"]
    return found


async def replies(world: World, *recipients: str) -> list[str]:
    """To each RCPT of one pipelined transaction."""
    async with await world.daemon.client() as client:
        await client.command("EHLO app.shop.test")
        commands = [f"MAIL FROM:<{SENDER}>", *(f"RCPT TO:<{it}>" for it in recipients)]
        await client.send("".join(f"{it}\r\n" for it in commands).encode())
        return [await client.reply() for _ in commands][1:]


async def test_a_second_submission_is_refused_with_the_earlier_reply_until_a_person_takes_it_back(world: World) -> None:
    queue_id, gone = await failed_once(world)
    first, second, third = await replies(world, "bob@gone.test", "ann@GONE.test", "carl@gone.test")
    assert first.startswith("250")
    assert third.startswith("250")
    assert second.startswith("550 5.1.1 <ann@GONE.test>: nothing is sent to this address since 20")
    assert "mx1.gone.test said: 550 5.1.1 <ann@gone.test>: User unknown here" in second
    [one] = await listed(world)
    assert (one["address"], one["queue_id"], one["learned"]) == ("ann@gone.test", queue_id, True)
    assert one["reply"] == {"code": 550, "enhanced": "5.1.1", "text": "<ann@gone.test>: User unknown here"}
    await world.daemon.restart()
    assert (await replies(world, "ann@gone.test"))[0].startswith("550 5.1.1")
    assert (await world.daemon.cli("suppression", "remove", "ann@gone.test")).code == 0
    assert (await world.daemon.cli("suppression", "remove", "ann@gone.test")).code == 66
    await world.daemon.submit("ann@gone.test")
    await until(lambda: world.mail_for("ann@gone.test", gone))


async def test_a_person_s_word_outweighs_it_and_a_delivery_ends_it(world: World) -> None:
    queue_id, gone = await failed_once(world)
    done = await world.daemon.cli("resend", queue_id, "--key", "again-1")
    assert "ann@gone.test is tried all the same: it is suppressed" in done.out
    await until(lambda: world.mail_for("ann@gone.test", gone))
    await until(lambda: "mail is sent to ann@gone.test again" in world.daemon.log_text)
    assert not await listed(world)
    await world.daemon.submit("ann@gone.test")


async def test_a_person_may_name_one_although_nothing_is_learned(running: World) -> None:
    daemon = running.daemon
    await running.mx("example.test")
    done = await daemon.cli("suppression", "add", "bob@example.test", "--reason", "he asked for it", "--for", "1h")
    assert (done.code, "bob@example.test: nothing is sent to it since" in done.out) == (0, True)
    refused, taken = await replies(running, "bob@example.test", "carl@example.test")
    assert refused.startswith("550 5.1.1 ")
    assert refused.endswith(": he asked for it")
    assert taken.startswith("250")
    assert "he asked for it" in (await daemon.cli("suppression", "list")).out
    local = await daemon.cli("suppression", "add", "postmaster@mail.out.test")
    assert (local.code, "this machine" in local.err) == (65, True)
    assert (await daemon.cli("suppression", "add", "no address")).code == 64
    assert (await daemon.cli("suppression", "add")).code == 64


async def test_without_the_setting_the_server_is_asked_again(running: World) -> None:
    """Off by default: what failed once is tried when it is submitted again."""
    gone = await running.mx("gone.test", script={"RCPT": ["550 5.1.1 User unknown"]})
    queue_id = await running.daemon.submit("ann@gone.test")
    await until(lambda: running.daemon.has(queue_id, "failed"))
    shown = (await running.daemon.cli("show", queue_id)).out
    assert "that is: there is no such mailbox (no-such-user)" in shown
    assert (await running.daemon.recipient(queue_id))["category"] == "no-such-user"
    assert (await running.daemon.json("status"))["categories"] == {"no-such-user": 1}
    assert running.daemon.logged("failed", category="no-such-user")
    await running.daemon.submit("ann@gone.test")
    await until(lambda: running.mail_for("ann@gone.test", gone))


async def test_q3_the_postmaster_hears_of_a_server_that_does_not_trust_us(running: World) -> None:
    """Quirk Q3 of Table A: one alert, whatever comes after it within the day."""
    blocked = "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org"
    await running.mx("wary.test", script={"RCPT": blocked})
    for name in ("ann", "bob"):
        queue_id = await running.daemon.submit(f"{name}@wary.test")
        await until(lambda: running.daemon.has(queue_id, "failed"))  # noqa: B023  awaited within the loop
    alerts = await until(lambda: [it for it in running.mail_for("postmaster@admin.test") if b"trust us" in it.content])
    await until(running.daemon.idle)
    assert len(alerts) == 1
    assert b"zen.spamhaus.org" in alerts[0].content
