"""Once: area P of the field cases."""

import asyncio
import signal
from typing import Any

import pytest

from tests.e2e.reports import delivery_status
from tests.e2e.world import POSTMASTER, World
from tests.support.daemon import mta, run, until
from tests.support.mx import Close, Hold, Reset, Silence


@pytest.mark.parametrize("step", [Silence(), Close(), Reset(), "354 go on"], ids=["silence", "close", "reset", "354"])
async def test_b57_no_reply_to_the_dot_is_a_doubt_and_the_copy_is_the_same(world: World, step: Any) -> None:
    """The other server of the domain is not asked, in this attempt or the next."""
    first, second = await world.mx(script={"FINAL": [step]}), await world.mx()
    world.route("x.test", first.address, second.address)
    world.configure("delivery", timeouts={"final": "1s"}, in_doubt_delay="2s")
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@x.test")
    doubtful = await until(lambda: daemon.has(queue_id, "in_doubt"))
    assert (doubtful["attempts"], doubtful["doubts"]) == (1, 1)
    assert (await daemon.counts())["in_doubt"] == 1
    sent = await until(lambda: daemon.has(queue_id, "sent"))
    assert (sent["attempts"], sent["doubts"], sent["remote_address"]) == (2, 1, first.address)
    one, other = first.messages
    assert one.raw == other.raw
    assert not second.connections
    events = [entry["event"] for entry in (await daemon.show(queue_id))["timeline"]]
    assert events == ["accepted", "in_doubt", "sent"]


async def test_b57_the_doubt_can_wait_for_a_person(world: World) -> None:
    """delivery.in_doubt = "hold": the sender and the postmaster are told; --sent ends it, --resend sends it again."""
    mx = await world.mx("x.test", script={"FINAL": [Close(), Close()]})
    world.configure("delivery", in_doubt="hold")
    daemon = world.daemon
    await daemon.start()
    one, two = await daemon.submit("one@x.test"), await daemon.submit("two@x.test")
    for queue_id in (one, two):
        await until(lambda queue_id=queue_id: daemon.has(queue_id, "in_doubt"))
    await until(lambda: len(world.bounces()) == 2 and world.mail_for(POSTMASTER))
    assert {delivery_status(bounce)[1]["Action"] for bounce in world.bounces()} <= {"delayed", "failed"}
    assert {it["queue_id"] for it in (await daemon.json("dead"))["messages"]} == {one, two}
    await daemon.restart()
    assert len(mx.messages) == 2, "nothing is sent again by itself"
    assert (await daemon.cli("resolve", one, "--sent")).code == 0
    assert (await daemon.cli("resolve", two, "--resend")).code == 0
    await until(lambda: daemon.has(two, "sent"))
    assert (await daemon.recipient(one))["status"] == "sent"
    assert sorted(message.forward_paths[0] for message in mx.messages) == ["one@x.test", "two@x.test", "two@x.test"]


async def test_b57_a_message_that_is_always_in_doubt_ends_and_is_counted(world: World) -> None:
    """Too large for the path, say: every copy goes out, no reply ever comes."""
    mx = await world.mx("hole.test", script={"FINAL": Close()})
    world.configure("delivery", in_doubt_delay="500ms")
    world.configure("class.normal", give_up_after="3s")
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@hole.test")
    dead = await until(lambda: daemon.has(queue_id, "dead"))
    assert dead["doubts"] == len(mx.messages) >= 2
    (bounce,) = await until(world.bounces)
    assert b"may have been delivered" in bounce.content


async def test_b58_two_hundred_messages_and_twenty_sessions_are_two_hundred_arrivals(world: World) -> None:
    """While everything is made due again and again, and looked at."""
    servers = [await world.mx(f"d{number}.test") for number in range(4)]
    world.configure("delivery", max_sessions=20, max_sessions_per_destination=10)
    daemon = world.daemon
    await daemon.start()

    async def stir() -> None:
        while True:
            await daemon.ask("retry --all")
            await daemon.ask("queue")

    stirring = asyncio.create_task(stir())
    recipients = [f"r{number}@d{number % 4}.test" for number in range(200)]
    await asyncio.gather(*(_submit(world, recipients[start::10]) for start in range(10)))
    await until(daemon.idle)
    stirring.cancel()
    arrived = [path for mx in servers for message in mx.messages for path in message.forward_paths]
    assert sorted(arrived) == sorted(recipients)
    assert (await daemon.counts())["sent"] == 200


async def _submit(world: World, recipients: list[str]) -> None:
    for recipient in recipients:
        await world.daemon.submit(recipient)


async def test_b58_what_a_killed_daemon_had_claimed_is_delivered_by_the_next(world: World) -> None:
    stuck = Hold(Silence())
    mx = await world.mx("x.test", script={"MAIL": [stuck]})
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@x.test")
    await stuck.reached.wait()
    assert (await daemon.recipient(queue_id))["status"] == "sending"
    await daemon.restart(signal.SIGKILL)
    sent = await until(lambda: daemon.has(queue_id, "sent"))
    assert (sent["attempts"], sent["doubts"], len(mx.messages)) == (1, 0, 1)


async def test_b58_a_second_daemon_on_the_same_spool_is_refused(running: World) -> None:
    """It says which spool and who has it, with other ports too; the first one goes on."""
    daemon = running.daemon
    other = running.folder / "other.toml"
    own = daemon.config["submission"]["listen"][0]
    for listen, control in ((own, "control.sock"), (f"{running.net}.200:{running.port}", "other.sock")):
        text = daemon.file.read_text().replace(own, listen)
        other.write_text(text.replace("control.sock", control))
        ended = await run(*mta(), "serve", "--config", str(other))
        assert ended.code not in (0, None)
        assert str(running.folder / "spool.db") in ended.err and str(daemon.pid) in ended.err
        assert ended.err.count("\n") == 1
    assert await daemon.submit("ann@shop.test")
    await until(daemon.idle)
