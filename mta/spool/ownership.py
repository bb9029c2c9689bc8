"""Who owns a spool's files: one daemon, by a lock that a crash takes back; mode 0600, in a folder of mode 0700.

The lock is flock's on a file of its own, since closing any descriptor of the database would drop SQLite's own locks.
"""

import fcntl
import os
from pathlib import Path

from mta.spool.base import SpoolBusy, SpoolError


class Ownership:
    """A held lock; `give_up` (idempotent) frees it. The lock file stays: to remove it would race with the next owner."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def give_up(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def own(path: Path, daemon: int = 0) -> Ownership:
    """Makes the folder where it is missing and takes the spool at `path`, for the process `daemon` if it is not this one.
    Raises `SpoolBusy`, which names the spool and the owner's process id, and `SpoolError`, which names what is not ours to
    write."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SpoolError(f"the spool's folder {path.parent} can't be made: {error.strerror}") from None
    _check_writable(path)
    lock = beside(path, ".lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SpoolError(f"the spool's lock {lock} can't be opened: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise SpoolBusy(f"the spool {path} is in use by another daemon (process {holder})") from None
    os.ftruncate(descriptor, 0)
    holder = f"{daemon}; its spool's is {os.getpid()}" if daemon else str(os.getpid())
    os.pwrite(descriptor, f"{holder}\n".encode(), 0)
    return Ownership(descriptor)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _check_writable(path: Path) -> None:
    if not path.parent.is_dir():
        raise SpoolError(f"the spool's folder {path.parent} is no folder")
    if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
        raise SpoolError(f"the spool's folder {path.parent} is not writable for user id {os.geteuid()}")
    for file in (path, *(beside(path, suffix) for suffix in ("-wal", "-shm", ".lock"))):
        if not file.exists():
            continue
        if not file.is_file():
            raise SpoolError(f"the spool's file {file} is no regular file")
        if not os.access(file, os.R_OK | os.W_OK, effective_ids=True):
            raise SpoolError(
                f"the spool's file {file} is not writable for user id {os.geteuid()} (it belongs to {file.stat().st_uid})"
            )
