"""The network: connections of ordered octets between protocols, with latency, and with what goes wrong on the way.

Rules: what is written arrives in order, in pieces that say nothing; at most `WINDOW` octets are on the way, the rest
waits in the writer's buffer and pauses it. A fault of a direction begins at an octet: from there on the connection is
reset, silent (nothing arrives, nobody is told), or slow. A crash of a machine resets its connections; a power cut is
silent until it is up again.
"""

import asyncio
import contextvars
import errno
import os
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.loop import GRAIN, MACHINE, Machine, SimLoop

WINDOW = 64 * 1024
HIGH_WATER = 64 * 1024
LOW_WATER = 16 * 1024
SLOW = 5.0
"""Seconds that an octet takes more on a slow line."""
TCP_GIVES_UP = 127.0
"""Seconds after which a connection to a host that says nothing fails by itself."""
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LineFault:
    """What befalls one direction of a connection from octet `at` on. `kind`: reset, silent, slow."""

    kind: str
    at: int


@dataclass(frozen=True, slots=True)
class Route:
    """How a connection to a place goes. `answer`: open, refused, unreachable, silent. Latency in seconds, one way."""

    answer: str = "open"
    latency: float = 0.02
    up: LineFault | None = None
    down: LineFault | None = None
    """From the one who connects; to the one who connects."""


