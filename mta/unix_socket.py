"""Unix sockets as files: made whole, replaced only when nobody listens, taken away at the end.

Rules: a socket has its mode from the moment it can be connected to, whatever the umask; one that a dead daemon left is
replaced, one that somebody listens at never. Folders that are missing are made, those that are there stay as they are.
"""

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

FOLDER_MODE = 0o750


class SocketTaken(Exception):
    """The socket can't be made; the text says at which path and why."""


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """`sock` listens at `path`, and is not blocking."""

    sock: socket.socket
    path: Path
    _inode: int

    def remove(self) -> None:
        """Takes the file away, unless another daemon has put its own there since."""
        try:
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()
        except OSError:
            pass  # gone already, or not ours to remove: the next start replaces it


def listening(path: Path, what: str, mode: int, backlog: int) -> UnixSocket:
    """`what` names it in `SocketTaken`, which is raised where it can't be made."""
    try:
        sock = _made(path, what, mode, backlog)
        return UnixSocket(sock, path, path.lstat().st_ino)
    except OSError as error:
        raise SocketTaken(f"{what} {path}: {error.strerror or error}") from None


def _made(path: Path, what: str, mode: int, backlog: int) -> socket.socket:
    """It is made under another name and moved there when all is right with it, so that nobody meets it half made, and no
    umask of the whole process is touched."""
    _make_folder(path.parent)
    _check_free(path, what)
    draft = path.with_name(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(draft))
        draft.chmod(mode)
        sock.setblocking(False)
        sock.listen(backlog)
        draft.replace(path)
    except OSError:
        sock.close()
        draft.unlink(missing_ok=True)
        raise
    return sock


def _make_folder(folder: Path) -> None:
    """With those above it; the group that a socket is for has to get there, whatever the umask."""
    if folder.exists():
        return
    _make_folder(folder.parent)
    folder.mkdir()
    folder.chmod(FOLDER_MODE)


def _check_free(path: Path, what: str) -> None:
    """Raises `SocketTaken` where somebody listens, or where something else stands."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketTaken(f"{what} {path}: something that is no socket is there; it is left as it is")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise SocketTaken(f"{what} {path}: another daemon listens there")
