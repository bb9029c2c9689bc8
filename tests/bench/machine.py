"""The machine the figures are of: what it lacks, what its disk costs, what a process has used."""

import datetime
import os
import platform
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

POSTFIX_PATH = "/usr/sbin:/sbin"
_TOOLS = {
    "postfix": "Postfix (Debian: apt-get install postfix)",
    "smtp-source": "smtp-source (Debian: apt-get install postfix)",
    "smtp-sink": "smtp-sink (Debian: apt-get install postfix)",
    "setpriv": "setpriv (Debian: apt-get install util-linux)",
    "unshare": "unshare (Debian: apt-get install util-linux)",
}
_IN_MEMORY = ("tmpfs", "ramfs")
_TICKS = os.sysconf("SC_CLK_TCK")
_SYNCS = 200


class Unfit(Exception):
    """The benchmark can't run here, or its figures would mean nothing; the text says why."""


def require(folder: Path) -> None:
    """Raises `Unfit` with everything that is missing; `folder` is where the spools are going to be."""
    missing = [what for name, what in _TOOLS.items() if shutil.which(name) is None]
    if os.geteuid() != 0:
        missing.append("root: Postfix starts its processes as other users")
    if (kind := _file_system(folder)) in _IN_MEMORY:
        missing.append(f"a disk: {folder} is {kind}; set TMPDIR to a folder on one")
    if missing:
        raise Unfit("missing: " + "; ".join(missing))


def _file_system(folder: Path) -> str:
    """The type of the mount that `folder` is on."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    above = [(len(point), kind) for _, point, kind, *_ in mounts if folder.resolve().is_relative_to(point)]
    return max(above, default=(0, ""))[1]


def description(folder: Path) -> str:
    """One line."""
    facts = (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"{platform.system()} {platform.release()}",
        f"{os.cpu_count()} cores ({_processor()})",
        f"Python {platform.python_version()}",
        _file_system(folder),
        f"fdatasync {_sync_seconds(folder) * 1000:.2f} ms (median)",
        f"load {os.getloadavg()[0]:.1f} at the start",
    )
    return ", ".join(facts)


def _processor() -> str:
    """As the kernel names it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _sync_seconds(folder: Path) -> float:
    """What one durable write costs."""
    spent = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            before = time.perf_counter()
            os.fdatasync(file.fileno())
            spent.append(time.perf_counter() - before)
    return statistics.median(spent)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and everything it has started: those that live, and those it has waited for."""
    return sum(_tree(pid).values())


def _tree(pid: int) -> dict[int, float]:
    """The process and its descendants, and the seconds that each has used."""
    times, children = {}, dict[int, list[int]]()
    for process, parent, spent in _processes():
        times[process] = spent
        children.setdefault(parent, []).append(process)
    found, left = {}, [pid]
    while left:
        process = left.pop()
        found[process] = times.get(process, 0.0)
        left += children.get(process, [])
    return found


def _processes() -> Iterator[tuple[int, int, float]]:
    """Id, parent and seconds used; what ends while we look is left out (its parent has its time then)."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            yield int(entry), int(fields[1]), sum(map(int, fields[11:15])) / _TICKS


def memory(pid: int) -> int:
    """Octets of a process and its descendants; pages that are shared count in parts (PSS)."""
    return sum(_rollup(process, "Pss:") for process in _tree(pid))


def _rollup(pid: int, what: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(what))
