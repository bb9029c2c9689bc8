"""Many seeds, on all cores: each in a process that is told the seed and tells what came of it."""

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tests.sim.faults import generate
from tests.sim.world import play

SEEDS_PER_PROCESS = 20
"""Then a new one: what a run leaves in memory goes with the process."""


@dataclass(frozen=True, slots=True)
class Played:
    """`violation` is "" where every promise was kept."""

    seed: int
    violation: str
    digest: str


def play_many(seeds: Iterable[int], days: float, messages: int, jobs: int) -> Iterator[Played]:
    """As they are done, in no order. What breaks a run itself is a violation too."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # all that a process needs is imported once
    with _fixed_hashes(), context.Pool(jobs, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(partial(_play, days, messages), seeds)


def _play(days: float, messages: int, seed: int) -> Played:
    try:
        run = play(generate(seed, days, messages))
    except Exception as error:
        return Played(seed, f"the simulation fails: {error!r}", "")
    return Played(seed, str(run.violation or ""), run.digest)


@contextmanager
def _fixed_hashes() -> Iterator[None]:
    """For processes to come: sets of strings have the same order in each."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
