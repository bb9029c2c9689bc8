"""What TLS on the way out and DKIM cost: three daemons of ours, one that has to use STARTTLS (its sessions are used again),
one that signs with ed25519, and a plain one; in turns, to one kind of server."""

from contextlib import AsyncExitStack
from pathlib import Path

from tests.bench.peers import Setup, running
from tests.bench.peers.ours import Ours
from tests.bench.plan import Plan
from tests.bench.processes import finish
from tests.bench.rounds import Round, cpu, delivered, in_turns, measured, warm_up
from tests.bench.table import Table, times_at_least
from tests.bench.traffic import OwnSink, submit
from tests.support.daemon import mta
from tests.support.ports import free_port
from tests.support.tls import files

GOAL = times_at_least(0.7, "plain")
DOMAIN, SELECTOR = "bench.test", "mta-ed25519"


async def run(plan: Plan) -> list[Table]:
    key = plan.folder / "dkim.pem"
    await finish(*mta(), "dkim", "keygen", DOMAIN, "--type", "ed25519", "--out", str(key))
    signed = {"dkim": [{"domain": DOMAIN, "selector": SELECTOR, "key": str(key)}]}
    setups = [Setup(free_port()), Setup(free_port(), ours=signed), Setup(free_port())]
    certificates = [_certificate(plan.folder), None, None]
    async with AsyncExitStack() as stack:
        sinks = [
            await stack.enter_async_context(OwnSink(setup.port, certificate))
            for setup, certificate in zip(setups, certificates, strict=True)
        ]
        peers = await stack.enter_async_context(running([Ours] * len(setups), plan.folder, setups))
        await warm_up(peers, sinks)
        of = dict(zip(peers, sinks, strict=True))

        async def one(peer: Ours) -> Round:
            return await measured(peer, plan.messages, submit(peer.endpoint, plan.messages), of[peer])

        rounds = await in_turns(peers, plan.rounds, one)
    table = Table("Relayed with encryption and signatures", ["STARTTLS", "DKIM ed25519", "plain"], judged=2, base=2)
    what = f"{plan.messages:,} messages"
    table.rows += [delivered(what, rounds, GOAL), cpu(what, rounds)]
    return [table]


def _certificate(folder: Path) -> Path:
    """With its key in the same file."""
    path = folder / "certificate.pem"
    path.write_bytes(b"".join(it.read_bytes() for it in files(folder)))
    return path
