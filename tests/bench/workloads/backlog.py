"""What a backlog costs: daemons of ours with so many messages waiting, and one with an empty spool, side by side.

The backlog is for destinations that are held by standing orders (`mta hold --domain`), so nothing of it leaves; what is
measured meanwhile goes elsewhere. It is put into the spool by `tools.fill`, as the same rows that SMTP makes.
"""

import asyncio
from pathlib import Path

from tests.bench.machine import memory
from tests.bench.peers import Setup, running
from tests.bench.peers.ours import Ours
from tests.bench.plan import Plan
from tests.bench.processes import finish, tool
from tests.bench.rounds import Round, accepted, delivered, in_turns, measured, warm_up
from tests.bench.table import Goal, Row, Table, at_most, times_at_least
from tests.bench.traffic import SIZE, SmtpSink, submit
from tests.support.ports import free_port

DESTINATIONS = 100
"""That the backlog is for."""
HELD = "held.test"
"""Where what is only to be accepted goes."""
EMPTY = "empty"
QUIET, QUIET_CPU, PATIENCE = 1.0, 0.02, 60.0
"""A daemon is idle that uses at most so many seconds of CPU in so many seconds; seconds that it is waited for."""
START_GOAL, STATUS_GOAL, RATE_GOAL = at_most(2), at_most(100), times_at_least(0.9, EMPTY)
MEMORY_GOAL = Goal(f"≤ 120, ≤ {EMPTY} + 20", lambda own, empty: own <= min(120, empty + 20))


async def run(plan: Plan) -> list[Table]:
    sizes = [*plan.backlogs, 0]
    setup = Setup(free_port())
    columns = [*(f"{size:,} waiting" for size in plan.backlogs), EMPTY]
    table = Table("With a backlog", columns, judged=len(plan.backlogs), base=len(plan.backlogs))
    async with SmtpSink(plan.folder, setup.port) as sink, running([Ours] * len(sizes), plan.folder, setup) as peers:
        for peer, size in zip(peers, sizes, strict=True):
            await _fill(peer, size)
        disk = [[_octets(peer.folder) / size] if size else [] for peer, size in zip(peers, sizes, strict=True)]
        starts = await in_turns(peers, plan.rounds, Ours.restart)
        for peer in peers:
            await _idle(peer)
        table.rows += [
            Row("on disk, octets per message", disk),
            Row("start to 220, s", starts, START_GOAL),
            Row("memory (PSS) after the start, MB", [[memory(peer.pid) / 1e6] for peer in peers]),
        ]
        await warm_up(peers, [sink] * len(peers))
        table.rows += await _work(plan, peers, sink)
        table.rows += [
            Row("`mta status`, ms", await in_turns(peers, plan.rounds, _status), STATUS_GOAL),
            Row("`status` at the socket, ms", await in_turns(peers, plan.rounds, _asked)),
            Row("memory (PSS) after the work, MB", [[memory(peer.pid) / 1e6] for peer in peers], MEMORY_GOAL),
        ]
    return [table]


async def _fill(peer: Ours, size: int) -> None:
    """Every daemon has the same orders."""
    for domain in (*(f"w{number}.test" for number in range(DESTINATIONS)), HELD):
        await peer.daemon.ask(f"hold --domain {domain}")
    if size:
        await peer.daemon.stop()
        await finish(*tool("fill", str(peer.folder / "spool.db"), *map(str, (size, DESTINATIONS, SIZE))))
        await peer.daemon.start()


async def _work(plan: Plan, peers: list[Ours], sink: SmtpSink) -> list[Row]:
    async def accept(peer: Ours) -> Round:
        return await measured(peer, plan.messages, submit(peer.endpoint, plan.messages, domain=HELD), None)

    async def relay(peer: Ours) -> Round:
        return await measured(peer, plan.messages, submit(peer.endpoint, plan.messages), sink)

    return [
        accepted("meanwhile", await in_turns(peers, plan.rounds, accept), RATE_GOAL),
        delivered("meanwhile", await in_turns(peers, plan.rounds, relay), RATE_GOAL),
    ]


async def _idle(peer: Ours) -> None:
    async with asyncio.timeout(PATIENCE):
        used = None
        while used is None or peer.cpu_seconds() - used > QUIET_CPU:
            used = peer.cpu_seconds()
            await asyncio.sleep(QUIET)


async def _status(peer: Ours) -> float:
    """Milliseconds of the whole command."""
    begin = asyncio.get_running_loop().time()
    await peer.order("status")
    return (asyncio.get_running_loop().time() - begin) * 1000


async def _asked(peer: Ours) -> float:
    begin = asyncio.get_running_loop().time()
    await peer.daemon.ask("status")
    return (asyncio.get_running_loop().time() - begin) * 1000


def _octets(folder: Path) -> int:
    """Of the spool with its journal."""
    return sum(path.stat().st_size for path in folder.glob("spool.db*"))
