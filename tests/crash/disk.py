"""The disk that `disk.c` makes bad, as the tests see it."""

import errno
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

from tests.e2e.world import World

_CONTROL = struct.Struct("5l")
PREAMBLE = """
import mta.delivery.worker, mta.reports.stage, mta.scheduler, mta.spool.connection
mta.delivery.worker.PERSIST_INTERVAL = mta.reports.stage.FIRST_REST = mta.scheduler.SPOOL_REST = 0.03
mta.spool.connection.CHECKPOINT_PAGES = 20
"""
"""Trouble is waited out faster, and the WAL is copied back more often: faults hit that as well."""


def compiled(folder: Path) -> Path:
    shim = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    options = ["-Wall", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run(["cc", *options, "-o", shim, source, "-ldl", "-lpthread"], check=True)
    return shim


class Disk:
    """The folder that holds nothing but the spool of `world`'s daemon. The daemon is to be started after this is made."""

    def __init__(self, world: World, shim: Path) -> None:
        self.folder, self.shadow = world.folder / "disk", world.folder / "shadow"
        self.shadow.mkdir()
        world.configure("spool", url=f"sqlite:{self.folder}/spool.db")
        world.daemon.preamble = PREAMBLE
        control = world.folder / "control"
        control.write_bytes(bytes(_CONTROL.size))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _CONTROL.size)
        world.daemon.environ |= {
            "LD_PRELOAD": str(shim),
            "DISK_CONTROL": str(control),
            "DISK_FOLDER": str(self.folder),
            "DISK_SHADOW": str(self.shadow),
        }

    @property
    def calls(self) -> int:
        """How many writes and syncs there have been."""
        return _CONTROL.unpack_from(self._control)[0]

    @property
    def failed(self) -> int:
        return _CONTROL.unpack_from(self._control)[4]

    def fail(self, after: int, count: int, error: int = errno.EIO) -> None:
        """`count` calls in a row, when `after` more have gone well."""
        first = self.calls + after
        struct.pack_into("3l", self._control, struct.calcsize("l"), first, first + count, error)

    def mend(self) -> None:
        self.fail(0, 0)

    def lose_power(self) -> None:
        """The daemon has been killed: its files become what they were when each was last synced."""
        for path in self.folder.iterdir():
            path.unlink()
        for copy in self.shadow.iterdir():
            if copy.suffix != ".unnamed" and copy.name != "copy":
                shutil.copy(copy, self.folder / copy.name.removesuffix(".gone"))
