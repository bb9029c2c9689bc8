"""A control desk over a real spool, and a way to put messages of every status into it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mta.control.desk import Desk
from mta.control.health import HealthRules
from mta.control.state import DestinationState
from mta.doorbell import Doorbell
from mta.model.envelope import Kind, MailClass, NewMessage, NewRecipient
from mta.model.events import Fact
from mta.model.lifecycle import Event
from mta.model.reply import Reply
from mta.policy.acceptance import Locals
from mta.policy.destinations import Destinations
from mta.spool.base import DoubtPolicy, MessageView, RecipientResult, Settlement, Spool, SpoolRefusal, Trial
from mta.spool.sqlite import open_sqlite
from mta.suppressions import Suppressions, SuppressionSettings

NOW = 1767323045.678  # 2026-01-02T03:04:05.678Z


@dataclass
class Present:
    """A daemon's state, as the test sets it."""

    now: float = NOW
    up: float = 12.5
    at: dict[str, DestinationState] = field(default_factory=dict)
    woken: list[str] = field(default_factory=list)
    lag: float = 0.0

    def uptime(self) -> float:
        return self.up

    def destinations(self) -> Mapping[str, DestinationState]:
        return self.at

    def rates(self) -> Mapping[str, float]:
        return {"accepted": 3, "sent": 0}

    def categories(self) -> Mapping[str, int]:
        return {"mailbox-full": 2}

    def loop_lag(self) -> float:
        return self.lag

    def wake(self, destination: str) -> None:
        self.woken.append(destination)


class Clock:
    def __init__(self, present: Present) -> None:
        self._present = present

    def now(self) -> float:
        return self._present.now


class Mailroom:
    """Messages in the spool, brought to where a test wants them."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._count = 0

    async def accept(
        self,
        *addresses: str,
        sender: str = "shop@example.com",
        subject: str = "Your order",
        mail_class: MailClass = MailClass.NORMAL,
        message_id: str = "",
        at: float = NOW,
        kind: Kind = Kind.MAIL,
        destination: str = "",
        **more: Any,
    ) -> str:
        """The queue id. `destination`: that of all addresses, "" what stands in them."""
        self._count += 1
        queue_id = f"{self._count:016d}"
        content = self.spool.buffer()
        content.write(b"Subject: x\r\n\r\nhi\r\n")
        recipients = tuple(NewRecipient(a, destination or a.partition("@")[2]) for a in addresses or ("ann@example.org",))
        message = NewMessage(
            queue_id, message_id or f"<{self._count}@example.com>", sender, recipients, subject, 19, False, mail_class,
            kind, at, at + 86400, None, **more,
        )  # fmt: skip
        await self.spool.accept(message, content, at)
        return queue_id

    async def settle(self, domain: str, event: Event, reply: Reply, **more: object) -> None:
        """Claims what is due at the domain and ends the attempt."""
        claim = await self.spool.claim(domain, 10, NOW)
        assert claim is not None
        if event in (Event.DELIVERED, Event.DOUBTED):
            ids = [one.id for one in claim.recipients]
            await self.spool.mark_in_doubt(claim, ids, "mx1.example.org", "192.0.2.1", NOW)
        results = tuple(
            RecipientResult(one.id, event, reply, host="mx1.example.org", address="192.0.2.1", **more)
            for one in claim.recipients
        )
        trial = Trial("mx0.example.org", "192.0.2.9", "", "connect", Reply(None, "4.4.1", "connection refused"))
        await self.spool.settle(Settlement(claim, results, (trial,)), NOW)

    async def dead(self, address: str) -> str:
        queue_id = await self.accept(address)
        await self.settle(address.partition("@")[2], Event.GAVE_UP, Reply(451, "4.3.0", "try \x1b[31mlater"))
        return queue_id


@pytest.fixture
def present() -> Present:
    return Present()


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Spool]:
    spool, _ = await open_sqlite(folder / "spool.db", doubts=DoubtPolicy(True, 600), now=NOW, doorbell=Doorbell())
    yield spool
    await spool.close()


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    async with opened(tmp_path) as spool:
        yield spool


@pytest.fixture
def mail(spool: Spool) -> Mailroom:
    return Mailroom(spool)


@pytest.fixture
def facts() -> list[Fact]:
    return []


@pytest.fixture
def desk(spool: Spool, present: Present, facts: list[Fact]) -> Desk:
    return desk_over(spool, present, facts)


def desk_over(spool: Spool, present: Present, facts: list[Fact]) -> Desk:
    async def resubmit(view: MessageView, key: str) -> str:
        raise SpoolRefusal(f"not here: {view.queue_id} {key}")

    rules = SuppressionSettings(0, Locals("mail.example.com", frozenset(), {}, None), Destinations())
    kept = Suppressions(rules, spool, Clock(present), facts.append)
    return Desk(spool, present, Clock(present), facts.append, "mail.example.com", "0.1.0", resubmit, HealthRules, kept)


async def exchange(path: Path, request: bytes, *, half_close: bool = False) -> str:
    """What a client of the socket reads until end of file."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    if half_close:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer.decode()
