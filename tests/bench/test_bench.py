"""The benchmark itself, in small: that each workload runs, what it says where it can't, and the floor of our speed."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench.group import Group
from tests.bench.peers import Setup, running
from tests.bench.peers.ours import Ours
from tests.bench.processes import finish, start, tool
from tests.bench.table import Row, Table, at_least, at_most, times_at_least
from tests.bench.traffic import SIZE, submit
from tests.bench.workloads import lanes
from tests.support.daemon import until
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
FLOOR = 1.0
"""Of Postfix's rate end to end in the same run: what ours may never fall below, on however noisy a machine."""
SMALL: Mapping[str, tuple[int, str]] = {
    "accept": (8, "--messages 40"),
    "single": (6, "--singles 20"),
    "slow": (2, "--messages 20"),
    "domains": (3, "--messages 40"),
    "backlog": (8, "--messages 40 --backlog 500"),
    "large": (6, "--messages 6"),
    "tls": (2, "--messages 100"),
    "growth": (2 + 4 + 10, "--messages 20"),
    "lanes": (6, "--backlog 1500 --urgent 20"),
}
"""Each workload's rows, and what makes it small."""


def bench(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench", *words]
    environ |= {name: value for name, value in os.environ.items() if name == "EXIM"}
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=110)


def cells(text: str) -> list[list[str]]:
    """Of all tables' lines but those with the headings."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith(("|  |", "|---"))]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


@pytest.mark.postfix
@pytest.mark.root
def test_we_relay_at_no_less_than_the_floor_beside_postfix() -> None:
    ended = bench("relay", "--messages", "1000", PATH="/usr/bin:/bin")
    assert (ended.returncode, ended.stderr) == (0, "")
    ratios = {row[0]: float(row[3]) for row in cells(ended.stdout) if "delivered/s" in row[0]}
    assert len(ratios) == 2
    assert min(ratios.values()) >= FLOOR, ended.stdout


@pytest.mark.postfix
@pytest.mark.root
@pytest.mark.parametrize("word", SMALL)
def test_each_workload_gives_its_tables(word: str) -> None:
    rows, small = SMALL[word]
    ended = bench(word, "--rounds", "1", *small.split(), PATH="/usr/bin:/bin")
    assert (ended.returncode, ended.stderr) == (0, "")
    found = cells(ended.stdout)
    assert len(found) == rows
    assert all(float(row[1].split()[0].replace(",", "")) > 0 for row in found)


@pytest.mark.postfix
@pytest.mark.exim
@pytest.mark.root
def test_exim_is_measured_where_it_is_asked_for() -> None:
    ended = bench("relay", "--peers", "postfix,exim", "--rounds", "1", "--messages", "40", PATH="/usr/bin:/bin")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "| Exim 4." in ended.stdout
    assert all(float(row[3].replace(",", "")) > 0 for row in cells(ended.stdout)), ended.stdout


@pytest.mark.postfix
@pytest.mark.root
async def test_nothing_outlives_a_benchmark_that_is_told_to_end() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postfix's processes are other users
        process = await start(sys.executable, "-m", "tests.bench", "relay", env={**os.environ, "TMPDIR": name})
        await until(lambda: [*folder.glob("mta-bench-*/relay/peer1/out")])
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 128 + signal.SIGTERM
        assert not [*folder.iterdir()]
        assert name.encode() not in b"".join(map(_command, Path("/proc").glob("[0-9]*")))


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def test_what_is_missing_is_said_in_one_line() -> None:
    ended = bench(PATH="/nowhere")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("tests/bench: missing: ")
    assert "setpriv (Debian: apt-get install util-linux)" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_an_unknown_workload_is_refused_with_those_there_are() -> None:
    ended = bench("relays", PATH="/usr/bin:/bin")
    assert ended.returncode == 2
    assert "there is no relays, but accept, relay, single," in ended.stderr


@pytest.mark.postfix
@pytest.mark.root
async def test_a_filled_spool_has_the_rows_that_smtp_makes(tmp_path: Path) -> None:
    setup = Setup(free_port(), is_held=True)
    async with running([Ours], tmp_path, setup) as (ours,):
        await submit(ours.endpoint, 1, domain="w0.test")
        spool = ours.folder / "spool.db"
        by_smtp = rows(spool)
        await ours.daemon.stop()
        await finish(*tool("fill", str(spool), "1", "1", str(SIZE)))
        filled = rows(spool)
    for table, own in {"messages": {"queue_id", "message_id"}, "recipients": set()}.items():
        (first,), (_, second) = by_smtp[table], filled[table]
        times = {name for name, value in first.items() if isinstance(value, float) and value > 1e9}
        sizes = {"size", "octets"} & first.keys()
        alike = first.keys() - own - times - sizes - {"id"}
        assert {name: first[name] for name in alike} == {name: second[name] for name in alike}
        for name in times:
            assert second[name] - first[name] == pytest.approx(second[BEGIN[table]] - first[BEGIN[table]], abs=0.001)
        for name in sizes:
            assert second[name] == pytest.approx(first[name], rel=0.05)


BEGIN = {"messages": "accepted_at", "recipients": "next_at"}
"""What their other times count from."""


def rows(spool: Path) -> dict[str, list[dict[str, Any]]]:
    with sqlite3.connect(spool) as db:
        db.row_factory = sqlite3.Row
        return {table: [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY id")] for table in BEGIN}


@pytest.mark.root
async def test_the_work_of_a_process_that_nobody_waits_for_is_counted_and_it_does_not_outlive_the_rest(
    tmp_path: Path,
) -> None:
    group = Group("test")
    if group.cpu_seconds() is None:
        return  # this machine lets us make none, and a table says so
    work = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(60)"
    command = f"trap '' CHLD; setsid {sys.executable} -c '{work}' & exec sleep 60"
    process = await group.start("sh", "-c", command, out=tmp_path / "out", env={**os.environ})
    try:
        await until(lambda: (group.cpu_seconds() or 0) >= 0.3)
    finally:
        await group.end(process)
    assert group.cpu_seconds() is None
    assert not any(work.encode() in _command(it) for it in Path("/proc").glob("[0-9]*"))


def test_a_row_has_median_spread_ratio_and_whether_its_goal_is_met() -> None:
    values = [[600.0, 300.0, 900.0], [200.0, 100.0, 300.0], []]
    table = Table("Rates", ["mta", "Postfix", "Exim"])
    table.rows = [
        Row("without a goal", values),
        Row("met", values, times_at_least(3)),
        Row("missed", values, at_most(599)),
        Row("small", [[0.25], [0.0], []], at_least(0.25)),
    ]
    assert table.markdown().splitlines() == [
        "### Rates",
        "",
        "|  | mta | Postfix | Exim | mta / Postfix | goal |",
        "|---|---:|---:|---:|---:|---|",
        "| without a goal | 600 (300–900) | 200 (100–300) | – | 3.00 |  |",
        "| met | 600 (300–900) | 200 (100–300) | – | 3.00 | ≥ 3 × Postfix: met |",
        "| missed | 600 (300–900) | 200 (100–300) | – | 3.00 | ≤ 599: **missed** |",
        "| small | 0.25 | 0.00 | – | – | ≥ 0.25: met |",
    ]


def test_each_judged_column_has_to_meet_the_goal() -> None:
    table = Table("", ["TLS", "DKIM", "plain"], judged=2, base=2)
    table.rows = [Row("", [[80.0], [69.0], [100.0]], times_at_least(0.7, "plain"))]
    assert table.markdown().endswith("| 0.80 | 0.69 | ≥ 0.7 × plain: **missed** |")


def test_what_is_promised_of_urgent_mail_is_checked() -> None:
    still = [0.01] * 198 + [0.05] * 2
    good = lanes.Measured(still, [it + 0.09 for it in still], alone=160.0, beside=151.0, urgent_rate=10.0)
    other = lanes.Measured(still, still, alone=160.0, beside=160.0, urgent_rate=10.0)

    def verdicts(ours: lanes.Measured) -> list[str]:
        lines = lanes.table("", ["mta", "Postfix"], [ours, other]).markdown().splitlines()
        return [line.split("|")[-2].rpartition(": ")[2].strip() for line in lines if ": " in line]

    assert verdicts(good) == ["met", "met"]
    assert verdicts(replace(good, loaded=[0.2] * 200)) == ["**missed**", "met"]
    assert verdicts(replace(good, beside=140.0)) == ["met", "**missed**"]
