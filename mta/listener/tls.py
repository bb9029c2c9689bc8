"""From a connection in clear to one inside TLS: STARTTLS, and implicit TLS (RFC 3207, RFC 8314).

Rules: nothing that came in clear is read inside; a handshake takes bounded time; why one fails is a text, never a
traceback.
"""

import asyncio
import ssl
from typing import Protocol

HANDSHAKE_TIMEOUT = 30.0
"""Seconds from the first octet to the last of a handshake."""


class _Engine(Protocol):
    """The way in of what `start_tls` sets up: `asyncio.BufferedProtocol`."""

    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...


async def secure(
    transport: asyncio.WriteTransport, protocol: asyncio.BaseProtocol, context: ssl.SSLContext, early: bytes = b""
) -> asyncio.Transport:
    """The way to the client inside TLS; `early` is what the handshake begins with and has been read already. Nothing else
    runs between the call and the moment from which on what arrives belongs to the handshake. Raises OSError where it
    fails, and then the connection is of no use."""
    loop = asyncio.get_running_loop()
    if early:
        loop.call_soon(_feed, transport, early)
    secured = await loop.start_tls(
        transport, protocol, context, server_side=True, ssl_handshake_timeout=HANDSHAKE_TIMEOUT
    )
    if secured is None:  # asyncio's answer where the client has gone meanwhile
        raise ConnectionResetError("the client has gone")
    return secured


def _feed(transport: asyncio.WriteTransport, early: bytes) -> None:
    """Comes before anything that the transport reads: `start_tls` has paused it."""
    engine: _Engine = transport.get_protocol()  # type: ignore[assignment]  # typeshed: BaseProtocol
    while early:
        buffer = engine.get_buffer(len(early))
        taken = min(len(buffer), len(early))
        buffer[:taken] = early[:taken]
        engine.buffer_updated(taken)
        early = early[taken:]


def reason(error: OSError) -> str:
    """Why a handshake has failed, for the log."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error) or "the client has gone"
