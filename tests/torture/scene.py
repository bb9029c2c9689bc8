"""The daemon, the servers around it, and the hand that kills it."""

import asyncio
import contextlib
import random
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.world import World
from tests.spool.house import House
from tests.spool.invariants import check
from tests.support.daemon import Daemon, until
from tests.support.mx import Close, Hold, ScriptedMx
from tests.torture.ledger import Ledger
from tests.torture.letters import DOMAINS

SLOWEST = 0.08
"""Seconds that a reply takes at most."""
START = 0.7
"""Seconds that a start takes, about: it is killed within now and then."""
PATIENCE = 90.0
"""Seconds for what is left when the killing has ended."""


@dataclass
class Scene:
    """`kills` counts them. What happens at random has a stream of its own for each purpose, from the ledger's seed."""

    world: World
    ledger: Ledger
    kills: int = 0
    servers: list[ScriptedMx] = field(default_factory=list)

    @property
    def daemon(self) -> Daemon:
        return self.world.daemon

    def chance(self, purpose: str) -> random.Random:
        return random.Random(f"{self.ledger.seed} {purpose}")

    def attach(self, mx: ScriptedMx, name: str) -> None:
        """From now on this server is moody, and what comes to it is counted."""
        self.servers.append(mx)
        chance = self.chance(name)

        def final(_: str) -> Any:
            mood = chance.random()
            self.ledger.arrived(mx.messages.pop(), refused=mood < 0.03)
            if mood < 0.06:
                return "451 4.3.0 not now" if mood < 0.03 else Close()
            return _delayed(chance, "250 2.0.0 Ok: queued as MX1", 0.5)

        mx.script = {"FINAL": final, "DATA": lambda _: _delayed(chance, "354 go ahead", 0.2)}

    async def kill(self, chance: random.Random, at_most: int) -> None:
        """Kills the daemon and starts it again, now and then killed while it starts, too; then looks at what is left."""
        await self._strike()
        for _ in range(at_most - 1):
            if chance.random() > 0.15:
                break
            await self.daemon.launch()
            await asyncio.sleep(chance.uniform(0, START))
            await self._strike()
        await self.daemon.start()
        for mx in self.servers:
            mx.connections[:] = [it for it in mx.connections if not it.closed.is_set()]
        self.ledger.audit()

    async def _strike(self) -> None:
        code = await self.daemon.stop(signal.SIGKILL)
        self.ledger.faults += [] if code == -signal.SIGKILL else ["the daemon had ended by itself"]
        self.kills += 1

    async def finish(self) -> None:
        """Waits for the rest of the mail, stops the daemon in order and closes the books."""
        with contextlib.suppress(AssertionError):  # what is not done is named by the audit
            await until(self.ledger.settled, PATIENCE)
        code = await self.daemon.stop()
        self.ledger.audit_end()
        check(House(self.world.folder))
        self.ledger.faults += [f"exit code {code}"] if code else []
        troubles = [line for line in self.daemon.log_text.splitlines() if "Traceback" in line or '"error"' in line]
        self.ledger.faults += [f"in the log: {line}" for line in troubles]


@contextlib.asynccontextmanager
async def scene(seed: int, hold: bool, preamble: str = "") -> AsyncIterator[Scene]:
    """With a daemon that runs; `preamble` breaks it (see `Daemon`)."""
    with tempfile.TemporaryDirectory(prefix="mta-") as folder:
        async with World(Path(folder)) as world:
            made = Scene(world, Ledger(seed, Path(folder) / "spool.db", hold))
            for domain in DOMAINS:
                made.attach(await world.mx(domain), domain)
            made.attach(world.home, "home")
            order = "hold" if hold else "retry"
            world.configure("delivery", in_doubt=order, in_doubt_delay="300ms", max_sessions_per_destination=5)
            for name in ("urgent", "normal", "bulk"):
                world.configure(f"class.{name}", give_up_after="1d")
            world.daemon.preamble = preamble
            await world.daemon.start()
            yield made


def _delayed(chance: random.Random, reply: str, share: float) -> Any:
    """`reply`, of which this share comes late."""
    if chance.random() >= share:
        return reply
    hold = Hold(reply)
    asyncio.get_running_loop().call_later(chance.uniform(0, SLOWEST), hold.release)
    return hold
