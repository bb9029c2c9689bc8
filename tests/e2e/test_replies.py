"""What remote servers answer, and what becomes of the mail: areas D and E of the field cases."""

import asyncio
import json
from typing import Any

import pytest

from tests.e2e.reports import delivery_status
from tests.e2e.world import SENDER, World
from tests.support.daemon import until
from tests.support.mx import Close, Hold, Reset, Silence, server_tls

MULTILINE = b"550-5.2.1 The mailbox is\r\n550-5.2.1 disabled: see\r\n550 5.2.1 https://example.org/help\r\n"


async def test_b07_a_multi_line_reply_is_one_field_of_one_report(running: World) -> None:
    await running.mx("bad.test", script={"RCPT": MULTILINE})
    queue_id = await running.daemon.submit("ann@bad.test")
    await until(running.bounces)
    await until(running.daemon.idle)
    (bounce,) = running.bounces()
    _, recipient = delivery_status(bounce)
    assert recipient["Status"] == "5.2.1"
    words = "smtp; 550 5.2.1 The mailbox is disabled: see https://example.org/help"
    assert recipient.get_all("Diagnostic-Code") == [words]
    assert (await running.daemon.recipient(queue_id))["reply"]["text"] == words.partition("5.2.1 ")[2]


@pytest.mark.parametrize(
    "reply",
    [b"550 black ip \xb7\xa2\xd0\xc5\xc8\xcb\r\n", b"550 5.7.1 a\x1b[2Jb\0c" + b"x" * 400 + b"\r\n"],
    ids=["gbk", "controls"],
)
async def test_b11_a_reply_that_is_not_ascii_is_a_refusal_like_any_other(running: World, reply: bytes) -> None:
    await running.mx("bad.test", script={"RCPT": reply})
    daemon = running.daemon
    queue_id = await daemon.submit("ann@bad.test")
    failed = await until(lambda: daemon.has(queue_id, "failed"))
    assert failed["reply"]["code"] == 550 and failed["reply"]["text"].isprintable()
    (bounce,) = await until(running.bounces)
    assert "550" in delivery_status(bounce)[1]["Diagnostic-Code"]
    (line,) = daemon.logged("failed", qid=queue_id)
    assert line["code"] == 550 and line["text"].isprintable()
    shown = await daemon.cli("show", queue_id)
    assert shown.code == 0 and "\x1b" not in shown.out and "\0" not in shown.out
    assert json.loads((await daemon.cli("show", queue_id, "--json")).out)["recipients"][0]["status"] == "failed"


ZOO: dict[str, tuple[str, Any]] = {
    "mixed": ("BANNER", b"220-x\r\n521 5.7.1 blocked\r\n"),
    "blank": ("RCPT", b"\r\n250 ok\r\n"),
    "words": ("RCPT", b"hello world\r\n"),
    "short": ("RCPT", b"25 ok\r\n"),
    "unknown": ("RCPT", b"999 ok\r\n"),
    "long": ("RCPT", b"250 " + b"x" * 100_000 + b"\r\n"),
    "endless": ("BANNER", (b"220-x\r\n" * 50_000, Silence())),
    "unbroken": ("EHLO", (b"x" * 2**20, Silence())),
    "silent": ("MAIL", Silence()),
}


async def test_b12_what_is_no_reply_is_trouble_for_a_while_and_never_a_verdict(world: World) -> None:
    """Each kind in turn; mail for others goes on, and a bare code is a reply."""
    timeouts = dict.fromkeys(("greeting", "command", "data_init", "final"), "1s")
    world.configure("delivery", timeouts=timeouts)
    world.configure("class.normal", give_up_after="1h")
    for kind, (stage, step) in ZOO.items():
        await world.mx(f"{kind}.test", script={stage: step})
    await world.mx("bare.test", script=dict.fromkeys(("EHLO", "MAIL", "RCPT", "FINAL"), b"250\r\n"))
    daemon = world.daemon
    await daemon.start()
    ids = {kind: await daemon.submit(f"ann@{kind}.test") for kind in ZOO}
    bare = await daemon.submit("ann@bare.test")
    await until(lambda: daemon.has(bare, "sent"))
    for kind, queue_id in ids.items():
        tried = await until(lambda queue_id=queue_id: _tried(world, queue_id))
        assert tried["status"] in ("pending", "sending"), (kind, tried)
        assert tried["doubts"] == 0 and (tried["reply"] is None or len(tried["reply"]["text"]) <= 2000)
    assert not world.bounces()


