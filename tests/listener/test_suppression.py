"""RCPT for an address that nothing is sent to."""

from typing import Any, cast

from mta.listener.server import Listener
from mta.model.door import Door
from mta.model.events import Refused
from mta.policy.destinations import Destinations
from mta.spool.base import Memory, Remembered, Spool, SpoolError
from mta.suppressions import Suppressions, SuppressionSettings
from tests.support.smtp_client import SmtpClient
from tests.support.submission import FixedClock, MemorySpool, SeededEntropy, listen, settings


class Remembering(MemorySpool):
    """Knows one address; `broken`: whoever asks hears of trouble."""

    broken = False
    asked = 0

    async def memories(self, kind: Memory, after: str, limit: int, now: float) -> list[Remembered]:
        return [Remembered("ann@example.org", "{}", 1_767_323_045.678)]

    async def recall(self, kind: Memory, names: Any, now: float) -> dict[str, Remembered]:
        self.asked += 1
        if self.broken:
            raise SpoolError("disk I/O error")
        return {it.name: it for it in await self.memories(kind, "", 1, now) if it.name in names}


async def talk(spool: MemorySpool, lines: list[str], *, load: bool = True, **changes: Any) -> tuple[list[str], list[Any]]:
    """The replies to commands that come all at once, and what was told."""
    rules, clock, facts = settings(**changes), FixedClock(), list[Any]()
    store = Suppressions(SuppressionSettings(0, rules.locals, Destinations()), cast(Spool, spool), clock, facts.append)
    if load:
        await store.load()
    listener = Listener(rules, cast(Spool, spool), clock, SeededEntropy(), facts.append, listen, None, store)
    await listener.start([Door("127.0.0.1", 0)])
    try:
        async with await SmtpClient.connect(listener.endpoints[0]) as client:
            await client.command("EHLO c.test")
            await client.send("".join(f"{line}\r\n" for line in ["MAIL FROM:<a@b.test>", *lines]).encode())
            return [await client.reply() for _ in ["MAIL", *lines]][1:], facts
    finally:
        await listener.stop(0)


async def test_it_is_refused_alone_and_replies_stay_in_order() -> None:
    lines = ["RCPT TO:<bob@example.org>", "RCPT TO:<ann@EXAMPLE.org>", "NOOP", 'RCPT TO:<"ann"@example.org>', "DATA"]
    replies, facts = await talk(Remembering(), lines)
    assert [it[:9] for it in replies] == ["250 2.1.5", "550 5.1.1", "250 2.0.0", "550 5.1.1", "354 End d"]
    assert "since 2026-01-02T03:04:05.678Z" in replies[1]
    assert [it.reason for it in facts if isinstance(it, Refused)] == [
        "RCPT TO:<ann@EXAMPLE.org>", 'RCPT TO:<"ann"@example.org>',
    ]  # fmt: skip


async def test_where_there_are_none_nothing_is_asked() -> None:
    spool = Remembering()
    replies, _ = await talk(spool, ["RCPT TO:<ann@example.org>"], load=False)
    assert (replies[0][:3], spool.asked) == ("250", 0)


async def test_where_aliases_lead_is_their_own_business() -> None:
    replies, _ = await talk(Remembering(), ["RCPT TO:<root@localhost>"], aliases={"root": ("ann@example.org",)})
    assert replies[0].startswith("250")


async def test_trouble_with_the_spool_is_for_now() -> None:
    spool = Remembering()
    spool.broken = True
    replies, _ = await talk(spool, ["RCPT TO:<bob@example.org>", "NOOP"])
    assert [it[:9] for it in replies] == ["451 4.3.0", "250 2.0.0"]
    assert "disk" not in replies[0]
