"""The command: runs workloads and prints their tables."""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench import machine
from tests.bench.machine import Unfit
from tests.bench.peers import Kind, Peer
from tests.bench.peers.exim import Exim
from tests.bench.peers.ours import Ours
from tests.bench.peers.postfix import Postfix
from tests.bench.plan import Plan
from tests.bench.traffic import SIZE
from tests.bench.workloads import SHORT, WORKLOADS

PEERS: Mapping[str, Sequence[Kind[Peer]]] = {"postfix": (Ours, Postfix), "postfix,exim": (Ours, Postfix, Exim)}
ALL = "all"


def main() -> int:
    given = _arguments().parse_args()
    words = list(WORKLOADS) if ALL in given.workloads else given.workloads or SHORT
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + os.pathsep + machine.POSTFIX_PATH
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="mta-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postfix's processes are other users
        plan = Plan(folder, PEERS[given.peers], given.messages, given.rounds, given.singles, given.backlog, given.urgent)
        try:
            machine.require(folder)
        except Unfit as flaw:
            return _say(str(flaw))
        print(f"{machine.description(folder)}; {_rounds(plan)}", flush=True)
        try:
            return int(not asyncio.run(_run(words, plan, given.limit)))
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM


def _arguments() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(prog="tests/bench/run", description="mta beside Postfix, on this machine.")
    words.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", type=_word,
        help=f"{', '.join(WORKLOADS)}, or {ALL}; without a word: {' and '.join(SHORT)}",
    )  # fmt: skip
    words.add_argument("--peers", choices=list(PEERS), default="postfix", help="besides ours; exim: in accept and relay")
    words.add_argument("--messages", type=_count, default=5000, help="in each round (default 5000)")
    words.add_argument("--rounds", type=_count, default=3, help="of each figure and peer (default 3)")
    words.add_argument("--singles", type=_count, default=200, help="in single, in twenties (default 200)")
    words.add_argument(
        "--backlog", type=_counts, default=(50_000,), metavar="N[,N...]", help="waiting in backlog and lanes (default 50000)"
    )
    words.add_argument("--urgent", type=_count, default=200, help="in lanes, one each 100 ms (default 200)")
    words.add_argument("--limit", type=_count, default=1200, help="seconds for each workload (default 1200)")
    return words


def _rounds(plan: Plan) -> str:
    rounds = f"{plan.rounds} rounds of up to {plan.messages:,} messages of {SIZE:,} octets"
    return f"{rounds}, one peer after the other; medians (least–most)"


def _word(text: str) -> str:
    if text not in (*WORKLOADS, ALL):
        raise argparse.ArgumentTypeError(f"there is no {text}, but {', '.join(WORKLOADS)} and {ALL}")
    return text


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(_count, text.split(",")))


async def _run(words: Sequence[str], plan: Plan, limit: float) -> bool:
    """Whether all could be measured. SIGTERM ends it in order: peers that change their user would outlive us."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return all([await _tables(word, replace(plan, folder=plan.folder / word), limit) for word in words])


async def _tables(word: str, plan: Plan, limit: float) -> bool:
    """Prints those of one workload; whether it could be measured."""
    plan.folder.mkdir()
    try:
        async with asyncio.timeout(limit):
            tables = await WORKLOADS[word](plan)
    except TimeoutError:
        return not _say(f"{word}: not done within {limit:g} s: the machine is too slow or too busy")
    except (Unfit, AssertionError, OSError) as flaw:  # of one workload; the others are measured all the same
        return not _say(f"{word}: {flaw}")
    for table in tables:
        print(f"\n{table.markdown()}", flush=True)
    return True


def _say(why: str) -> int:
    print(f"tests/bench: {why}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
