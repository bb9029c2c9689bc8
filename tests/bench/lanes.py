"""The command: what a backlog of bulk mail costs a code, and a code the backlog. `tests/bench/run lanes --help`"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import machine
from tests.bench.backlog import CAP, PATIENCE, TRANSACTION, Capped, CappedPostfix, Measured, measure
from tests.bench.machine import Unfit

SLACK = 0.02
"""Seconds by which the machine itself may be late: its timers, its other work."""
NOISE = 0.03
"""The part by which two counts of the same rate may differ."""


def main() -> int:
    words = argparse.ArgumentParser(prog="tests/bench/run lanes", description="Urgent mail behind a backlog of bulk mail.")
    words.add_argument("--bulk", type=int, default=50_000, help="messages in the backlog (default 50000)")
    words.add_argument("--urgent", type=int, default=200, help="messages, one per 100 ms (default 200)")
    given = words.parse_args()
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + os.pathsep + machine.POSTFIX_PATH
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="mta-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postfix's processes are other users
        try:
            machine.require(folder)
            head = machine.description(folder)
            figures = asyncio.run(run(folder, given.bulk, given.urgent))
        except Unfit as flaw:
            print(f"tests/bench: {flaw}", file=sys.stderr)
            return 1
    what = f"{given.bulk} of bulk behind {CAP} sessions of {TRANSACTION * 1000:g} ms, {given.urgent} urgent ones"
    print(f"{head}; {what} (one that has not come {PATIENCE:g} s after the last counts as come then)\n\n{table(figures)}")
    broken = flaws(next(iter(figures.values())))
    print("\n".join(broken), file=sys.stderr, end="\n" if broken else "")
    return 1 if broken else 0


async def run(folder: Path, bulk: int, urgent: int) -> dict[str, Measured]:
    """By the peer's name, ours first; one after the other."""
    return dict([await measure(kind, folder / kind.__name__.lower(), bulk, urgent) for kind in (Capped, CappedPostfix)])


def table(figures: Mapping[str, Measured]) -> str:
    lines = ["| | " + " | ".join(figures) + " |", "|---|" + "---:|" * len(figures)]

    def row(what: str, values: list[str]) -> None:
        lines.append(f"| {what} | " + " | ".join(values) + " |")

    for percent in (50, 99):
        for queue in ("empty", "loaded"):
            values = [f"{percentile(getattr(it, queue), percent) * 1000:,.1f}" for it in figures.values()]
            row(f"250 to receipt, queue {queue}, p{percent}, ms", values)
    row("bulk/s, alone", [f"{it.alone:.1f}" for it in figures.values()])
    row("bulk/s, beside urgent mail", [f"{it.beside:.1f}" for it in figures.values()])
    return "\n".join(lines)


def flaws(measured: Measured) -> list[str]:
    """What is not as promised of us: urgent mail waits for one transaction at most, bulk loses no more than urgent has."""
    empty, loaded = percentile(measured.empty, 99), percentile(measured.loaded, 99)
    found = []
    if loaded > empty + TRANSACTION + SLACK:
        found.append(f"p99 rises from {empty * 1000:.1f} to {loaded * 1000:.1f} ms: by more than one transaction")
    if measured.beside < (measured.alone - measured.urgent_rate) * (1 - NOISE):
        found.append(f"bulk falls from {measured.alone:.1f} to {measured.beside:.1f} a second: by more than urgent's share")
    return found


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]


if __name__ == "__main__":
    sys.exit(main())
