"""Codes behind a backlog: urgent messages, one after another, to a slow destination, without and with bulk mail before them.

All peers have the same cap of sessions there; each has the destination for itself while it is measured.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.machine import Unfit
from tests.bench.peers import Kind, Peer, Setup, running
from tests.bench.plan import Plan
from tests.bench.table import Goal, Row, Table, percentile
from tests.bench.traffic import BULK, SENDER, SIZE, OwnSink, submit, text
from tests.support.ports import free_port
from tests.support.smtp_client import SmtpClient

CAP = 20
"""Sessions."""
TRANSACTION = 0.1
"""Seconds that each takes, while something is measured."""
LOADING = 10.0
"""The same while the backlog is queued, so that little of it leaves."""
INTERVAL = 0.1
"""Seconds between two urgent messages."""
SETTLING = 3.0
"""Seconds between a change of the pace and what is measured."""
PATIENCE = 120.0
"""Seconds for the last of the urgent messages to arrive; one that has not come by then counts as come then."""
SLACK = 0.02
"""Seconds by which the machine itself may be late: its timers, its other work."""
NOISE = 0.03
"""The part by which two counts of the same rate may differ."""
OURS = {"delivery": {"max_sessions": CAP, "max_sessions_per_destination": CAP}}
POSTFIX = {
    "initial_destination_concurrency": str(CAP),
    "smtp_destination_concurrency_limit": str(CAP),
    "in_flow_delay": "0",
}
"""It begins with the cap, so that it is not measured while it finds its pace, and does not slow down who fills its queue.
That queue's limits are stock, and it knows no classes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one peer: seconds from the 250 of each urgent message to its arrival, bulk messages per second."""

    empty: Sequence[float]
    loaded: Sequence[float]
    alone: float
    beside: float
    urgent_rate: float


async def run(plan: Plan) -> list[Table]:
    bulk = plan.backlogs[0]
    found = dict([await _measure(kind, plan, bulk) for kind in plan.peers[:2]])
    what = f"{bulk:,} of bulk behind {CAP} sessions of {TRANSACTION * 1000:g} ms"
    return [table(f"{plan.urgent} urgent messages, {what}", list(found), list(found.values()))]


def table(title: str, names: Sequence[str], found: Sequence[Measured]) -> Table:
    made = Table(title, names)
    empty = percentile(found[0].empty, 99) * 1000
    for percent in (50, 99):
        for queue in ("empty", "loaded"):
            goal = _wait_goal(empty) if (queue, percent) == ("loaded", 99) else None
            values = [[percentile(getattr(it, queue), percent) * 1000] for it in found]
            made.rows.append(Row(f"250 to receipt, queue {queue}, p{percent}, ms", values, goal))
    made.rows += [
        Row("bulk/s, alone", [[it.alone] for it in found]),
        Row("bulk/s, beside urgent mail", [[it.beside] for it in found], _bulk_goal(found[0])),
    ]
    return made


def _wait_goal(empty: float) -> Goal:
    """Urgent mail waits for one transaction at most; `empty` is its p99 with an empty queue, ms."""
    limit = empty + (TRANSACTION + SLACK) * 1000
    return Goal("≤ with an empty queue + a transaction", lambda own, _: own <= limit)


def _bulk_goal(measured: Measured) -> Goal:
    """Bulk mail loses no more than urgent mail has."""
    limit = (measured.alone - measured.urgent_rate) * (1 - NOISE)
    return Goal("≥ alone - urgent", lambda own, _: own >= limit)


async def _measure(kind: Kind[Peer], plan: Plan, bulk: int) -> tuple[str, Measured]:
    """The peer's name, and what was measured of it."""
    setup = Setup(free_port(), ours=OURS, postfix=POSTFIX)
    folder = plan.folder / f"alone{setup.port}"
    async with OwnSink(setup.port) as sink, running([kind], folder, setup) as (peer,):
        sink.take(TRANSACTION)
        await _urgent(peer, sink, 5, "warm")
        empty, _ = await _urgent(peer, sink, plan.urgent, "empty")
        sink.take(LOADING)
        letter = folder / "letter"
        letter.write_bytes(
            b"From: <%s>\nSubject: news\nPrecedence: bulk\n\n" % SENDER.encode() + text(SIZE).replace(b"\r", b"")
        )
        await submit(peer.endpoint, bulk, letter=letter)
        sink.take(TRANSACTION)
        await asyncio.sleep(SETTLING)
        begin = _now()
        await asyncio.sleep(plan.urgent * INTERVAL)
        alone = sink.rate(begin, _now())
        begin = _now()
        loaded, until = await _urgent(peer, sink, plan.urgent, "loaded")
        if sum(at < until for at in sink.bulk) >= bulk:
            raise Unfit(f"{peer.name} has delivered all bulk before the end: more is needed")
        return peer.name, Measured(empty, loaded, alone, sink.rate(begin, until), plan.urgent / (until - begin))


async def _urgent(peer: Peer, sink: OwnSink, count: int, name: str) -> tuple[list[float], float]:
    """One message each `INTERVAL`; the seconds from each one's 250 to its arrival, and when the last interval ended."""
    accepted: dict[str, float] = {}
    content = b"From: <%s>\r\nSubject: code\r\nPriority: urgent\r\n\r\n" % SENDER.encode() + text(SIZE)
    async with await SmtpClient.connect(peer.endpoint) as client:
        begin = _now()
        for number in range(count):
            await asyncio.sleep(begin + number * INTERVAL - _now())
            recipient = f"{name}{number}@{BULK}"
            await client.envelope(SENDER, [recipient])
            reply = await client.command(content + b".")
            accepted[recipient] = _now()
            if not reply.startswith("250"):
                raise Unfit(f"a message was not accepted: {reply}")
        await asyncio.sleep(begin + count * INTERVAL - _now())
        until = _now()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            for recipient in accepted:
                await sink.arrival(recipient)
    never = _now()  # who has not arrived by now counts with what it has waited for so far
    return [sink.others.get(it, never) - at for it, at in accepted.items()], until


def _now() -> float:
    return asyncio.get_running_loop().time()
