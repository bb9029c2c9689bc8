"""An event loop in virtual time: it jumps to the next instant at which something happens, and days pass in seconds.

Rules: nothing real is waited for. What would wait (a thread, a real socket, a name service, a sleeping process) is a
failure that names the call. Callbacks run in the order of their instants, and of their making at one instant: the same
calls give the same order each time. A callback belongs to the machine in whose context it was made; those of a machine
that has crashed are never run, nor do its tasks notice anything.
"""

import asyncio
import contextlib
import contextvars
import functools
import ipaddress
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import copy_context
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

MACHINE: "contextvars.ContextVar[Machine | None]" = contextvars.ContextVar("machine", default=None)
"""The machine that runs; None: the world around it."""
TURNS = 100_000
"""Turns of the loop within which time is to go on by a second."""
GRAIN = 1e-6
"""Seconds by which time goes on at least: wall time as a float has no finer grain."""


class WouldBlock(RuntimeError):
    """Something was called that waits for the real world."""


class Deadlock(RuntimeError):
    """Everybody waits and nothing will ever happen."""


class Livelock(RuntimeError):
    """Everybody works and time stands still."""


class Machine:
    """One run of a daemon, until it stops or crashes. `armed` is (kind of event, how many more until the crash)."""

    def __init__(self, name: str, on_crash: Callable[["Machine"], None]) -> None:
        self.name = name
        self._alive = True
        self._armed: tuple[str, int] | None = None
        self.calm = True
        """It is alive, and nothing is to crash it: no event has to be counted."""
        self._made: list[weakref.ref[Task]] = []
        self._left: list[Task] = []
        """Those that had not ended when it crashed: they stay, so that nothing of them runs to clear up."""
        self._on_crash = on_crash

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def armed(self) -> tuple[str, int] | None:
        return self._armed

    @armed.setter
    def armed(self, armed: tuple[str, int] | None) -> None:
        self._armed = armed
        self.calm = self._alive and armed is None

    def end(self) -> None:
        """Nothing of it runs any more."""
        self._alive = self.calm = False
        self._armed = None

    def tasks(self) -> "list[Task]":
        """Those that have not ended, in the order of their making."""
        tasks = [it for made in self._made if (it := made()) is not None and not it.done()]
        self._made = [weakref.ref(it) for it in tasks]
        return tasks

    def has(self, task: "Task") -> None:
        self._made.append(weakref.ref(task))

    def tick(self, kind: str) -> bool:
        """An event of this kind is about to be; whether the machine lives on."""
        if self._armed is not None and self._armed[0] == kind:
            left = self._armed[1] - 1
            self.armed = (kind, left) if left > 0 else None
            if left <= 0:
                self.crash()
        return self._alive

    def crash(self) -> None:
        if self._alive:
            self.end()
            self._left = self.tasks()
            self._on_crash(self)


class Task(asyncio.Task[Any]):
    """`machine`: in whose context it was made."""

    __slots__ = ("machine",)
    machine: Machine | None


class Call(msgspec.Struct, eq=False):
    """A callback that waits; as `asyncio.TimerHandle` to those who made it. `callback` None: cancelled."""

    callback: Any
    args: tuple[Any, ...]
    context: contextvars.Context
    _when: float = 0.0

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self._when


