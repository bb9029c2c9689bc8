"""Control fields of a submission: the idempotency key and X-MTA-In-Doubt, over SMTP (interface.md section 3)."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mta.doorbell import Doorbell
from mta.model.envelope import DoubtOrder
from mta.model.events import Repeated
from mta.spool.base import DoubtPolicy, Spool
from mta.spool.connection import connect_inline
from mta.spool.sqlite import open_sqlite
from tests.support.smtp_client import SmtpClient
from tests.support.submission import NOW, Bench

Start = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def spool(tmp_path: Path):
    spool, _ = await open_sqlite(
        tmp_path / "spool.db", doubts=DoubtPolicy(True, 600), now=NOW, doorbell=Doorbell(), connect=connect_inline
    )
    yield spool
    await spool.close()


def mail(*fields: str, subject: str = "Your receipt", body: str = "x") -> bytes:
    return "\r\n".join(("From: app@shop.test", f"Subject: {subject}", *fields, "", body, "")).encode()


async def submit(running: Bench, content: bytes, *recipients: str, sender: str = "app@shop.test") -> str:
    async with await SmtpClient.connect(running.endpoint) as client:
        return await client.submit(content, recipients=list(recipients) or ["ann@example.org"], sender=sender)


async def stored(spool: Spool, queue_id: str) -> bytes:
    return b"".join([chunk async for chunk in spool.content(queue_id)])


@pytest.mark.parametrize("name", ["Idempotency-Key", "x-idempotency-key", "Resend-Idempotency-Key"])
async def test_a_key_by_any_of_its_names_is_kept_and_taken_out_of_the_message(start: Start, spool: Spool, name: str) -> None:
    running = await start(spool=spool)
    reply = await submit(running, mail(f"{name}: order-1"))
    (queue_id,) = await spool.find("order-1")
    assert reply == f"250 2.0.0 Ok: queued as {queue_id}"
    assert b"dempotency" not in await stored(spool, queue_id)


async def test_the_answers_to_a_second_submission(start: Start, spool: Spool) -> None:
    running = await start(spool=spool)
    await submit(running, mail("Idempotency-Key: k"))
    (first,) = await spool.find("k")
    again = mail("Date: Thu, 1 Jan 2026 00:00:00 +0000", "X-Idempotency-Key: k", body="another boundary")
    assert await submit(running, again) == f"250 2.0.0 Ok: duplicate of {first} (pending)"
    for other in (
        await submit(running, mail("Idempotency-Key: k"), "bob@example.org"),
        await submit(running, mail("Idempotency-Key: k"), sender="other@shop.test"),
        await submit(running, mail("Idempotency-Key: k", subject="Another")),
    ):
        assert other.startswith("554 5.5.0 ")
        assert first in other
    told = [fact for fact in running.facts if isinstance(fact, Repeated)]
    assert [(fact.queue_id, fact.key, fact.answer) for fact in told] == [
        (first, "k", "duplicate"), (first, "k", "other"), (first, "k", "other"), (first, "k", "other"),
    ]  # fmt: skip


async def test_neither_the_order_of_recipients_nor_the_case_of_domains_makes_another_email(
    start: Start, spool: Spool
) -> None:
    running = await start(spool=spool)
    key = "Idempotency-Key: k"
    await submit(running, mail(key, subject="a  folded\r\n subject"), "ann@example.org", "bob@example.net")
    reply = await submit(running, mail(key, subject="a folded subject"), "bob@Example.NET", "ann@example.org")
    assert "duplicate of" in reply


@pytest.mark.parametrize(
    "value",
    ["", "x" * 256, "two words", "tab\tinside", "bell\x07", "caf\xe9"],
    ids=["void", "long", "blank", "tab", "control", "8-bit"],
)
async def test_b60_a_bad_key_is_refused_by_the_fields_name(start: Start, spool: Spool, value: str) -> None:
    running = await start(spool=spool)
    reply = await submit(running, mail(f"Idempotency-Key: {value}"))
    assert reply.startswith("554 5.6.0 ")
    assert "Idempotency-Key" in reply


async def test_the_longest_key_is_taken_and_two_that_differ_are_not(start: Start, spool: Spool) -> None:
    running = await start(spool=spool)
    assert (await submit(running, mail("Idempotency-Key: " + "!" * 255))).startswith("250 ")
    same = mail("Idempotency-Key: a", "X-Idempotency-Key: a")
    assert (await submit(running, same)).startswith("250 ")
    assert (await submit(running, mail("Idempotency-Key: b", "X-Idempotency-Key: c"))).startswith("554 5.6.0 ")


async def test_a_message_without_a_key_is_refused_where_keys_are_required(start: Start, spool: Spool) -> None:
    running = await start(spool=spool, require_key=True)
    assert (await submit(running, mail())).startswith("550 5.7.0 ")
    assert (await submit(running, mail("Idempotency-Key: k"))).startswith("250 ")


async def test_a_message_id_is_a_name_within_the_window_where_that_is_asked_for(start: Start, spool: Spool) -> None:
    running = await start(spool=spool, message_id_window=60.0)
    own = mail("Message-ID: <1@shop.test>")
    first = await submit(running, own)
    assert "queued as" in first
    assert await submit(running, own) == f"250 2.0.0 Ok: duplicate of {first.split()[-1]} (pending)"
    assert "queued as" in await submit(running, own, "bob@example.org")
    assert "queued as" in await submit(running, mail()), "one of ours is never the same"


@pytest.mark.parametrize(("value", "order"), [("retry", DoubtOrder.RETRY), ("HOLD", DoubtOrder.HOLD)])
async def test_x_mta_in_doubt_is_kept_and_taken_out(start: Start, value: str, order: DoubtOrder) -> None:
    running = await start()
    await submit(running, mail(f"X-MTA-In-Doubt: {value}"))
    message, content = running.spool.last
    assert message.in_doubt is order
    assert b"In-Doubt" not in content


async def test_a_bad_x_mta_in_doubt_is_refused_by_name(start: Start) -> None:
    running = await start()
    reply = await submit(running, mail("X-MTA-In-Doubt: perhaps"))
    assert reply.startswith("554 5.6.0 ")
    assert "X-MTA-In-Doubt" in reply
