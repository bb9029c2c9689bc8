"""A control group (cgroups(7)): what all processes that ever were in it have used, where no tree of processes tells."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from pathlib import Path

from tests.bench.processes import end, start

_SECOND = Path("/sys/fs/cgroup/cgroup.controllers")
_ENTER = ("sh", "-c", 'echo $$ >"$1" && shift && exec "$@"', "sh")


class Group:
    """Where the machine lets us make none, it is empty and knows nothing."""

    def __init__(self, name: str) -> None:
        self._root = _SECOND.parent if _SECOND.exists() else _SECOND.parent / "cpuacct"
        self._folder = self._root / f"mta-bench-{os.getpid()}-{name}"
        try:
            self._folder.mkdir()
            self._is_there = (self._folder / "cgroup.procs").exists()
        except OSError:
            self._is_there = False

    async def start(self, *command: str, out: Path, env: dict[str, str]) -> Process:
        """A process that is in it from its first instruction."""
        enter = (*_ENTER, str(self._folder / "cgroup.procs")) if self._is_there else ()
        return await start(*enter, *command, out=out, env=env)

    async def end(self, process: Process) -> None:
        """Ends what was started, then kills what is left of its children."""
        await end(process)
        while self._is_there:
            for member in (self._folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(member), signal.SIGKILL)
            try:
                self._folder.rmdir()
                self._is_there = False
            except OSError:  # they are ending
                await asyncio.sleep(0.02)

    def cpu_seconds(self) -> float | None:
        if not self._is_there:
            return None
        if _SECOND.exists():
            pairs = (line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
            return next(int(used) / 1e6 for name, used in pairs if name == "usage_usec")
        return int((self._folder / "cpuacct.usage").read_text()) / 1e9
