"""What is measured: rounds of bulk mail, and single messages on an idle daemon, of all peers in turns."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.bench.machine import Unfit, cpu_seconds
from tests.bench.peers import Ours, Peer, Postfix
from tests.bench.traffic import BULK, SINGLE, Receiver, Single, Sink, submit_many, submit_singly
from tests.support.daemon import free_port

SINK, RECEIVER, LISTEN = "127.0.0.1", "127.0.0.2", "127.0.0.1"
WARM_UP = 200
"""Messages of each peer before anything is measured."""
SINGLES_AT_ONCE = 20
"""Single messages of one peer before it is the other's turn."""
REST = 0.3
"""Seconds after the last delivery for what a peer still has to write down: its CPU time counts, its time doesn't."""


@dataclass(frozen=True, slots=True)
class Round:
    """Messages per second by their 250s, and end to end; CPU seconds per message."""

    accepted: float
    delivered: float
    cpu: float


@dataclass(slots=True)
class Figures:
    """Of one peer; `rounds` by whether the submitting connections are kept open."""

    rounds: dict[bool, list[Round]] = field(default_factory=lambda: {True: [], False: []})
    singles: list[Single] = field(default_factory=list)


class Bench:
    """The peers, their destinations, and a folder on the disk for all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port("0.0.0.0")
        self._arrivals: asyncio.Queue[float] = asyncio.Queue()
        self._stack = AsyncExitStack()
        self.peers: Sequence[Peer] = ()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._sink = await stack.enter_async_context(Sink(self._folder, SINK, self._port))
            receiver = await asyncio.get_running_loop().create_server(
                lambda: Receiver(self._arrivals), RECEIVER, self._port
            )
            stack.callback(receiver.close)
            self.peers = [await stack.enter_async_context(self._peer(kind)) for kind in (Ours, Postfix)]
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _peer(self, kind: type[Ours] | type[Postfix]) -> Ours | Postfix:
        folder = self._folder / kind.__name__.lower()
        folder.mkdir()
        return kind(folder, (LISTEN, free_port(LISTEN)), {BULK: SINK, SINGLE: RECEIVER}, self._port)

    async def run(self, messages: int, rounds: int, singles: int) -> dict[str, Figures]:
        """By the peer's name."""
        figures = {peer.name: Figures() for peer in self.peers}
        for peer in self.peers:
            await self._round(peer, WARM_UP, kept_open=True)
        for _ in range(rounds):
            for kept_open in (True, False):
                for peer in self.peers:
                    measured = await self._round(peer, messages, kept_open=kept_open)
                    figures[peer.name].rounds[kept_open].append(measured)
        for _ in range(-(-singles // SINGLES_AT_ONCE)):
            for peer in self.peers:
                figures[peer.name].singles += await submit_singly(peer.endpoint, SINGLES_AT_ONCE, self._arrivals)
        return figures

    async def _round(self, peer: Peer, messages: int, *, kept_open: bool) -> Round:
        loop = asyncio.get_running_loop()
        arrived, cpu, begin = self._sink.messages, cpu_seconds(peer.pid), loop.time()

        async def seconds(work: Coroutine[object, object, None]) -> float:
            await work
            return loop.time() - begin

        source = asyncio.create_task(seconds(submit_many(peer.endpoint, messages, kept_open=kept_open)))
        sink = asyncio.create_task(seconds(self._sink.wait_for(arrived + messages)))
        try:
            accepted, delivered = await asyncio.gather(source, sink)
        finally:
            source.cancel()
            sink.cancel()
        await asyncio.sleep(REST)
        if (excess := self._sink.messages - arrived - messages) > 0:
            raise Unfit(f"{peer.name} has delivered {excess} messages twice")
        return Round(messages / accepted, messages / delivered, (cpu_seconds(peer.pid) - cpu) / messages)