class SimLoop(asyncio.BaseEventLoop):
    """`network` answers what asyncio's calls for connections, servers and datagrams ask for."""

    def __init__(self, network: Any, start: float = 1000.0) -> None:
        super().__init__()
        self.now = self._counted_from = start
        self._turns = 0
        self._clock_resolution = 1e-9
        self._next_place = count().__next__
        self.network = network
        self.blocked: list[str] = []
        """The calls that would have waited, whatever became of the exception."""
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self.now

    # the base class's without its checks: each is called several hundred times for an email
    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> "Call":  # type: ignore[override]
        call = Call(callback, args, copy_context() if context is None else context)
        self._ready.append(call)
        return call

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> "Call":  # type: ignore[override]
        call = Call(callback, args, copy_context() if context is None else context, when)
        heappush(self._scheduled, (when, self._next_place(), call))  # a heap alone keeps no order at one instant
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> "Call":
        when = self.now + delay
        call = Call(callback, args, copy_context() if context is None else context, when)
        heappush(self._scheduled, (when, self._next_place(), call))
        return call

    # ------------------------------------------------ one turn
    def run_forever(self) -> None:
        with _guarded(time, "sleep", "time.sleep"), _guarded(threading.Thread, "start", "threading.Thread.start"):
            super().run_forever()

    def _run_once(self) -> None:
        """As the base class's, but for the wait: time moves instead. All turns until the loop is to stop."""
        ready, next_call, machine_of = self._ready, self._ready.popleft, MACHINE
        while not self._stopping or ready:
            self._turns += 1
            if self._turns == TURNS:
                self._still_moves()
            if not ready:
                self._move()
            for _ in range(len(ready)):
                call = next_call()
                callback, context = call.callback, call.context
                if callback is None:
                    continue
                machine = context.get(machine_of)
                if machine is not None and not machine.calm and not machine.tick("step"):
                    continue
                try:
                    context.run(callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    what = {"message": f"exception in {callback!r}", "exception": error, "handle": call}
                    self.call_exception_handler(what)
            if self._stopping:
                return

    def _move(self) -> None:
        """To the next instant at which something happens, with all that happens then."""
        timers, ready, now = self._scheduled, self._ready, self.now
        while timers:
            when, _, call = heappop(timers)
            if call.callback is not None:
                break
        else:
            raise Deadlock("nothing is scheduled")
        if when > now:
            self.now = now = max(when, now + GRAIN)
        ready.append(call)
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])

    def _still_moves(self) -> None:
        if self.now - self._counted_from < 1.0:
            raise Livelock(f"{TURNS} turns in less than a second: {(self._ready or self._scheduled)[0]}")
        self._turns, self._counted_from = 0, self.now

    def _process_events(self, _events: object) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # ------------------------------------------------ the network
    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.network.connect(protocol_factory, str(host), int(port))

    async def create_unix_connection(self, protocol_factory: Any, path: Any = None, **_: Any) -> Any:
        return await self.network.connect(protocol_factory, _folder(path), 0)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.network.listen(protocol_factory, str(host), int(port))

    async def create_unix_server(self, protocol_factory: Any, path: Any = None, *, sock: Any = None, **_: Any) -> Any:
        # the file is real, so that its mode and its leftovers are; nobody ever connects to it
        return self.network.listen(protocol_factory, _folder(sock.getsockname() if sock is not None else path), 0, sock)

    async def create_datagram_endpoint(self, protocol_factory: Any, remote_addr: Any = None, **_: Any) -> Any:
        return self.network.datagrams(protocol_factory, remote_addr)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        try:
            ipaddress.ip_address(str(host))
        except ValueError:
            raise self.would_block(f"getaddrinfo({host!r})") from None
        family = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (host, port))]

    # ------------------------------------------------ what would wait for the real world
    def would_block(self, call: str) -> WouldBlock:
        self.blocked.append(call)
        return WouldBlock(f"{call} would block in a simulation")

    def run_in_executor(self, _executor: Any, func: Any, *_: Any) -> Any:
        raise self.would_block(f"run_in_executor({getattr(func, '__qualname__', func)})")

    def add_reader(self, fd: Any, *_: Any) -> Any:
        raise self.would_block(f"add_reader({fd})")

    def add_writer(self, fd: Any, *_: Any) -> Any:
        raise self.would_block(f"add_writer({fd})")

    async def subprocess_exec(self, *args: Any, **_: Any) -> Any:
        raise self.would_block(f"subprocess_exec({args[1:2]})")

    async def subprocess_shell(self, *args: Any, **_: Any) -> Any:
        raise self.would_block(f"subprocess_shell({args[1:2]})")


def _folder(path: Any) -> str:
    """Where a unix socket is known by: it may be moved to another name once it listens."""
    return str(Path(path).parent)


def _make_task(loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> Task:
    task = Task(work, loop=loop, **named)
    machine = task.machine = MACHINE.get()
    if machine is not None:
        machine.has(task)
    return task


_BLOCKING = frozenset(
    {
        "time.sleep", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr",
        "subprocess.Popen", "os.system", "os.fork", "os.posix_spawn", "_thread.start_new_thread",
    }
)  # fmt: skip
"""Audit events of calls that wait, or that leave the loop's thread."""


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event not in _BLOCKING:
        return
    loop = asyncio._get_running_loop()
    if not isinstance(loop, SimLoop):
        return
    if event == "socket.connect" and args[0].family == socket.AF_UNIX:  # is answered at once, by whoever is not there
        return
    raise loop.would_block(event)


@contextlib.contextmanager
def _guarded(owner: Any, name: str, call: str) -> Iterator[None]:
    """Of these Python's audit tells only in later versions (3.12, 3.13)."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def guard(*args: Any, **named: Any) -> Any:
        loop = asyncio._get_running_loop()  # that of this thread: others may wait
        if isinstance(loop, SimLoop):
            raise loop.would_block(call)
        return real(*args, **named)

    setattr(owner, name, guard)
    try:
        yield
    finally:
        setattr(owner, name, real)


sys.addaudithook(_watch)
