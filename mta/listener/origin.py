"""Where a client is: what can be known of it before it says a word."""

import asyncio
import socket
import struct
from functools import lru_cache

from mta.policy.networks import plain
from mta.policy.trace import Client, client_at

_CREDENTIALS = struct.Struct("3i")
"""Of SO_PEERCRED: process, user and group (unix(7))."""
_KNOWN = 1000
"""Addresses that need not be read again: most clients come more than once."""


def origin(transport: asyncio.BaseTransport) -> Client:
    peername = transport.get_extra_info("peername")
    sock = None if isinstance(peername, tuple) else transport.get_extra_info("socket")
    if sock is not None and sock.family == socket.AF_UNIX:
        return Client(None, _local(sock), is_local=True)
    return _at(str(peername[0]) if isinstance(peername, tuple) and peername else "")


@lru_cache(maxsize=_KNOWN)
def _at(host: str) -> Client:
    """An IPv4 client of an IPv6 socket has its IPv4 address."""
    try:
        return client_at(plain(host))
    except ValueError:
        return client_at(None)


def _local(sock: socket.socket) -> str:
    """With the user it runs as, where the system says it."""
    try:
        _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    except (OSError, AttributeError):
        return "unix"
    return f"unix:uid={user}"
