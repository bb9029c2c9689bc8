"""Addresses from the submission to the remote server: B25, B38, B54."""

import pytest

from tests.e2e.reports import delivery_status
from tests.e2e.world import World
from tests.support.daemon import until

UNUSABLE = (
    f"b@{'a' * 64}.example.org", "b@example..org", f"b@{'a.' * 140}org", "b@[300.1.1.1]", "b@[IPv6:::z]", "b@-x.example.org",
    "b@example.org.", "b@sales", "",
)  # fmt: skip


async def test_b25_what_can_never_be_resolved_is_refused_at_rcpt(running: World) -> None:
    mx = await running.mx("good.test")
    async with await running.daemon.client() as client:
        await client.command("EHLO client.test")
        await client.command("MAIL FROM:<app@shop.test>")
        for address in UNUSABLE:
            reply = await client.command(f"RCPT TO:<{address}>")
            assert reply[:3] in ("501", "553", "554"), (address, reply)
        assert (await client.command("RCPT TO:<b@good.test")).startswith("501"), "the bracket is missing"
        assert (await client.command("RCPT TO:<ann@good.test>")).startswith("250")
        assert (await client.command("DATA")).startswith("354")
        await client.send(b"From: a@b.test\r\nSubject: x\r\n\r\nx\r\n.\r\n")
        assert (await client.reply()).startswith("250")
    (message,) = await until(lambda: mx.messages)
    assert message.forward_paths == ["ann@good.test"]


@pytest.mark.parametrize("domain", ["a" * 64 + ".test", "x..test", ".", "[127.0.0.1", "☃.test"])
async def test_b25_an_old_row_with_such_a_domain_harms_nobody(running: World, domain: str) -> None:
    """It ends, or is set apart; either way it is shown, and other mail goes."""
    mx, daemon = await running.mx("good.test"), running.daemon
    await daemon.ask("hold --all")
    queue_id = await daemon.submit("ann@odd.test")
    await daemon.stop()
    with running.spool() as spool:
        spool.execute("UPDATE recipients SET destination = ?, address = ?", (domain, f"ann@{domain}"))
        spool.execute("UPDATE destinations SET destination = ?", (domain,))
    await daemon.start()
    await daemon.ask("release --all")
    good = await daemon.submit("bob@good.test")
    await until(lambda: daemon.has(good, "sent"))
    await until(lambda: _ended(running, queue_id))
    assert len(mx.messages) == 1 and len(daemon.logged("deferred")) == 0
    assert (await daemon.cli("show", queue_id)).code == 0


async def _ended(world: World, queue_id: str) -> bool:
    shown = await world.daemon.show(queue_id)
    return bool(shown["damaged"]) or shown["recipients"][0]["status"] == "failed"


async def test_b38_a_label_domains_are_one_in_any_case_and_their_dsn_is_plain(running: World) -> None:
    mx = await running.mx("xn--bcher-kva.test", script={"RCPT": "550 5.1.1 no such user"})
    await running.daemon.submit("INFO@XN--BCHER-KVA.test", "info@xn--bcher-kva.test")
    (bounce,) = await until(running.bounces)
    await until(running.daemon.idle)
    _, *recipients = delivery_status(bounce)
    named = {it["Final-Recipient"].removeprefix("rfc822; ").lower() for it in recipients}
    assert named == {"info@xn--bcher-kva.test"}
    assert b"??" not in bounce.content
    assert len(mx.connections) == 1, "one destination"


async def test_b54_quoted_local_parts_leave_as_they_came(running: World) -> None:
    mx = await running.mx("good.test")
    paths = ['"a b"@good.test', '"a@b"@good.test', '"x\\"@y"@good.test', "o'neil+tag@good.test"]
    await running.daemon.submit(*paths, sender='"q s"@shop.test')
    (message,) = await until(lambda: mx.messages)
    assert message.rcpts == [f"RCPT TO:<{path}>" for path in paths]
    assert message.mail.startswith('MAIL FROM:<"q s"@shop.test>')


@pytest.mark.parametrize(
    "line",
    [
        b"RCPT TO:<a\rb@good.test>",
        b"RCPT TO:<a\0b@good.test>",
        b"RCPT TO:<;id;>",
        b"RCPT TO:<b@good.test NOTIFY=NEVER>",
        b"RCPT TO:<b@good.test>>>>",
        b"RCPT TO:<b@good.test>\nRCPT TO:<c@good.test>",
    ],
)
async def test_b54_nothing_hides_in_an_address(running: World, line: bytes) -> None:
    """The remote server sees the commands of one transaction with the good recipient alone."""
    mx = await running.mx("good.test")
    async with await running.daemon.client() as client:
        await client.command("EHLO client.test")
        await client.command("MAIL FROM:<app@shop.test>")
        assert (await client.command(line)).startswith("5")
        assert (await client.command("RCPT TO:<ann@good.test>")).startswith("250")
        await client.command("DATA")
        await client.send(b"From: a@b.test\r\nSubject: x\r\n\r\nx\r\n.\r\n")
        assert (await client.reply()).startswith("250")
    await until(running.daemon.idle)
    assert mx.connections[0].verbs[:4] == ["EHLO", "MAIL", "RCPT", "DATA"]
    assert mx.messages[0].forward_paths == ["ann@good.test"]


async def test_b54_nothing_hides_in_a_person_s_command(running: World) -> None:
    daemon = running.daemon
    queue_id = await daemon.submit("ann@shop.test")
    for line in (
        f"cancel {queue_id} --recipient 'b@good.test> NOTIFY=NEVER'", "show '<a@b>\0'", "hold --domain 'x.test\t'",
    ):  # fmt: skip
        answer = await daemon.ask(line)
        assert answer.startswith("error: ") and answer.count("\n") == 1 and answer.strip().isprintable()
    await until(daemon.idle)
