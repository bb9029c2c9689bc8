"""Many destinations, DNS included: no peer has asked the name server for those of a round before."""

from itertools import count

from tests.bench.peers import Peer, Setup, running
from tests.bench.plan import Plan
from tests.bench.rounds import Round, accepted, cpu, delivered, in_turns, measured
from tests.bench.table import Table, times_at_least
from tests.bench.traffic import SmtpSink, submit_to_many
from tests.support.ports import free_port

DESTINATIONS = 500
GOAL = times_at_least(5)


async def run(plan: Plan) -> list[Table]:
    first = count(step=DESTINATIONS)
    setup = Setup(free_port(), by_dns=True)
    async with SmtpSink(plan.folder, setup.port) as sink, running(plan.peers[:2], plan.folder, setup) as peers:

        async def one(peer: Peer) -> Round:
            begin = next(first)
            work = submit_to_many(peer.endpoint, plan.messages, range(begin, begin + DESTINATIONS))
            return await measured(peer, plan.messages, work, sink)

        rounds = await in_turns(peers, plan.rounds, one)
    table = Table(f"To {DESTINATIONS} destinations, DNS included", [peer.name for peer in peers])
    what = f"{plan.messages:,} messages"
    table.rows += [accepted(what, rounds), delivered(what, rounds, GOAL), cpu(what, rounds)]
    return [table]
