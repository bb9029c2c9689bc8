"""From the submission to the remote server's own queue id."""

import asyncio
import json

from tests.e2e.world import World
from tests.support.daemon import until


async def test_what_was_handed_over_arrives_once_and_can_be_followed(running: World) -> None:
    daemon, mx = running.daemon, await running.mx("good.test")
    body = b"line one\r\n.dot\r\n..two\r\n\r\ntrailing \r\n\tTab\r\n" + "grüße\r\n".encode() + b"x" * 900 + b"\r\n\r\n"
    queue_id = await daemon.submit("ann@good.test", body=body, subject="exact")
    sent = await until(lambda: daemon.has(queue_id, "sent"))
    (message,) = mx.messages
    head, _, arrived = message.content.partition(b"\r\n\r\n")
    assert arrived == body
    assert (message.reverse_path, message.forward_paths) == ("app@shop.test", ["ann@good.test"])
    names = [line.split(b":")[0].lower() for line in head.split(b"\r\n") if not line[:1].isspace()]
    assert [names.count(name) for name in (b"received", b"message-id", b"date", b"subject")] == [1] * 4
    assert (sent["remote_host"], sent["remote_address"]) == ("mx1.good.test", mx.address)
    assert (sent["attempts"], sent["doubts"], sent["remote_id"]) == (1, 0, "MX123")
    assert sent["reply"] == {"code": 250, "enhanced": "2.0.0", "text": "Ok: queued as MX123"}
    shown = await daemon.show(queue_id)
    assert [entry["event"] for entry in shown["timeline"]] == ["accepted", "sent"]
    assert (await daemon.show(shown["message_id"]))["queue_id"] == queue_id
    assert json.loads((await daemon.cli("show", queue_id, "--json")).out) == shown
    for event in ("accepted", "sent"):
        assert len(daemon.logged(event, qid=queue_id)) == 1


async def test_several_recipients_at_one_destination_are_one_transaction(running: World) -> None:
    mx = await running.mx("good.test")
    names = [f"r{number}@good.test" for number in range(5)]
    queue_id = await running.daemon.submit(*names)
    await until(lambda: running.daemon.has(queue_id, "sent", names[-1]))
    (message,) = mx.messages
    assert message.forward_paths == names


async def test_b05_a_void_or_missing_message_id_is_replaced_and_a_good_one_kept(running: World) -> None:
    """The same one on every retry and for every recipient."""
    mx = await running.mx("good.test", "other.test", script={"FINAL": ["451 4.3.0 later"] * 2})
    daemon = running.daemon
    ids = [
        await daemon.submit("a@good.test", headers=["Message-Id: <>"]),
        await daemon.submit("b@good.test", "b@other.test"),
        await daemon.submit("c@good.test", headers=["message-id: <own.1@shop.test>"]),
    ]
    await until(daemon.idle)
    for queue_id in ids:
        name = (await daemon.show(queue_id))["message_id"]
        copies = [it.content for it in mx.messages if f"id {queue_id}".encode() in it.content]
        assert copies
        for copy in copies:
            head = copy.partition(b"\r\n\r\n")[0]
            assert head.lower().count(b"message-id:") == 1 and head.lower().count(b"\r\ndate:") == 1
            assert name.encode() in head
    assert (await daemon.show(ids[2]))["message_id"] == "<own.1@shop.test>"
    assert len(mx.messages) == 6


async def test_the_daemon_waits_for_nothing(running: World) -> None:
    """No timer lies between the 250 and the arrival."""
    mx = await running.mx("good.test")
    await asyncio.gather(*(running.daemon.submit(f"r{number}@good.test") for number in range(20)))
    await until(lambda: len(mx.messages) == 20, 10)
