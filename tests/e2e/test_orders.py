"""What a person orders, at the command line and at the socket, and over a restart (interface.md section 1)."""

from datetime import UTC, datetime

from tests.e2e.world import World
from tests.support.daemon import Ended, until
from tests.support.mx import Close, Hold


async def waiting(world: World, *recipients: str) -> str:
    """A message that was tried once and waits for long."""
    queue_id = await world.daemon.submit(*recipients)
    await until(lambda: world.daemon.logged("deferred", qid=queue_id))
    return queue_id


async def order(world: World, *words: str, code: int = 0) -> Ended:
    ended = await world.daemon.cli(*words)
    assert ended.code == code, ended
    return ended


async def patient(world: World, **how: object) -> None:
    """A daemon that does nothing twice by itself."""
    world.configure("class.normal", first_retry="1h", max_interval="1h", give_up_after="5h")
    world.configure("delivery", **{"in_doubt_delay": "1h", **how})
    await world.daemon.start()


async def test_the_verbs_on_a_message_that_waits(world: World) -> None:
    mx = await world.mx("later.test", script={"RCPT": ["450 4.2.1 later"]})
    await patient(world)
    daemon = world.daemon
    queue_id = await waiting(world, "ann@later.test")
    assert "nothing to do" in (await order(world, "release", queue_id)).out
    await order(world, "resolve", queue_id, "--sent", code=65)
    await order(world, "resolve", queue_id, "--resend", code=65)
    await order(world, "hold", queue_id)
    assert (await daemon.recipient(queue_id))["status"] == "held"
    await order(world, "retry", queue_id)
    assert (await daemon.recipient(queue_id))["status"] == "held"
    await daemon.restart()
    assert (await daemon.recipient(queue_id))["status"] == "held"
    assert (await daemon.json(f"release {queue_id}"))["total"] == 1
    assert (await daemon.recipient(queue_id))["status"] == "pending"
    assert not mx.messages
    await order(world, "retry", queue_id)
    await until(lambda: daemon.has(queue_id, "sent"))
    for verb in ("retry", "hold", "release", "cancel"):
        assert "does not apply" in (await order(world, verb, queue_id, code=65)).err
    events = [entry["event"] for entry in (await daemon.show(queue_id))["timeline"]]
    assert [event for event in events if event in ("held", "released", "sent")] == ["held", "released", "sent"]


async def test_cancel_ends_a_message_without_a_bounce_and_one_recipient_alone(world: World) -> None:
    mx = await world.mx("later.test", script={"RCPT": ["450 4.2.1 later"] * 2})
    await patient(world)
    daemon = world.daemon
    queue_id = await waiting(world, "ann@later.test", "bob@later.test")
    await order(world, "cancel", queue_id, "--recipient", "ann@later.test")
    await order(world, "cancel", queue_id, "--recipient", "nobody@later.test", code=65)
    assert (await daemon.recipient(queue_id, "ann@later.test"))["status"] == "cancelled"
    message_id = (await daemon.show(queue_id))["message_id"]
    await order(world, "retry", "--recipient", "bob@later.test", message_id)
    await until(daemon.idle)
    assert [message.forward_paths for message in mx.messages] == [["bob@later.test"]]
    assert not world.home.messages
    await order(world, "cancel", "0123456789ABCDEF", code=66)


async def test_hold_and_cancel_while_it_is_being_sent_wait_for_the_attempt(world: World) -> None:
    replies = {name: Hold("450 4.2.1 later") for name in ("hold", "cancel", "late")}
    replies["late"].step = "250 2.1.5 ok"
    for name, reply in replies.items():
        await world.mx(f"{name}.test", script={"RCPT": [reply]})
    await patient(world)
    daemon = world.daemon
    ids = {name: await daemon.submit(f"ann@{name}.test") for name in replies}
    for name, verb, after in (("hold", "hold", "held"), ("cancel", "cancel", "cancelled"), ("late", "cancel", "sent")):
        await replies[name].reached.wait()
        said = await order(world, verb, ids[name])
        assert "when the attempt ends unsent" in said.out
        assert (await daemon.recipient(ids[name]))["status"] == "sending"
        replies[name].release()
        await until(lambda name=name, after=after: daemon.has(ids[name], after))
    assert not world.home.messages


