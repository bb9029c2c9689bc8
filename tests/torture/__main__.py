"""The command: tortures for so many kills or minutes and prints one line. Exit code 1 if anything was wrong."""

import argparse
import asyncio
import secrets
import sys

from tests.torture.load import Plan, torture

FAULTS_SHOWN = 20


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m tests.torture", description="mta under load and kill -9.")
    words.add_argument("--kills", type=int, default=100, help="how often it is killed (default 100)")
    words.add_argument("--minutes", type=float, default=0, help="how long, instead of how often")
    words.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="repeats the random choices of a run")
    words.add_argument("--in-doubt", choices=("hold", "retry"), default="hold", help="delivery.in_doubt (default hold)")
    given = words.parse_args()
    print(f"seed {given.seed}", file=sys.stderr, flush=True)
    figure = asyncio.run(torture(Plan(given.seed, given.kills, given.minutes * 60, given.in_doubt == "hold")))
    print(figure)
    for fault in figure.faults[:FAULTS_SHOWN]:
        print(f"  - {fault}", file=sys.stderr)
    return 1 if figure.faults else 0


if __name__ == "__main__":
    sys.exit(main())
