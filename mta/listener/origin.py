"""Where a client is: what can be known of it before it says a word."""

import asyncio
import socket
import struct
from dataclasses import dataclass

from mta.listener.settings import peer_address
from mta.model.address import IpAddress

_CREDENTIALS = struct.Struct("3i")
"""Of SO_PEERCRED: process, user and group (unix(7))."""


@dataclass(frozen=True, slots=True)
class Origin:
    """`peer` is its IP address (None: not known); `local` shows one at a unix socket, "" for others."""

    peer: IpAddress | None
    local: str = ""


def origin(transport: asyncio.BaseTransport) -> Origin:
    peername = transport.get_extra_info("peername")
    sock = None if isinstance(peername, tuple) else transport.get_extra_info("socket")
    if sock is not None and sock.family == socket.AF_UNIX:
        return Origin(None, _local(sock))
    return Origin(peer_address(peername))


def _local(sock: socket.socket) -> str:
    """With the user it runs as, where the system says it."""
    try:
        _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    except (OSError, AttributeError):
        return "unix"
    return f"unix:uid={user}"
