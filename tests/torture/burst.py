"""Twenty submissions of one key at the same time, over twenty connections, again and again, with kill -9 in between."""

import asyncio

from tests.torture.letters import Letter
from tests.torture.load import Figure, figure, insist
from tests.torture.scene import scene

CONNECTIONS = 20
WITHIN = 0.06
"""Seconds after the beginning of a round in which it is hit."""


async def burst(seed: int, rounds: int, kill_every: int, hold: bool = True) -> Figure:
    """One key for each round; the ledger wants one queue id for it and one copy at each recipient."""
    async with scene(seed, hold) as stage:
        chance = stage.chance("kills")
        for number in range(1, rounds + 1):
            async with asyncio.TaskGroup() as group:
                for _ in range(CONNECTIONS):
                    group.create_task(insist(stage, Letter(seed, number)))
                if number % kill_every == 0:
                    await asyncio.sleep(chance.uniform(0, WITHIN))
                    await stage.kill(chance, at_most=1)
        await stage.finish()
        return figure(stage)
