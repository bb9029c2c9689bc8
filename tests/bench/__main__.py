"""The command: runs the benchmark and prints its table."""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.bench import machine
from tests.bench.machine import Unfit
from tests.bench.rounds import Bench
from tests.bench.table import table
from tests.bench.traffic import SESSIONS, SIZE

TIME_LIMIT = 175.0
"""Seconds for everything."""


def main() -> int:
    words = argparse.ArgumentParser(prog="tests/bench/run", description="mta beside Postfix, smtp-source to smtp-sink.")
    words.add_argument("--messages", type=_count, default=3000, help="in each round (default 3000)")
    words.add_argument("--rounds", type=_count, default=3, help="of each kind and peer (default 3)")
    words.add_argument("--singles", type=_count, default=200, help="messages on an idle daemon, in twenties (default 200)")
    given = words.parse_args()
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + os.pathsep + machine.POSTFIX_PATH
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="mta-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postfix's processes are other users
        try:
            machine.require(folder)
            print(asyncio.run(run(folder, given.messages, given.rounds, given.singles)))
        except Unfit as flaw:
            return _failed(str(flaw))
        except TimeoutError:
            return _failed(f"not done within {TIME_LIMIT:g} s: the machine is too slow or too busy")
    return 0


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _failed(why: str) -> int:
    print(f"tests/bench: {why}", file=sys.stderr)
    return 1


async def run(folder: Path, messages: int, rounds: int, singles: int) -> str:
    head = f"{machine.description(folder)}; {messages} messages of {SIZE} octets, {SESSIONS} sessions, {rounds} rounds"
    async with asyncio.timeout(TIME_LIMIT), Bench(folder) as bench:
        return f"{head}\n\n{table(await bench.run(messages, rounds, singles))}"


if __name__ == "__main__":
    sys.exit(main())
