"""A listener on loopback, and a spool that keeps what it accepts in a list."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from mta.app.runtime import listen
from mta.listener.server import Listener
from mta.listener.settings import ListenerSettings
from mta.model.door import Door
from mta.model.envelope import MailClass, NewMessage
from mta.model.events import Fact
from mta.policy.acceptance import Locals
from mta.policy.schedule import DEFAULTS
from mta.spool.base import ContentBuffer, Spool

HOSTNAME = "mail.out.test"
NOW = 1_700_000_000.25


class MemoryBuffer:
    def __init__(self) -> None:
        self.data = bytearray()
        self.closed = False

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, data: bytes) -> None:
        self.data += data

    def prefix(self, length: int) -> bytes:
        return bytes(self.data[:length])

    def replace_prefix(self, length: int, by: bytes) -> None:
        self.data[:length] = by

    def chunks(self) -> Iterator[bytes]:
        yield bytes(self.data)

    def close(self) -> None:
        self.closed = True


class MemorySpool:
    """`accept`, `find` and `buffer` alone. `before_accept` is awaited in front of the commit: to wait, or to fail."""

    def __init__(self, new_buffer: Callable[[], ContentBuffer] = MemoryBuffer) -> None:
        self.buffer = new_buffer
        self.accepted: list[tuple[NewMessage, bytes]] = []
        self.arrived = asyncio.Event()
        self.before_accept: Callable[[], Any] | None = None

    def check_room(self, octets: int) -> None:
        """There is room."""

    async def accept(self, message: NewMessage, content: ContentBuffer, now: float) -> None:
        if self.before_accept is not None:
            await self.before_accept()
        self.accepted.append((message, b"".join(content.chunks())))
        content.close()
        self.arrived.set()

    async def knows(self, key: str, scope: str) -> bool:
        return any((message.key, message.scope) == (key, scope) for message, _ in self.accepted)

    @property
    def last(self) -> tuple[NewMessage, bytes]:
        return self.accepted[-1]


class SeededEntropy:
    def stream(self, purpose: str) -> random.Random:
        return random.Random(purpose)


@dataclass
class FixedClock:
    at: float = NOW

    def now(self) -> float:
        return self.at


# Most tests are about something else than what a header section must have: lenient, unless they say so.
def settings(
    aliases: Mapping[str, tuple[str, ...]] | None = None, postmaster: str | None = "postmaster@admin.test", **changes: Any
) -> ListenerSettings:
    schedules = {mail_class: DEFAULTS[mail_class.label] for mail_class in MailClass}
    return ListenerSettings(
        hostname=HOSTNAME,
        locals=Locals(HOSTNAME, ("localhost", "local.test"), aliases or {}, postmaster),
        **{"schedules": schedules, "header_checks": "lenient", **changes},
    )


@dataclass
class Bench:
    """A running listener and what it has done."""

    listener: Listener
    spool: MemorySpool
    facts: list[Fact] = field(default_factory=list)
    clock: FixedClock = field(default_factory=FixedClock)

    @property
    def endpoint(self) -> tuple[str, int]:
        return self.listener.endpoints[0]


@asynccontextmanager
async def bench(spool: Any = None, host: str = "127.0.0.1", passwords: Any = None, **changes: Any):
    spool = spool or MemorySpool()
    facts: list[Fact] = []
    clock = FixedClock()
    listener = Listener(
        settings(**changes),
        cast(Spool, spool),
        clock,
        SeededEntropy(),
        facts.append,
        listen,
        passwords,
    )
    await listener.start([Door(host, 0)])
    try:
        yield Bench(listener, spool, facts, clock)
    finally:
        await listener.stop(0)
