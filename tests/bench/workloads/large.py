"""Large messages, many at once in and out: memory, and how long the daemon keeps somebody else waiting meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.bench.machine import memory
from tests.bench.peers import Peer, Setup, running
from tests.bench.peers.ours import Ours
from tests.bench.plan import Plan
from tests.bench.rounds import Round, in_turns, measured, warm_up
from tests.bench.table import Row, Table, at_most, percentile
from tests.bench.traffic import SESSIONS, SmtpSink, submit
from tests.support.ports import free_port
from tests.support.smtp_client import SmtpClient

SIZE = 26_000_000
"""What fits the limit of 25 MiB with what is added on the way."""
MESSAGES = 2 * SESSIONS
LOOK_INTERVAL, KNOCK_INTERVAL = 0.1, 0.01
"""Seconds between two looks at the memory; between two NOOPs."""
PATIENT = {"smtpd_junk_command_limit": "1000000"}
"""Postfix answers a client late that says NOOP often."""
MEMORY_GOAL, WAIT_GOAL = at_most(300), at_most(50)


@dataclass(slots=True)
class Watched:
    """Octets at the most, seconds that each NOOP's reply took, and by how many the loop was late by its own account, where a
    peer tells."""

    peak: int = 0
    waits: list[float] = field(default_factory=list)
    lag: float | None = None


async def run(plan: Plan) -> list[Table]:
    setup = Setup(free_port(), postfix=PATIENT)
    messages = min(MESSAGES, plan.messages)
    async with SmtpSink(plan.folder, setup.port) as sink, running(plan.peers[:2], plan.folder, setup) as peers:
        await warm_up(peers, [sink] * len(peers))

        async def one(peer: Peer) -> tuple[Round, Watched]:
            async with _watching(peer) as watched:
                round_ = await measured(peer, messages, submit(peer.endpoint, messages, size=SIZE), sink)
            if isinstance(peer, Ours):
                watched.lag = (await peer.daemon.json("status"))["loop_lag"]
            return round_, watched

        found = await in_turns(peers, plan.rounds, one)
    table = Table(f"{messages} messages of 25 MiB, {SESSIONS} at once", [peer.name for peer in peers])
    table.rows += [
        Row("peak memory (PSS), MB", [[it.peak / 1e6 for _, it in own] for own in found], MEMORY_GOAL),
        Row("NOOP meanwhile, p50, ms", [[percentile(it.waits, 50) * 1000 for _, it in own] for own in found]),
        Row("NOOP meanwhile, longest, ms", [[max(it.waits) * 1000 for _, it in own] for own in found], WAIT_GOAL),
        Row("loop lag of the last minute, ms", [[it.lag * 1000 for _, it in own if it.lag is not None] for own in found]),
        Row("delivered/s end to end", [[it.delivered for it, _ in own] for own in found]),
        Row("CPU s per message", [[it.cpu for it, _ in own if it.cpu is not None] for own in found]),
    ]
    return [table]


@asynccontextmanager
async def _watching(peer: Peer) -> AsyncIterator[Watched]:
    watched = Watched()
    tasks = [asyncio.create_task(work(peer, watched)) for work in (_look, _knock)]
    try:
        yield watched
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


async def _look(peer: Peer, watched: Watched) -> None:
    while True:
        watched.peak = max(watched.peak, await asyncio.to_thread(memory, peer.pid))
        await asyncio.sleep(LOOK_INTERVAL)


async def _knock(peer: Peer, watched: Watched) -> None:
    """From outside it can't be told whether the loop was held or the machine was busy: the figure is of both. So is the
    daemon's own, which leaves the network out."""
    now = asyncio.get_running_loop().time
    async with await SmtpClient.connect(peer.endpoint) as client:
        while True:
            begin = now()
            await client.command("NOOP")
            watched.waits.append(now() - begin)
            await asyncio.sleep(KNOCK_INTERVAL)
