"""Class, deadline and release of a submission, over SMTP, as the spool gets them (interface.md section 3)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.events import Accepted, Repeated
from mta.policy.schedule import DEFAULTS
from mta.spool.base import Clash, Earlier, SpoolError, Status
from tests.support.smtp_client import SmtpClient
from tests.support.submission import NOW, Bench, MemorySpool, settings

Start = Callable[..., Awaitable[Bench]]
NORMAL = DEFAULTS["normal"]


async def submit(running: Bench, *fields: str, parameters: str = "") -> str:
    """The reply to the first command that is refused, or to the content."""
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO client.test")
        for command in (f"MAIL FROM:<app@shop.test> {parameters}", "RCPT TO:<ann@example.org>", "DATA"):
            reply = await client.command(command)
            if reply[0] not in "23":
                return reply
        await client.send("\r\n".join((*fields, "Subject: x", "", "x", ".", "")).encode())
        return await client.reply()


def date(at: float) -> str:
    return format_datetime(datetime.fromtimestamp(at, UTC))


async def test_dby01_frl01_pri01_what_ehlo_offers(start: Start) -> None:
    running = await start(max_hold=3600.5)
    async with await SmtpClient.connect(running.endpoint) as client:
        lines = (await client.command("EHLO client.test")).split("\n")
    assert {"250-DELIVERBY", "250-FUTURERELEASE 3600 2023-11-14T23:13:20Z", "250-MT-PRIORITY"} <= set(lines)


async def test_what_mail_asks_reaches_the_spool(start: Start) -> None:
    """DBY-04, FRL-04: give-up and warning count from the release, the deadline from MAIL."""
    running = await start()
    await submit(running, parameters="BY=600;RT HOLDFOR=60 MT-PRIORITY=-4")
    message, content = running.spool.last
    assert (message.mail_class, message.priority) == (MailClass.BULK, -4)
    assert message.deliver_by == DeliverBy(NOW + 600, ByMode.RETURN, trace=True)
    assert (message.not_before, message.hold_request) == (NOW + 60, "for;60")
    bulk = DEFAULTS["bulk"]
    assert (message.accepted_at, message.expires_at) == (NOW, NOW + 60 + bulk.give_up_after)
    head = content.partition(b"\r\n\r\n")[0]
    assert b"\r\n\tfor <ann@example.org>\r\n\tPRIORITY -4;\r\n" in head
    assert head.count(b"\r\nMT-Priority: -4\r\n") == 1


async def test_a_header_says_the_same(start: Start) -> None:
    running = await start()
    await submit(running, f"Latest-Delivery-Time: {date(NOW + 600)}", "Deferred-Delivery: 1m", "Priority: urgent")
    message, content = running.spool.last
    assert (message.mail_class, message.priority) == (MailClass.URGENT, 0)
    assert message.deliver_by == DeliverBy(int(NOW + 600), ByMode.HANDOVER)
    assert (message.not_before, message.hold_request) == (NOW + 60, "")
    assert b"Delivery" not in content
    assert b"\r\nPriority: urgent\r\n" in content
    assert b"PRIORITY" not in content
    fact = running.facts[-1]
    assert isinstance(fact, Accepted)
    assert (fact.deliver_by, fact.not_before) == (int(NOW + 600), NOW + 60)


async def test_mail_that_asks_nothing_is_as_it_was(start: Start) -> None:
    running = await start()
    await submit(running)
    message, _ = running.spool.last
    assert (message.priority, message.deliver_by, message.not_before, message.hold_request) == (0, None, None, "")
    assert (message.expires_at, message.warn_at) == (NOW + NORMAL.give_up_after, NOW + NORMAL.warn_after)


async def test_b35_a_class_may_have_a_deadline_of_its_own_from_the_release_on(start: Start) -> None:
    schedules = settings().schedules | {MailClass.URGENT: replace(DEFAULTS["urgent"], deadline=300.0)}
    running = await start(schedules=schedules)
    await submit(running, "Priority: urgent")
    assert running.spool.last[0].deliver_by == DeliverBy(NOW + 300, ByMode.HANDOVER)
    await submit(running, "Priority: urgent", "Deferred-Delivery: 1h")
    assert running.spool.last[0].deliver_by == DeliverBy(NOW + 3900, ByMode.HANDOVER)
    await submit(running, "Priority: urgent", "Latest-Delivery-Time: 1h")
    assert running.spool.last[0].deliver_by == DeliverBy(NOW + 3600, ByMode.HANDOVER)
    await submit(running)
    assert running.spool.last[0].deliver_by is None


async def test_by_return_means_handing_over_where_that_is_configured(start: Start) -> None:
    running = await start(strict_deliver_by=False)
    await submit(running, parameters="BY=60;R")
    assert running.spool.last[0].deliver_by == DeliverBy(NOW + 60, ByMode.HANDOVER)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("BY=0;R", "501 5.5.4"),
        ("HOLDFOR=3601", "501 5.5.4"),
        ("HOLDFOR=60 BY=60;R", "501 5.5.4"),
        ("MT-PRIORITY=+1", "501 5.5.2"),
    ],
)
async def test_a_parameter_is_refused_at_mail(start: Start, parameters: str, code: str) -> None:
    running = await start(max_hold=3600.0)
    assert (await submit(running, parameters=parameters)).startswith(code)


@pytest.mark.parametrize(
    ("field", "parameters"),
    [
        ("Latest-Delivery-Time: never", ""),
        ("Latest-Delivery-Time: Thu, 1 Jan 2015 00:00:00 +0000", ""),
        ("Deferred-Delivery: Thu, 1 Jan 2015 00:00:00 +0000", ""),
        ("Deferred-Delivery: 2h", ""),
        ("Deferred-Delivery: 1m", "HOLDFOR=600"),
        ("Latest-Delivery-Time: 1m", "BY=600;R"),
        ("MT-Priority: 1", "MT-PRIORITY=2"),
        ("Latest-Delivery-Time: 1m", "HOLDFOR=60"),
    ],
)
async def test_b35_a_bad_field_is_refused_by_name_and_nothing_is_stored(start: Start, field: str, parameters: str) -> None:
    running = await start(max_hold=3600.0)
    reply = await submit(running, field, parameters=parameters)
    assert reply.startswith("554 5.6.0 ")
    assert field.partition(":")[0] in reply
    assert running.spool.accepted == []


class Keyed(MemorySpool):
    """Knows keys, as a spool does."""

    async def accept(self, message, content, now):  # type: ignore[no-untyped-def, override]
        known = [earlier.queue_id for earlier, _ in self.accepted if message.key and earlier.key == message.key]
        if known:
            content.close()
            return Earlier(known[0], Status.SENT, Clash.DUPLICATE)
        return await super().accept(message, content, now)


@pytest.mark.parametrize("name", ["Latest-Delivery-Time", "Deferred-Delivery"])
async def test_a_submission_repeated_after_its_date_is_a_duplicate(start: Start, name: str) -> None:
    running = await start(spool=Keyed())
    fields = ("Idempotency-Key: k", f"{name}: {date(NOW + 60)}")
    assert "queued as" in await submit(running, *fields)
    running.clock.at = NOW + 3600
    first = running.spool.last[0].queue_id
    assert await submit(running, *fields) == f"250 2.0.0 Ok: duplicate of {first} (sent)"
    assert isinstance(running.facts[-1], Repeated)
    assert (await submit(running, "Idempotency-Key: other", fields[1])).startswith("554 5.6.0 ")
    assert (await submit(running, fields[1])).startswith("554 5.6.0 ")


async def test_b56_trouble_while_a_key_is_looked_for_is_transient(start: Start) -> None:
    spool = Keyed()

    async def fail(key: str, scope: str) -> bool:
        raise SpoolError("disk I/O error")

    spool.knows = fail  # type: ignore[method-assign]
    running = await start(spool=spool)
    reply = await submit(running, "Idempotency-Key: k", "Latest-Delivery-Time: 0s")
    assert reply.startswith("451 4.3.0 ")
