"""systemd's side of the daemon (sd_notify(3), sd_listen_fds(3)): readiness, watchdog, inherited sockets. Without systemd
every call is a no-op.
"""

import errno
import os
import re
import socket
from collections.abc import Mapping

from mta.model.door import Scheme

_FIRST_FD = 3
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_TLS = "tls"
"""The name (FileDescriptorName=) of a socket at which TLS comes first."""


class Notifier:
    """Tells the service manager; never raises."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        period = environ.get("WATCHDOG_USEC", "")
        self.watchdog = int(period) / 1e6 if _NUMBER.match(period) and mine and self._address else 0.0
        """Seconds within which a sign of life is due; 0: none."""

    def notify(self, *states: str) -> None:
        """`READY=1`, `STOPPING=1`, `WATCHDOG=1`, `STATUS=...`."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                sock.sendto("\n".join(states).encode(), address)
        except OSError:
            pass  # the manager is gone or busy: nothing that mail should suffer from


def inherited_sockets(environ: Mapping[str, str]) -> list[tuple[Scheme, socket.socket]]:
    """The listening sockets systemd opened for us, in order, and how one speaks there; empty without socket activation.
    Raises OSError: one is no stream socket, or nobody knows how many they are."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    promised = environ.get("LISTEN_FDS", "0")
    if not _NUMBER.match(promised):
        raise OSError(errno.EINVAL, f'LISTEN_FDS is "{promised}", which is no number of sockets')
    count = int(promised)
    sockets = [_socket(fd) for fd in range(_FIRST_FD, _FIRST_FD + count)]
    for sock in sockets:
        sock.setblocking(False)
        os.set_inheritable(sock.fileno(), False)
    names = environ.get("LISTEN_FDNAMES", "").split(":") + [""] * count
    return [(_scheme(sock, name), sock) for sock, name in zip(sockets, names, strict=False)]


def _socket(descriptor: int) -> socket.socket:
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        what = f"LISTEN_FDS promises a socket as file descriptor {descriptor}, and there is none"
        raise OSError(error.errno, f"{what} ({error.strerror})") from None
    if sock.type != socket.SOCK_STREAM:
        raise OSError(errno.EINVAL, f"the socket that is file descriptor {descriptor} is no stream: expected ListenStream=")
    return sock


def _scheme(sock: socket.socket, name: str) -> Scheme:
    if sock.family == socket.AF_UNIX:
        return Scheme.UNIX
    return Scheme.TLS if name == _TLS else Scheme.SMTP
