"""A listener without a network: sessions over transports in memory, in virtual time."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

from tests.support.memory_transport import MemoryTransport
from tests.support.submission import Bench, bench
from tests.support.virtual import VirtualLoop

TURNS = 1000
"""Turns of the loop in which a session has done all that it can do."""


class FuzzLoop(VirtualLoop):
    """Keeps what the listener would have made protocols with."""

    factory: Callable[[], Any]

    async def create_server(self, protocol_factory: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        self.factory = protocol_factory
        return SimpleNamespace(sockets=[], close=lambda: None)


class Wire:
    """One session, driven from outside the loop. Replies are whole ones, in order."""

    def __init__(self, **settings: Any) -> None:
        self.loop = FuzzLoop()
        self.problems: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.problems.append(context))
        self._bench = bench(**settings)
        self.bench: Bench = self.run(self._bench.__aenter__())
        self.transport: MemoryTransport = self.run(self._connect())
        self._read = 0
        self.settle()

    async def _connect(self) -> MemoryTransport:
        return MemoryTransport(self.loop.factory())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._leave())
        self.loop.close()

    async def _leave(self) -> None:
        self.transport.abort()
        await self._bench.__aexit__(None, None, None)

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    def settle(self) -> None:
        self.run(_turns(TURNS))

    def send(self, data: bytes) -> list[str]:
        """The replies to it."""
        self.feed(data)
        self.settle()
        return self.replies()

    def feed(self, data: bytes) -> None:
        """The session may not have done with it yet."""
        self.run(self._feed(data))

    async def _feed(self, data: bytes) -> None:
        self.transport.feed(data)
        await _turns(2)

    def replies(self) -> list[str]:
        """Those that have come since the last look."""
        text = bytes(self.transport.written[self._read :])
        assert text == b"" or text.endswith(b"\r\n"), text
        self._read = len(self.transport.written)
        found, lines = [], []
        for line in text.decode("ascii").split("\r\n")[:-1]:
            assert len(line) <= 510 and line[:3].isdigit() and line[3:4] in ("", " ", "-"), line
            lines.append(line)
            if line[3:4] != "-":
                found.append("\n".join(lines))
                lines = []
        assert not lines, lines
        return found

    @property
    def ended(self) -> bool:
        return self.transport.is_closing()

    @property
    def accepted(self) -> list[tuple[Any, bytes]]:
        return self.bench.spool.accepted

    @property
    def buffered(self) -> int:
        """Octets that the session holds: what it has not read, and replies that it has not sent."""
        session = self.transport.protocol
        return len(session._inbox.octets) + len(session._replies)

    def check(self) -> None:
        """Nothing went wrong inside."""
        assert not self.problems, self.problems
        assert not [fact for fact in self.bench.facts if type(fact).__name__ == "Trouble"], self.bench.facts


async def _turns(count: int) -> None:
    """At most `count`, and no more when nobody has anything to do."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        await asyncio.sleep(0)
        if not loop._ready:  # type: ignore[attr-defined]
            return
