"""A transport without a network: what is written is kept, what a peer would send is fed by the test."""

import asyncio
from typing import Any


class MemoryTransport(asyncio.Transport):
    def __init__(self, protocol: Any, peername: Any = ("127.0.0.1", 50000)) -> None:
        super().__init__({"peername": peername})
        self.protocol = protocol
        self.written = bytearray()
        self.reading = True
        self.stuck = False
        """Nothing is taken by the peer: a close waits for ever."""
        self.closed = asyncio.Event()
        self._closing = False
        protocol.connection_made(self)

    def feed(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def feed_eof(self) -> None:
        if not self.protocol.eof_received():
            self.close()

    def write(self, data: Any) -> None:
        if not self._closing:
            self.written += data

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self.stuck:
                self._lose(None)

    def abort(self) -> None:
        if not self.closed.is_set():
            self._closing = True
            self._lose(None)

    def reset(self) -> None:
        """The peer's RST."""
        self._closing = True
        self._lose(ConnectionResetError("reset by peer"))

    def _lose(self, error: Exception | None) -> None:
        self.closed.set()
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)
