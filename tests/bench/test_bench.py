"""The benchmark itself, in small: that it runs, and what it says where it can't."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.rounds import Figures, Round
from tests.bench.table import table
from tests.bench.traffic import Single

ROOT = Path(__file__).parents[2]


def bench(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench", *words]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=100)


@pytest.mark.postfix
@pytest.mark.root
def test_both_peers_relay_everything_and_the_table_has_a_ratio_for_each_figure() -> None:
    ended = bench("--messages", "40", "--rounds", "1", "--singles", "20", PATH="/usr/bin:/bin")
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = [line for line in ended.stdout.splitlines() if line.startswith("|")]
    assert "| mta | Postfix " in rows[0]
    assert len(rows) == 2 + 6 + 6
    assert all(float(row.split("|")[-2]) for row in rows[2:])


def test_what_is_missing_is_said_in_one_line() -> None:
    ended = bench(PATH="/nowhere")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("tests/bench: missing: ")
    assert "setpriv (Debian: apt-get install util-linux)" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_row_has_median_spread_and_ratio() -> None:
    fast, slow = (
        Figures(
            {kept_open: [Round(n * k, n / k, 0.001 * k) for n in (200, 100, 300)] for kept_open in (True, False)},
            [Single(0.001 * n, 0.003 * n * k) for n in range(1, 101)],
        )
        for k in (3, 1)
    )
    lines = table({"mta": fast, "other": slow}).splitlines()
    assert lines[0] == "| | | mta | other | ratio |"
    assert lines[2] == "| connections kept open | accepted/s | 600 (300–900) | 200 (100–300) | 3.00 |"
    assert lines[3] == "| connections kept open | delivered/s | 67 (33–100) | 200 (100–300) | 0.33 |"
    assert lines[4].endswith("| CPU ms per 1,000 messages | 3,000 (3,000–3,000) | 1,000 (1,000–1,000) | 3.00 |")
    assert "| one message, idle | final dot to receipt, p50, ms | 450 | 150 | 3.00 |" in lines
    assert "| one message, idle | final dot to 250, p99, ms | 99.0 | 99.0 | 1.00 |" in lines