async def _tried(world: World, queue_id: str) -> dict[str, Any] | None:
    recipient = await world.daemon.recipient(queue_id)
    return recipient if recipient["attempts"] else None


@pytest.mark.parametrize(
    ("stage", "reply", "doubts"),
    [("DATA", "250 ok", 0), ("RCPT", "354 go", 0), ("FINAL", "354 go", 1)],
)
async def test_b13_the_right_code_at_the_wrong_moment_decides_nothing(
    running: World, stage: str, reply: str, doubts: int
) -> None:
    """Neither delivered nor bounced: another connection, and then it goes as it should."""
    mx = await running.mx("odd.test", script={stage: [reply]})
    queue_id = await running.daemon.submit("ann@odd.test")
    sent = await until(lambda: running.daemon.has(queue_id, "sent"))
    assert sent["attempts"] == 2 and sent["doubts"] == doubts
    assert [message.code for message in mx.messages if message.code == 250] == [250]
    assert len(mx.connections) == 2
    assert not running.bounces()


async def test_b13_252_and_251_to_rcpt_are_acceptance(running: World) -> None:
    mx = await running.mx("fine.test", script={"RCPT": ["252 cannot verify", "251 will forward"]})
    queue_id = await running.daemon.submit("a@fine.test", "b@fine.test")
    await until(running.daemon.idle)
    assert {it["status"] for it in (await running.daemon.show(queue_id))["recipients"]} == {"sent"}
    assert len(mx.messages) == 1


async def test_b15_a_late_reply_answers_nothing_else(world: World) -> None:
    late = Hold("250 2.0.0 Ok: queued as LATE1")
    mx = await world.mx("slow.test", script={"FINAL": [late]})
    world.configure("delivery", timeouts={"final": "1s"}, in_doubt_delay="1h", max_sessions_per_destination=1)
    daemon = world.daemon
    await daemon.start()
    first = await daemon.submit("one@slow.test")
    await until(lambda: daemon.has(first, "in_doubt"))
    second = await daemon.submit("two@slow.test", sender="other@shop.test")
    late.release()
    sent = await until(lambda: daemon.has(second, "sent"))
    assert sent["remote_id"] == "MX123"
    assert (await daemon.recipient(first))["status"] == "in_doubt"
    assert len(mx.connections) == 2
    assert len(mx.connections[0].commands) == 4, "the first session was not used again"


QUITS = {
    "closes": Close(),
    "resets": Reset(),
    "refuses": "451 4.3.0 not now",
    "silent": Silence(),
    "no-notify": Close(abrupt=True),
}


async def test_b16_what_was_accepted_stays_accepted_whatever_quit_meets(running: World) -> None:
    daemon = running.daemon
    for kind, step in QUITS.items():
        tls = server_tls() if kind == "no-notify" else None
        await running.mx(f"{kind}.test", script={"QUIT": step}, tls=tls)
    ids = [await daemon.submit(f"ann@{kind}.test") for kind in QUITS]
    for queue_id in ids:
        sent = await until(lambda queue_id=queue_id: daemon.has(queue_id, "sent"), 10)
        assert (sent["attempts"], sent["doubts"]) == (1, 0)
    assert await daemon.stop() == 0
    await daemon.start()
    assert await daemon.idle()
    assert (await daemon.counts())["sent"] == len(QUITS)


