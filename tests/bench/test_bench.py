"""The benchmark itself, in small: that it runs, and what it says where it can't."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.backlog import Measured
from tests.bench.lanes import flaws
from tests.bench.lanes import table as lanes_table
from tests.bench.rounds import Figures, Round
from tests.bench.table import table
from tests.bench.traffic import Single

ROOT = Path(__file__).parents[2]


def bench(*words: str, module: str = "tests.bench", **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *words]
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


@pytest.mark.postfix
@pytest.mark.root
def test_urgent_mail_behind_a_backlog_is_measured_of_both_peers() -> None:
    ended = bench("--bulk", "1500", "--urgent", "20", module="tests.bench.lanes", PATH="/usr/bin:/bin")
    assert "tests/bench" not in ended.stderr, ended.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in ended.stdout.splitlines() if line.startswith("|")]
    assert rows[0][1] == "mta" and rows[0][2].startswith("Postfix ")
    figures = {row[0]: [float(cell.replace(",", "")) for cell in row[1:]] for row in rows[2:]}
    assert len(figures) == 6
    ours, others = figures["250 to receipt, queue loaded, p50, ms"]
    assert ours < 1000 < others, "we know classes, Postfix does not"


@pytest.mark.parametrize("module", ["tests.bench", "tests.bench.lanes"])
def test_what_is_missing_is_said_in_one_line(module: str) -> None:
    ended = bench(module=module, PATH="/nowhere")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("tests/bench: missing: ")
    assert "setpriv (Debian: apt-get install util-linux)" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_what_is_promised_of_urgent_mail_is_checked() -> None:
    still = [0.01] * 198 + [0.05] * 2
    good = Measured(still, [it + 0.09 for it in still], alone=160.0, beside=151.0, urgent_rate=10.0)
    assert flaws(good) == []
    assert "more than one transaction" in flaws(replace(good, loaded=[0.2] * 200))[0]
    assert "more than urgent's share" in flaws(replace(good, beside=140.0))[0]
    assert lanes_table({"mta": good}).splitlines()[2:4] == [
        "| 250 to receipt, queue empty, p50, ms | 10.0 |",
        "| 250 to receipt, queue loaded, p50, ms | 100.0 |",
    ]


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
