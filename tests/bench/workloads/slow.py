"""A destination that takes a second for each message, by at most 100 sessions, which both begin with: of the ideal 100 a
second."""

from tests.bench.peers import Peer, Setup, running
from tests.bench.plan import Plan
from tests.bench.rounds import Round, cpu, delivered, in_turns, measured
from tests.bench.table import Table, at_least
from tests.bench.traffic import OwnSink, submit
from tests.support.ports import free_port

CAP, TRANSACTION = 100, 1.0
MESSAGES = 1000
GOAL = at_least(95)
OURS = {"destination": [{"match": ["*"], "first_sessions": CAP, "max_sessions": CAP}], "lanes": {"urgent_reserve": 0.0}}
"""All sessions are for this mail, as they are with a peer that knows no classes."""
POSTFIX = {"initial_destination_concurrency": str(CAP), "default_destination_concurrency_limit": str(CAP)}


async def run(plan: Plan) -> list[Table]:
    messages = min(MESSAGES, plan.messages)
    setup = Setup(free_port(), ours=OURS, postfix=POSTFIX)
    async with OwnSink(setup.port) as sink, running(plan.peers[:2], plan.folder, setup) as peers:
        sink.take(TRANSACTION)

        async def one(peer: Peer) -> Round:
            return await measured(peer, messages, submit(peer.endpoint, messages), sink)

        rounds = await in_turns(peers, plan.rounds, one)
    what = f"{messages:,} messages"
    table = Table(f"To a destination that takes {TRANSACTION:g} s each, {CAP} sessions", [peer.name for peer in peers])
    table.rows += [delivered(what, rounds, GOAL), cpu(what, rounds)]
    return [table]
