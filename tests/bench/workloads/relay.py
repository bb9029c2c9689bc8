"""Relaying to one destination, end to end."""

from functools import partial

from tests.bench.peers import Peer, Setup, running
from tests.bench.plan import KEPT_OPEN, Plan
from tests.bench.rounds import Round, accepted, cpu, delivered, in_turns, measured, warm_up
from tests.bench.table import Table, times_at_least, times_at_most
from tests.bench.traffic import SESSIONS, SmtpSink, submit
from tests.support.ports import free_port

GOAL, CPU_GOAL = times_at_least(5), times_at_most(0.2)


async def run(plan: Plan) -> list[Table]:
    port = free_port()
    async with SmtpSink(plan.folder, port) as sink, running(plan.peers, plan.folder, Setup(port)) as peers:
        table = Table(f"Relayed to one destination, {SESSIONS} sessions in", [peer.name for peer in peers])
        await warm_up(peers, [sink] * len(peers))
        for kept_open, what in KEPT_OPEN.items():
            rounds = await in_turns(peers, plan.rounds, partial(_one, plan.messages, kept_open, sink))
            table.rows += [accepted(what, rounds), delivered(what, rounds, GOAL), cpu(what, rounds, CPU_GOAL)]
    return [table]


async def _one(messages: int, kept_open: bool, sink: SmtpSink, peer: Peer) -> Round:
    return await measured(peer, messages, submit(peer.endpoint, messages, kept_open=kept_open), sink)
