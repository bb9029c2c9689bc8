"""`python -m tests.sim`: days of the daemon's life in seconds, by seed.

    python -m tests.sim --seed 7                 one seed, with its trace if a promise is broken
    python -m tests.sim --seeds 1000             seeds 0 to 999, on all cores
    python -m tests.sim --replay FILE            a scenario that was kept
    python -m tests.sim --seed 7 --shrink FILE   the smallest scenario that still breaks the promise, kept in FILE

The exit code is 1 if a promise was broken.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.sim.faults import generate
from tests.sim.many import play_many
from tests.sim.scenario import Scenario, decode, encode, size
from tests.sim.shrink import shrink
from tests.sim.world import Run, play

TRACE_END = 60
"""Lines of a trace that are shown unless all are asked for."""


def main(words: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(words)
    if given.seeds:
        return _many(given.first, given.seeds, given.days, given.messages, given.jobs)
    scenario = decode(given.replay.read_bytes()) if given.replay else generate(given.seed, given.days, given.messages)
    started = time.monotonic()
    run = play(scenario)
    what = f"{size(scenario)}, {run.crashes} crashes, {run.copies} deliveries"
    print(f"{what}: {time.monotonic() - started:.1f} s, trace {run.digest}")
    _show(run, len(run.trace) if given.trace else TRACE_END if run.violation else 0)
    if run.violation is not None and given.shrink is not None:
        given.shrink.write_bytes(encode(_shrunk(scenario)))
        print(f"kept in {given.shrink}; `python -m tests.sim --replay {given.shrink}` plays it")
    return run.violation is not None


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__, formatter_class=formatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int)
    what.add_argument("--seeds", type=int, metavar="N", help="so many seeds, from --first on")
    what.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--days", type=float, default=6.0)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="show the whole trace")
    parser.add_argument("--shrink", type=Path, metavar="FILE", help="shrink a failing scenario and keep it")
    return parser


def _many(first: int, count: int, days: float, messages: int, jobs: int) -> int:
    started = time.monotonic()
    broken = 0
    for played in play_many(range(first, first + count), days, messages, jobs):
        if played.violation:
            broken += 1
            print(f"seed {played.seed}: {played.violation}", flush=True)
    what = f"{count} seeds of {days:g} days with {messages} messages"
    print(f"{what} in {time.monotonic() - started:.0f} s: {broken} broke a promise")
    return broken > 0


def _show(run: Run, lines: int) -> None:
    for line in run.trace[-lines:] if lines else ():
        print(line)


def _shrunk(scenario: Scenario) -> Scenario:
    def told(smaller: Scenario) -> None:
        print(f"still fails: {size(smaller)}", flush=True)

    return shrink(scenario, told)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings have an order that only this fixes
        os.execve(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
