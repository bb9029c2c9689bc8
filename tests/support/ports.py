"""Ports for the tests' servers.

A port that the kernel chooses (0) is good for one address alone: at another one somebody's outgoing connection may have it.
Where a second server takes the same port, or the same server comes back to it, it is one of these: below the ports of
outgoing connections, and of each worker's own.
"""

import contextlib
import os
import random
import socket

_PORTS = range(12000, 32000)
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_OURS = _PORTS[_WORKER::_WORKERS]


def free_port() -> int:
    """A port at which nobody listens, by TCP or UDP, at any IPv4 address of this machine; to be bound later."""
    while True:
        port = random.choice(_OURS)
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
            tcp.bind(("0.0.0.0", port))
            udp.bind(("0.0.0.0", port))
            return port
