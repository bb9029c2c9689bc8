"""Four submitters with keys against kill -9 at random moments."""

import asyncio
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.torture.letters import Letter
from tests.torture.scene import Scene, scene

SUBMITTERS = 4
LIFE = 0.5
"""Seconds that the daemon lives between two kills, at most."""
AGAIN = 0.2
"""Share of letters after which an earlier one is submitted again."""
NAP = 0.02


@dataclass(frozen=True)
class Plan:
    """Until there were so many `kills`, or for so many `seconds` where that is more than 0."""

    seed: int
    kills: int = 0
    seconds: float = 0.0
    hold: bool = True
    preamble: str = ""
    """Python that breaks the daemon, to see that it is found out."""


@dataclass(frozen=True)
class Figure:
    """What came of it. `faults` is empty, or something is wrong."""

    seed: int
    kills: int
    messages: int
    lost: int
    twice: int
    doubtful: int
    hold: bool
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"torture: seed {self.seed}, {self.kills} kills, {self.messages} messages acknowledged, {self.lost} lost, "
            f"{self.twice} twice, {self.doubtful} in doubt ({'hold' if self.hold else 'retry'})"
        )


async def torture(plan: Plan) -> Figure:
    async with scene(plan.seed, plan.hold, plan.preamble) as stage:
        numbers = itertools.count(1)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name in range(SUBMITTERS):
                group.create_task(_submit_until(stop, stage, numbers, stage.chance(f"submitter {name}")))
            await _kill(stage, plan)
            stop.set()
        await stage.finish()
        return figure(stage)


def figure(stage: Scene) -> Figure:
    ledger = stage.ledger
    return Figure(
        ledger.seed, stage.kills, len(ledger.acknowledged), len(ledger.lost), len(ledger.twice), ledger.doubtful,
        ledger.hold, tuple(ledger.faults),
    )  # fmt: skip


async def _kill(stage: Scene, plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + plan.seconds
    chance = stage.chance("kills")
    while loop.time() < end if plan.seconds else stage.kills < plan.kills:
        await asyncio.sleep(chance.uniform(0, LIFE))
        await stage.kill(chance, at_most=2 if plan.seconds else plan.kills - stage.kills)


async def _submit_until(stop: asyncio.Event, stage: Scene, numbers: Iterator[int], chance: random.Random) -> None:
    """Each letter until it is acknowledged."""
    seed = stage.ledger.seed
    while not stop.is_set():
        letter = Letter(seed, next(numbers))
        await insist(stage, letter)
        if chance.random() < AGAIN:
            await insist(stage, Letter(seed, chance.randint(1, letter.number)))


async def insist(stage: Scene, letter: Letter) -> None:
    """Submits it, under the same key, until there is a reply."""
    while True:
        try:
            reply = await letter.submit(stage.daemon)
        except OSError:
            await asyncio.sleep(NAP)
            continue
        stage.ledger.answered(letter, reply)
        return
