"""The process of the spool: one spool, the calls of one daemon.

Rules: what waits for a commit runs where its calls are read, so calls that came together share one; what may look at much
(persons' verbs, backups) has threads. With its daemon this process ends, at once: what was not answered was not promised.
"""

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from mta.doorbell import Doorbell
from mta.model.envelope import MailClass
from mta.spool import base
from mta.spool.base import SpoolBusy, SpoolError
from mta.spool.buffer import SpillBuffer
from mta.spool.connection import Connection, Opener, connect_inline, connect_threaded
from mta.spool.process import wire
from mta.spool.process.wire import Answer, Content, Opening
from mta.spool.sqlite import SqliteSpool, open_sqlite

HAND_OVER = 2.0
"""Seconds for which a spool may still be held by the process of a daemon that has just been killed."""
FOR_THE_DAEMON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that mean the daemon also where the whole group gets them."""
NAME = "mta-spool"
"""What `ps` and `top` show it as."""


class SpoolServer(asyncio.Protocol):
    """`files`: the socket that content in files comes by. `ended` is set when the daemon is gone."""

    def __init__(self, files: socket.socket, ended: asyncio.Event) -> None:
        self._files, self._ended = files, ended
        self._frames = wire.Frames(self._begin)
        self._calls: set[asyncio.Task[None]] = set()
        self._out: list[bytes] = []
        self._spool: SqliteSpool | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()

    def _begin(self, number: int, verb: int, octets: memoryview) -> None:
        call = self._loop.create_task(self._serve(number, wire.VERBS[verb], bytes(octets)))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _serve(self, number: int, verb: wire.Verb, octets: bytes) -> None:
        try:
            arguments = verb.arguments.decode(octets)
            result = await (self._open(*arguments) if verb.name == "open" else self._call(number, verb.name, arguments))
            answer = wire.frame(number, Answer.RESULT, result)
        except Exception as error:
            answer = wire.frame(number, Answer.ERROR, wire.told(error))
        self.send(answer)

    async def _call(self, number: int, name: str, arguments: tuple[Any, ...]) -> object:
        if self._spool is None:
            raise SpoolError("the spool is not open")
        if name in ("accept", "report"):
            arguments = tuple(self._buffer(self._spool, number, it) if isinstance(it, Content) else it for it in arguments)
        return await getattr(self._spool, name)(*arguments)

    async def _open(self, opening: Opening) -> base.Recovered:
        # the last one is that of persons' verbs
        ways = itertools.chain((connect_inline, connect_inline), itertools.repeat(connect_threaded))

        async def connect(opener: Opener) -> Connection:
            return await next(ways)(opener)

        give_up = self._loop.time() + HAND_OVER
        while True:
            try:
                self._spool, recovered = await open_sqlite(
                    opening.path, doubts=opening.doubts, now=opening.now, doorbell=Bell(self), connect=connect,
                    min_free=opening.min_free, by_sender=opening.by_sender, daemon=os.getppid(),
                )  # fmt: skip
            except SpoolBusy:
                if self._loop.time() > give_up:
                    raise
                await asyncio.sleep(0.02)
            else:
                return recovered

    def _buffer(self, spool: SqliteSpool, number: int, content: Content) -> base.ContentBuffer:
        buffer = spool.buffer()
        try:
            if not content.in_file:
                buffer.write(content.prefix)
            elif isinstance(buffer, SpillBuffer):
                buffer.adopt(self._descriptor(number), content.prefix, content.skipped, content.length)
        except SpoolError:
            buffer.close()
            raise
        return buffer

    def _descriptor(self, number: int) -> int:
        """It was sent before its call, behind those of calls before it, which have theirs."""
        while True:
            octets, descriptors, _, _ = socket.recv_fds(self._files, wire.NUMBER, 1)
            if int.from_bytes(octets, "big") == number:
                break
            for descriptor in descriptors:
                os.close(descriptor)
        if not descriptors:
            raise SpoolError("the spool's process has too many files open")
        return descriptors[0]

    def send(self, octets: bytes) -> None:
        """With whatever else this turn of the loop sends."""
        self._out.append(octets)
        if len(self._out) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if not self._transport.is_closing():
            self._transport.writelines(out)


class Bell(Doorbell):
    """Rings at the daemon's."""

    def __init__(self, server: SpoolServer) -> None:
        super().__init__()
        self._server = server

    def ring_delivery(self, destination: str, at: float, mail_class: MailClass) -> None:
        self._server.send(wire.frame(0, Answer.DELIVERY, (destination, at, mail_class)))

    def ring_deadlines(self) -> None:
        self._server.send(wire.frame(0, Answer.DEADLINES, None))

    def ring_notices(self) -> None:
        self._server.send(wire.frame(0, Answer.NOTICES, None))


def serve(calls: socket.socket, files: socket.socket, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Until the daemon closes its end of `calls`. It alone says when to stop: signals that mean the whole group don't."""
    for number in FOR_THE_DAEMON:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError), open("/proc/self/comm", "w") as name:
        name.write(NAME)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(calls, files))


async def _serve(calls: socket.socket, files: socket.socket) -> None:
    ended = asyncio.Event()
    await asyncio.get_running_loop().create_unix_connection(lambda: SpoolServer(files, ended), sock=calls)
    await ended.wait()
    os._exit(0)
