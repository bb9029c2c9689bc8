"""Space on the spool's disk: what submissions leave to the results of deliveries.

Rules: a spool that fills its disk must still be able to empty it. A result goes into the WAL, and what is in the WAL needs
its place in the database; without room for either no delivery could be recorded, so none would be made, for ever. So a new
message is refused (452 4.3.1) while there is still room for these.
"""

import os
from pathlib import Path

from mta.spool.base import SpoolFull

RESERVE = 64 * 2**20
"""Octets, unless `spool.min_free` says otherwise: the WAL up to its checkpoint and a batch of content, each of them once
in the WAL and once in the database, twice over."""


def free_octets(folder: Path) -> int:
    """What the disk of `folder` has left for us. Raises OSError where nobody can tell."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def check_room(folder: Path, free: int, octets: int, reserve: int) -> int:
    """What is left of `free` behind a message of `octets`. Raises `SpoolFull` where that is less than `reserve`."""
    left = free - 2 * octets
    if left < reserve:
        raise SpoolFull(f"no space for the spool: {free // 2**20} MiB left at {folder}, and deliveries need some")
    return left
