"""`mta resend`: a stored message as a new logical email (interface.md section 1)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mta.doorbell import Doorbell
from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.lifecycle import Event
from mta.model.reply import Reply
from mta.policy.schedule import DEFAULTS
from mta.spool.base import DoubtPolicy, MessageView, RecipientResult, Settlement, Spool, SpoolRefusal
from mta.spool.connection import connect_inline
from mta.spool.sqlite import open_sqlite
from tests.support.smtp_client import SmtpClient
from tests.support.submission import NOW, Bench, settings

Start = Callable[..., Awaitable[Bench]]
OWN = (
    b"Received: from earlier.test by there.test; Thu, 1 Jan 2026 00:00:00 +0000\r\nFrom: app@shop.test\r\n"
    b"Message-ID: <own@shop.test>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nSubject: Your receipt\r\n"
    b"Idempotency-Key: order-1\r\n\r\nThank you!\r\n..dots\r\n"
)


@pytest.fixture
async def spool(tmp_path: Path):
    spool, _ = await open_sqlite(
        tmp_path / "spool.db", doubts=DoubtPolicy(True, 600), now=NOW, doorbell=Doorbell(), connect=connect_inline
    )
    yield spool
    await spool.close()


async def sent(running: Bench, spool: Spool) -> MessageView:
    """A message that was submitted and delivered to both of its recipients."""
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.submit(OWN, recipients=["ann@example.org", "bob@example.org"])
    claim = await spool.claim("example.org", 10, NOW)
    assert claim is not None
    ids = [it.id for it in claim.recipients]
    await spool.mark_in_doubt(claim, ids, "mx", "192.0.2.1", NOW)
    results = tuple(RecipientResult(it, Event.DELIVERED, Reply(250, "2.0.0", "ok")) for it in ids)
    await spool.settle(Settlement(claim, results), NOW)
    view = await spool.show(claim.queue_id)
    assert view is not None
    return view


async def stored(spool: Spool, queue_id: str) -> bytes:
    return b"".join([chunk async for chunk in spool.content(queue_id)])


async def test_a_resent_message_is_a_new_email_with_the_same_words(start: Start, spool: Spool) -> None:
    running = await start(spool=spool)
    first = await sent(running, spool)
    queue_id = await running.listener.resend(first, "order-1-again")
    view = await spool.show(queue_id)
    assert view is not None
    assert (view.key, view.reverse_path, view.subject) == ("order-1-again", "app@shop.test", "Your receipt")
    assert [it.address for it in view.recipients] == ["ann@example.org", "bob@example.org"]
    content = await stored(spool, queue_id)
    assert content.count(b"Message-ID:") == content.count(b"Date:") == 1
    assert f"Message-ID: {view.message_id}\r\n".encode() in content
    assert view.message_id != "<own@shop.test>"
    assert content.endswith(b"\r\n\r\nThank you!\r\n.dots\r\n")
    assert content.count(b"Received:") == 2


async def test_a_resent_message_keeps_what_is_asked_of_dsns(start: Start, spool: Spool) -> None:
    """SPL-04, DSN-04."""
    running = await start(spool=spool)
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        await client.command("MAIL FROM:<app@shop.test> RET=full ENVID=Q+2B1")
        await client.command("RCPT TO:<ann@example.org> NOTIFY=delay,SUCCESS ORCPT=rfc822;Ann+2B@old.test")
        await client.command("DATA")
        reply = await client.command(f"{OWN.decode()}.")
    first = await spool.show(reply.split()[-1])
    assert first is not None
    again = await spool.show(await running.listener.resend(first, "order-1-again"))
    assert again is not None
    for view in (first, again):
        (recipient,) = view.recipients
        asked = (view.ret, view.envid, recipient.notify, recipient.orcpt)
        assert asked == ("FULL", "Q+2B1", "SUCCESS,DELAY", "rfc822;Ann+2B@old.test")


async def test_a_resent_message_keeps_its_priority_and_is_due_at_once(start: Start, spool: Spool) -> None:
    """Neither the first one's release nor its deadline: they are over."""
    schedules = settings().schedules | {MailClass.URGENT: replace(DEFAULTS["urgent"], deadline=300.0)}
    running = await start(spool=spool, schedules=schedules)
    fields = b"MT-Priority: 4\r\nDeferred-Delivery: 1m\r\nLatest-Delivery-Time: 2m\r\n"
    async with await SmtpClient.connect(running.endpoint) as client:
        reply = await client.submit(fields + OWN, recipients=["ann@example.org"])
    first = await spool.show(reply.split()[-1])
    assert first is not None
    again = await spool.show(await running.listener.resend(first, "again"))
    assert again is not None
    assert (again.mail_class, again.priority) == (MailClass.URGENT, 4)
    assert (again.not_before, again.deliver_by) == (None, DeliverBy(NOW + 300, ByMode.HANDOVER))
    assert (await stored(spool, again.queue_id)).count(b"MT-Priority: 4\r\n") == 1


async def test_a_key_in_use_is_refused_naming_its_message(start: Start, spool: Spool) -> None:
    running = await start(spool=spool)
    first = await sent(running, spool)
    with pytest.raises(SpoolRefusal, match=first.queue_id):
        await running.listener.resend(first, "order-1")
    again = await running.listener.resend(first, "k")
    with pytest.raises(SpoolRefusal, match=again):
        await running.listener.resend(first, "k")


async def test_content_that_is_gone_is_said(start: Start, spool: Spool) -> None:
    running = await start(spool=spool)
    first = await sent(running, spool)
    await spool.purge(NOW + 1, 0, 10, NOW + 2)
    with pytest.raises(SpoolRefusal, match="content_retention"):
        await running.listener.resend(first, "k")
    assert await spool.find("k") == []