async def test_the_verbs_on_a_doubt(world: World) -> None:
    mx = await world.mx("x.test", script={"FINAL": [Close()] * 3})
    await patient(world, max_sessions_per_destination=1)
    daemon = world.daemon
    sent, again, gone = [await daemon.submit(f"{name}@x.test") for name in ("sent", "again", "gone")]
    for queue_id in (sent, again, gone):
        await until(lambda queue_id=queue_id: daemon.has(queue_id, "in_doubt"))
    await order(world, "retry", sent)
    assert (await daemon.recipient(sent))["status"] == "in_doubt"
    await order(world, "resolve", sent, "--sent")
    await order(world, "hold", again)
    await order(world, "resolve", again, "--resend")
    await order(world, "cancel", gone)
    await until(lambda: daemon.has(again, "sent"))
    assert [(await daemon.recipient(it))["status"] for it in (sent, again, gone)] == ["sent", "sent", "cancelled"]
    assert [(await daemon.recipient(it))["doubts"] for it in (sent, again, gone)] == [1, 1, 1]
    assert len(mx.messages) == 4
    await order(world, "resolve", gone, "--resend", code=65)


async def test_a_dead_message_is_tried_again_when_a_person_says_so(world: World) -> None:
    world.configure("class.normal", max_attempts=1)
    mx = await world.mx("x.test", script={"RCPT": ["450 4.2.1 later"]})
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@x.test")
    await until(lambda: world.daemon.has(queue_id, "dead"))
    await order(world, "resolve", queue_id, "--sent", code=65)
    await order(world, "retry", queue_id)
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert len(mx.messages) == 1


async def test_standing_orders_hold_what_comes_and_survive_restarts(running: World) -> None:
    """Deliveries stop, submission goes on."""
    mx, other, daemon = await running.mx("held.test"), await running.mx("free.test"), running.daemon
    await order(running, "hold", "--domain", "held.test")
    before = await daemon.submit("one@held.test", "one@free.test")
    await until(lambda: daemon.has(before, "sent", "one@free.test"))
    await daemon.restart()
    after = await daemon.submit("two@held.test")
    assert (await daemon.json("status"))["held"] == ["held.test"]
    await order(running, "retry", "--domain", "held.test")
    await order(running, "release", "--all", code=65)
    await order(running, "hold", "--all")
    stopped = await daemon.submit("two@free.test")
    await daemon.restart()
    assert set((await daemon.json("status"))["held"]) == {"*", "held.test"}
    await order(running, "release", "--all")
    await until(lambda: daemon.has(stopped, "sent"))
    assert not mx.messages and len(other.messages) == 2
    await order(running, "release", "--domain", "held.test")
    for queue_id in (before, after):
        await until(lambda queue_id=queue_id: daemon.has(queue_id, "sent", f"{_name(queue_id, before)}@held.test"))
    assert len(mx.messages) == 2


def _name(queue_id: str, first: str) -> str:
    return "one" if queue_id == first else "two"


async def test_held_mail_is_not_given_up_and_goes_when_it_is_let(world: World) -> None:
    world.configure("class.normal", give_up_after="1s")
    mx = await world.mx("x.test")
    daemon = world.daemon
    await daemon.start()
    await daemon.ask("hold --domain x.test")
    queue_id = await daemon.submit("ann@x.test")
    expires = datetime.fromisoformat((await daemon.show(queue_id))["expires_at"])
    await until(lambda: datetime.now(UTC) > expires)
    later = await daemon.submit("bob@shop.test")
    await until(lambda: daemon.has(later, "sent"))
    assert (await daemon.recipient(queue_id))["status"] == "pending"
    await daemon.ask("release --domain x.test")
    await until(lambda: daemon.has(queue_id, "sent"))
    assert len(mx.messages) == 1


async def test_the_queue_can_be_looked_at_by_what_is_wanted(world: World) -> None:
    await world.mx("later.test", script={"RCPT": "450 4.2.1 later"})
    await patient(world)
    ids = [await waiting(world, f"r{number}@later.test") for number in range(3)]
    await order(world, "hold", ids[0])
    daemon = world.daemon
    assert (await daemon.json("queue --limit 1"))["total"] == 3
    assert [it["queue_id"] for it in (await daemon.json("queue --status held"))["messages"]] == [ids[0]]
    assert (await daemon.json("queue --domain other.test"))["total"] == 0
    assert (await daemon.json("queue --sender app@shop.test --class normal"))["total"] == 3
    assert ids[1] in (await order(world, "queue", "--domain", "later.test")).out
    assert (await daemon.ask("queue --status gone")).startswith("error: ")