class Network:
    """`route` decides about each connection: (from machine or None, place) -> Route. `chance` cuts what is sent in
    pieces and varies latency."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.route: Callable[[Machine | None, Place], Route] = lambda machine, place: Route()
        self.listeners: dict[Place, Listening] = {}
        self.name_servers: dict[Place, Callable[[bytes], tuple[bytes | None, float]]] = {}
        """What they answer, None for nothing, and after how many seconds."""
        self.ends: dict[End, None] = {}
        """Those that are open."""
        self.loop: SimLoop = None  # type: ignore[assignment] # set by whoever makes both
        self._ports = 20000

    # ------------------------------------------------ asyncio's calls
    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> "tuple[End, Any]":
        place = (host, port)
        machine = MACHINE.get()
        route = self.route(machine, place)
        if route.answer == "silent":
            await asyncio.sleep(TCP_GIVES_UP)
            raise _os_error(TimeoutError, errno.ETIMEDOUT)
        await asyncio.sleep(2 * route.latency)
        if route.answer == "unreachable":
            raise _os_error(OSError, errno.EHOSTUNREACH)
        listening = self.listeners.get(place)
        if route.answer == "refused" or listening is None:
            raise _os_error(ConnectionRefusedError, errno.ECONNREFUSED)
        return self._join(factory, listening, place, route)

    def _join(self, factory: Callable[[], Any], listening: "Listening", place: Place, route: Route) -> "tuple[End, Any]":
        self._ports = 20000 + (self._ports - 19999) % 40000
        here = ("127.0.0.1" if place[0].startswith("127.") else "192.0.2.1", self._ports)
        near = End(self, contextvars.copy_context(), {"peername": place, "sockname": here, "place": place}, route.latency)
        far = End(self, listening.context, {"peername": here, "sockname": place}, route.latency)
        near.peer, far.peer = far, near
        near.fault, far.fault = route.up, route.down
        near.protocol = protocol = factory()
        self.ends[near] = self.ends[far] = None
        self.loop.call_soon(far.accepted, listening.factory, context=listening.context)
        protocol.connection_made(near)
        return near, protocol

    def listen(self, factory: Callable[[], Any], host: str, port: int, sock: Any = None) -> "Listening":
        listening = Listening(self, (host, port), factory, contextvars.copy_context(), sock)
        self.listeners[host, port] = listening
        return listening

    def datagrams(self, factory: Callable[[], Any], remote: Place) -> "tuple[Datagrams, Any]":
        protocol = factory()
        transport = Datagrams(self, remote, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    # ------------------------------------------------ the end of machines
    def lose(self, machine: Machine, *, silently: bool) -> "list[End]":
        """The machine has crashed; the other ends, if they were not told, for `reset_all` later."""
        for place, listening in list(self.listeners.items()):
            if listening.context.get(MACHINE) is machine:
                listening.die()
                del self.listeners[place]
        lost = [end for end in self.ends if end.context.get(MACHINE) is machine]
        others = [end.peer for end in lost]
        for end in lost:
            end.vanish()
        if silently:
            return others
        self.reset_all(others)
        return []

    def reset_all(self, ends: "list[End]") -> None:
        for end in ends:
            self.loop.call_later(end.latency, end.was_reset, context=end.context)

    def some(self) -> float:
        """A variation of latency."""
        return 0.5 + self._chance.random()

    def cut(self, length: int) -> int:
        """Octets of the next piece out of `length`."""
        if length > 1 and self._chance.random() < 0.1:
            return self._chance.randrange(1, length)
        return length


class Listening:
    """What `create_server` gives, and its only socket."""

    def __init__(
        self, network: Network, place: Place, factory: Callable[[], Any], context: contextvars.Context, sock: Any
    ) -> None:
        self.place, self.factory, self.context = place, factory, context
        self._network, self._sock = network, sock

    @property
    def sockets(self) -> "tuple[Listening, ...]":
        return (self,)

    def getsockname(self) -> Place:
        return self.place

    def close(self) -> None:
        if self._network.listeners.get(self.place) is self:
            del self._network.listeners[self.place]
        self.die()

    def die(self) -> None:
        if self._sock is not None:
            self._sock.close()

    async def wait_closed(self) -> None:
        pass


@dataclass(eq=False)
class End(asyncio.Transport):
    """One end of a connection. Everything that happens to its protocol runs in `context`."""

    network: Network
    context: contextvars.Context
    extra: dict[str, Any]
    latency: float
    peer: "End" = field(init=False)
    protocol: Any = None
    fault: LineFault | None = None
    sent: int = 0
    """Octets that have left this end."""
    _buffer: bytearray = field(default_factory=bytearray)
    _on_the_way: int = 0
    _arrives_at: float = 0.0
    _inbox: deque[bytes] = field(default_factory=deque)
    _closing: bool = False
    _over: bool = False
    _told: bool = False
    _eof_wanted: bool = False
    _eof_sent: bool = False
    _eof_waits: bool = False
    _reading: bool = True
    _paused: bool = False
    _high: int = HIGH_WATER
    _low: int = LOW_WATER
    _start_tls_compatible = True

    # ------------------------------------------------ asyncio's transport
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.extra.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.network.loop.call_soon(self._read_on, context=self.context)

    def write(self, data: Any) -> None:
        if self._closing or self._eof_wanted or not data:
            return
        if (machine := self.context.get(MACHINE)) is not None and not machine.tick("send"):
            return
        self._buffer += data
        self._pump()
        if len(self._buffer) > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def writelines(self, lines: Any) -> None:
        self.write(b"".join(lines))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._eof_wanted = True
        self._pump()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def close(self) -> None:
        """What is in the buffer still goes out."""
        if not self._closing:
            self._closing = True
            self._eof_wanted = True
            self._pump()

    def abort(self) -> None:
        self._end(None, told_peer=True)

    def _force_close(self, error: BaseException | None) -> None:
        self._end(error, told_peer=True)

    # ------------------------------------------------ outwards
    @property
    def _is_silent(self) -> bool:
        return self.fault is not None and self.fault.kind == "silent" and self.sent > self.fault.at

    def _pump(self) -> None:
        while self._buffer and self._on_the_way < WINDOW and not self._over:
            size = self.network.cut(min(len(self._buffer), WINDOW - self._on_the_way))
            piece = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._send(piece)
        if self._eof_wanted and not self._buffer and not self._eof_sent and not self._over:
            self._eof_sent = True
            self._after_latency(self.peer._eof_arrives)
        if self._closing and self._eof_sent:
            self._end(None, told_peer=False)
        if self._paused and len(self._buffer) <= self._low and not self._over:
            self._paused = False
            self.network.loop.call_soon(self._resume, context=self.context)

    def _resume(self) -> None:
        if not self._over:
            self.protocol.resume_writing()

    def _send(self, piece: bytes) -> None:
        self._on_the_way += len(piece)
        before, self.sent = self.sent, self.sent + len(piece)
        fault = self.fault
        if fault is None or self.sent <= fault.at:
            self._after_latency(self.peer._arrive, piece)
            return
        well = max(fault.at - before, 0)
        if piece[:well]:
            self._after_latency(self.peer._arrive, piece[:well])
        if fault.kind == "slow":
            self._after_latency(self.peer._arrive, piece[well:], delay=SLOW)
        elif fault.kind == "reset" and before <= fault.at:
            self._after_latency(self.peer.was_reset)
            self.network.loop.call_later(self.latency, self.was_reset, context=self.context)

    def _after_latency(self, deed: Callable[..., None], *args: Any, delay: float = 0.0) -> None:
        """Things arrive in the order in which they were sent."""
        if self.fault is not None and not args and self._is_silent:
            return  # an end of file is lost like the rest
        loop = self.network.loop
        at = loop.now + self.latency * self.network.some() + delay
        earliest = self._arrives_at + GRAIN
        self._arrives_at = at if at > earliest else earliest
        loop.call_at(self._arrives_at, deed, *args, context=self.peer.context)

    # ------------------------------------------------ inwards
    def accepted(self, factory: Callable[[], Any]) -> None:
        if not self._over:
            self.protocol = factory()
            self.protocol.connection_made(self)

    def _arrive(self, piece: bytes) -> None:
        if self._over:
            if not (self.peer._over or self._is_silent):  # nobody is here any more
                self.network.loop.call_later(self.latency, self.peer.was_reset, context=self.peer.context)
            return
        self._inbox.append(piece)
        self._read_on()

    def _read_on(self) -> None:
        while self._inbox and self._reading and not self._closing:
            piece = self._inbox.popleft()
            self._give(piece)
            self.peer._acknowledged(len(piece))
        if self._eof_waits and not self._inbox and self._reading and not self._closing:
            self._eof_waits = False
            if not self.protocol.eof_received():
                self.close()

    def _give(self, piece: bytes) -> None:
        protocol = self.protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(piece)
            return
        while piece:
            buffer = protocol.get_buffer(len(piece))
            size = min(len(buffer), len(piece))
            buffer[:size] = piece[:size]
            protocol.buffer_updated(size)
            piece = piece[size:]

    def _acknowledged(self, size: int) -> None:
        self._on_the_way -= size
        if self._buffer or self._eof_wanted:
            self._pump()

    def _eof_arrives(self) -> None:
        if not self._over:
            self._eof_waits = True
            self._read_on()

    def was_reset(self) -> None:
        """The other end is gone."""
        error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._end(error, told_peer=False)

    # ------------------------------------------------ the end
    def _end(self, error: BaseException | None, *, told_peer: bool) -> None:
        if self._over:
            return
        self._over = self._closing = True
        self.network.ends.pop(self, None)
        self._inbox.clear()
        if told_peer and not self._is_silent:
            self._after_latency(self.peer.was_reset)
        self._buffer.clear()
        if self.protocol is not None:
            self.network.loop.call_soon(self._tell_end, error, context=self.context)

    def _tell_end(self, error: BaseException | None) -> None:
        if not self._told:
            self._told = True
            self.protocol.connection_lost(error)

    def vanish(self) -> None:
        """Its machine is gone; nothing runs here any more."""
        self._over = self._closing = self._told = True
        self._inbox.clear()
        self._buffer.clear()
        self.network.ends.pop(self, None)


class Datagrams(asyncio.DatagramTransport):
    """A connected UDP socket: each question has its answer, or none."""

    def __init__(self, network: Network, remote: Place, protocol: Any) -> None:
        super().__init__()
        self._network, self._remote, self._protocol = network, remote, protocol
        self._closed = False

    def sendto(self, data: Any, addr: Any = None) -> None:
        server = self._network.name_servers.get(self._remote)
        if server is None:
            refused = _os_error(ConnectionRefusedError, errno.ECONNREFUSED)
            self._network.loop.call_later(0.01, self._tell, self._protocol.error_received, refused)
            return
        answer, delay = server(bytes(data))
        if answer is not None:
            self._network.loop.call_later(delay, self._tell, self._protocol.datagram_received, answer, self._remote)

    def _tell(self, deed: Callable[..., None], *args: Any) -> None:
        if not self._closed:
            deed(*args)

    def close(self) -> None:
        self._closed = True

    abort = close

    def is_closing(self) -> bool:
        return self._closed


def _os_error(kind: type[OSError], number: int) -> OSError:
    return kind(number, os.strerror(number))