@pytest.mark.parametrize(
    "step", ["421 4.3.2 closing", "502 5.5.1 what", "451 4.3.0 no", Silence()], ids=["421", "502", "451", "silence"]
)
async def test_b16_rset_that_fails_costs_the_connection_alone(world: World, step: Any) -> None:
    """Between two messages, of which the first was refused at RCPT."""
    mx = await world.mx("good.test", script={"RCPT": ["550 5.1.1 no such user"], "RSET": step})
    world.configure("delivery", timeouts={"command": "1s"}, max_sessions_per_destination=1)
    daemon = world.daemon
    await daemon.start()
    first = await daemon.submit("nobody@good.test")
    await until(lambda: daemon.has(first, "failed"))
    second = await daemon.submit("ann@good.test")
    assert (await until(lambda: daemon.has(second, "sent")))["attempts"] == 1
    assert "RSET" in mx.connections[0].verbs
    assert len(mx.connections) == 2


async def test_b17_each_recipient_has_its_own_result(running: World) -> None:
    script = {"RCPT": ["250 2.1.5 ok", "550 5.1.1 no such user", "450 4.2.1 busy"]}
    mx = await running.mx("good.test", script=script)
    daemon = running.daemon
    queue_id = await daemon.submit("ann@good.test", "nobody@good.test", "busy@good.test")
    await until(daemon.idle)
    statuses = {it["address"]: (it["status"], it["attempts"]) for it in (await daemon.show(queue_id))["recipients"]}
    assert statuses == {
        "ann@good.test": ("sent", 1),
        "nobody@good.test": ("failed", 1),
        "busy@good.test": ("sent", 2),
    }
    assert [message.forward_paths for message in mx.messages] == [["ann@good.test"], ["busy@good.test"]]
    (bounce,) = running.bounces()
    _, only = delivery_status(bounce)
    assert only["Final-Recipient"] == "rfc822; nobody@good.test"
    assert bounce.forward_paths == [SENDER]


async def test_b17_too_many_recipients_go_into_the_next_transaction_at_once(world: World) -> None:
    world.configure("class.normal", first_retry="1h", max_interval="1h")
    mx = await world.mx("good.test", script={"RCPT": ["250 ok", "452 4.5.3 too many", "452 4.5.3 too many"]})
    await world.daemon.start()
    queue_id = await world.daemon.submit("a@good.test", "b@good.test", "c@good.test")
    await until(world.daemon.idle)
    assert [it.forward_paths for it in mx.messages] == [["a@good.test"], ["b@good.test", "c@good.test"]]
    assert {it["attempts"] for it in (await world.daemon.show(queue_id))["recipients"]} == {1}


async def test_b17_421_in_the_midst_sends_to_nobody_and_keeps_its_text(world: World) -> None:
    world.configure("class.normal", first_retry="2s", max_interval="2s")
    mx = await world.mx("good.test", script={"RCPT": ["250 ok", ("421 4.3.2 closing for the night", Close())]})
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("a@good.test", "b@good.test")
    await until(lambda: _tried(world, queue_id))
    for recipient in (await daemon.show(queue_id))["recipients"]:
        assert recipient["status"] == "pending" and recipient["reply"]["code"] == 421
        assert "closing for the night" in recipient["reply"]["text"]
    assert not mx.messages
    await until(lambda: daemon.has(queue_id, "sent", "b@good.test"))
    assert [it.forward_paths for it in mx.messages] == [["a@good.test", "b@good.test"]]


async def test_b17_a_354_that_nobody_is_accepted_for_delivers_nothing(running: World) -> None:
    mx = await running.mx("good.test", script={"RCPT": ["550 5.1.1 no"] * 2, "DATA": ["354 go"]})
    daemon = running.daemon
    queue_id = await daemon.submit("a@good.test", "b@good.test")
    await until(lambda: daemon.has(queue_id, "failed", "b@good.test"))
    await asyncio.wait_for(mx.until(lambda: mx.messages), 5)
    assert mx.messages[0].raw == b"", "a lone dot"
    (bounce,) = await until(running.bounces)
    assert len(delivery_status(bounce)) == 3
