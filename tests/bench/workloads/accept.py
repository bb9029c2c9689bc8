"""Accepting alone: nothing is delivered."""

from functools import partial

from tests.bench.peers import Peer, Setup, running
from tests.bench.plan import KEPT_OPEN, Plan
from tests.bench.rounds import Round, accepted, cpu, in_turns, measured, warm_up
from tests.bench.table import Table, times_at_least
from tests.bench.traffic import submit
from tests.support.ports import free_port

SESSIONS = (20, 100)
GOAL = times_at_least(3)


async def run(plan: Plan) -> list[Table]:
    async with running(plan.peers, plan.folder, Setup(free_port(), is_held=True)) as peers:
        table = Table("Accepted and held", [peer.name for peer in peers])
        await warm_up(peers, [None] * len(peers))
        for sessions in SESSIONS:
            for kept_open, heading in KEPT_OPEN.items():
                rounds = await in_turns(peers, plan.rounds, partial(_one, plan.messages, sessions, kept_open))
                what = f"{sessions} sessions, {heading}"
                table.rows += [accepted(what, rounds, GOAL), cpu(what, rounds)]
    return [table]


async def _one(messages: int, sessions: int, kept_open: bool, peer: Peer) -> Round:
    work = submit(peer.endpoint, messages, sessions=sessions, kept_open=kept_open)
    return await measured(peer, messages, work, None)
