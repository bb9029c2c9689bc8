"""The daemon's end: a spool whose verbs are calls of another process.

Rules: what a verb promises is promised by the answer alone; a caller that is cancelled undoes nothing, and what was claimed
for it goes back. When the process is gone every verb fails, and so the daemon ends: its manager starts both anew.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from mta.doorbell import Doorbell
from mta.model.envelope import MailClass, NewMessage, Notice
from mta.model.lifecycle import Event
from mta.spool import chunks
from mta.spool.base import (
    CLASSES,
    Changed,
    Claim,
    ContentBuffer,
    DoubtPolicy,
    DueNotice,
    Earlier,
    Filter,
    Memory,
    MessageView,
    Overview,
    Purged,
    Reconciled,
    Recovered,
    Remembered,
    Selection,
    Settled,
    Settlement,
    SpoolError,
)
from mta.spool.buffer import MemoryUse, SpillBuffer
from mta.spool.connection import storage_error
from mta.spool.process import server, wire
from mta.spool.process.wire import Answer, Content, Opening, Verb
from mta.spool.space import RESERVE, check_room, free_octets

FILES_BUFFER = 256 * 1024
"""Octets, or what the kernel allows (`net.core.wmem_max`): room for a file from each of 500 sessions on its way."""


class SpoolProcess:
    """The other process, whose loop `new_loop` makes. To be made before there are threads or an event loop: it is a copy of
    this one."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._new_loop = new_loop
        self.ended = asyncio.Event()
        self.calls, calls = socket.socketpair()
        self.files, files = socket.socketpair()
        self.files.setblocking(False)
        self.files.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, FILES_BUFFER)
        with calls, files:
            self.pid = self._begin(calls, files)

    def _begin(self, calls: socket.socket, files: socket.socket) -> int:
        # blocked until the copy ignores them: what comes meanwhile is for the daemon alone
        before = signal.pthread_sigmask(signal.SIG_BLOCK, server.FOR_THE_DAEMON)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return pid
        try:
            _close_all_but(calls.fileno(), files.fileno())
            server.serve(calls, files, self._new_loop)
        except BaseException as error:  # ours to mend; the daemon says that it has ended
            print(f"mta: the spool's process failed: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)

    async def end(self) -> None:
        """Waits until it has ended by itself, and raises `SpoolError`, which says how."""
        await self.ended.wait()
        _, status = await asyncio.to_thread(os.waitpid, self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        raise SpoolError(f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")


def _close_all_but(*kept: int) -> None:
    """What systemd opened for the daemon, and whatever else is the daemon's; standard streams stay."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in kept:
            with suppress(OSError):  # that of the list itself
                os.close(descriptor)


async def open_in_process(
    process: SpoolProcess,
    path: Path,
    *,
    doubts: DoubtPolicy,
    now: float,
    doorbell: Doorbell,
    min_free: int = RESERVE,
    by_sender: bool = False,
) -> "tuple[RemoteSpool, Recovered]":
    """As `spool.sqlite.open_sqlite`, over there."""
    spool = RemoteSpool(process, path.parent, min_free, doorbell)
    await spool.connect()
    return spool, await spool.open(Opening(path, doubts, now, min_free, by_sender))


class _Asked(NamedTuple):
    """A call that was not answered yet; `octets` of its frame count as memory in use."""

    verb: Verb
    done: "asyncio.Future[Any]"
    arguments: tuple[Any, ...]
    octets: int


class RemoteSpool(asyncio.Protocol):
    def __init__(self, process: SpoolProcess, folder: Path, min_free: int, doorbell: Doorbell) -> None:
        self._process, self._folder, self._min_free = process, folder, min_free
        self._doorbell = doorbell
        self._memory_use = MemoryUse()
        self._loop = asyncio.get_running_loop()
        self._frames = wire.Frames(self._take)
        self._number = 0
        self._asked: dict[int, _Asked] = {}
        self._out: list[bytes] = []
        self._closed = ""  # why

    @property
    def doorbell(self) -> Doorbell:
        return self._doorbell

    # ------------------------------------------------ calls and answers
    async def connect(self) -> None:
        self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=self._process.calls)

    def _call(self, name: str, *arguments: Any, descriptor: int | None = None) -> "asyncio.Future[Any]":
        """`descriptor`: of the file with the content among the arguments. Raises `SpoolError`, and nothing was asked."""
        if self._closed:
            raise SpoolError(self._closed)
        verb, number = wire.VERB[name], self._number + 1
        octets = wire.call(number, verb, arguments)
        if descriptor is not None:
            self._send_file(number, descriptor)
        self._number = number
        done = self._loop.create_future()
        self._asked[number] = _Asked(verb, done, arguments, len(octets))
        self._memory_use.octets += len(octets)
        self._out.append(octets)
        if len(self._out) == 1:
            self._loop.call_soon(self._flush)
        return done

    def _send_file(self, number: int, descriptor: int) -> None:
        try:
            socket.send_fds(self._process.files, [number.to_bytes(wire.NUMBER, "big")], [descriptor])
        except OSError as error:  # among others: so many are on their way that no more fit in
            raise storage_error(error) from error

    def _flush(self) -> None:
        """All that one turn of the loop asks for goes together, and so may share a commit."""
        out, self._out = self._out, []
        if not self._transport.is_closing():
            self._transport.writelines(out)

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)

    def _take(self, number: int, what: int, octets: memoryview) -> None:
        if not number:
            self._ring(what, octets)
            return
        verb, done, arguments, asked = self._asked.pop(number)
        self._memory_use.octets -= asked
        if what == Answer.ERROR:
            outcome: Any = wire.raised(octets)
        else:
            try:
                outcome = verb.result.decode(octets)
            except msgspec.MsgspecError as error:
                outcome = SpoolError(f"the spool's process said what can't be: {error}")
        if done.done():  # its caller was cancelled
            self._give_back(outcome, arguments)
        elif isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)

    def _give_back(self, outcome: object, arguments: tuple[Any, ...]) -> None:
        if isinstance(outcome, Claim) and not self._closed:
            now = next(value for value in arguments if isinstance(value, float))
            self._call("release", _light(outcome), now).add_done_callback(asyncio.Future.exception)  # else reconciled

    def _ring(self, what: int, octets: memoryview) -> None:
        if what == Answer.DELIVERY:
            self._doorbell.ring_delivery(*wire.DELIVERY.decode(octets))
        elif what == Answer.DEADLINES:
            self._doorbell.ring_deadlines()
        else:
            self._doorbell.ring_notices()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = self._closed or f"the spool's process ({self._process.pid}) is gone"
        for asked in self._asked.values():
            if not asked.done.done():
                asked.done.set_exception(SpoolError(self._closed))
        self._asked.clear()
        self._process.ended.set()

    async def open(self, opening: Opening) -> Recovered:
        return await self._call("open", opening)

    async def close(self) -> None:
        if self._closed:
            return
        closing = self._call("close")
        self._closed = "the spool is closed"
        try:
            await closing
        finally:
            self._transport.close()
            await self._process.ended.wait()
            await asyncio.to_thread(os.waitpid, self._process.pid, 0)

    # ------------------------------------------------ submission
    def buffer(self) -> ContentBuffer:
        return SpillBuffer(self._folder, self._memory_use)

    def check_room(self, octets: int) -> None:
        try:
            check_room(self._folder, free_octets(self._folder), octets, self._min_free)
        except OSError as error:
            raise storage_error(error) from error

    def _call_with(self, content: ContentBuffer, name: str, *arguments: Any) -> "asyncio.Future[Any]":
        """`content` in the place of its type among the arguments; it is closed."""
        try:
            if not isinstance(content, SpillBuffer) or content.spilled is None:
                sent, descriptor = Content(b"".join(content.chunks())), None
            else:
                descriptor, prefix, skipped, length = content.spilled
                sent = Content(prefix, skipped, length, in_file=True)
            return self._call(name, *(sent if it is Content else it for it in arguments), descriptor=descriptor)
        finally:
            content.close()

    async def accept(self, message: NewMessage, content: ContentBuffer, now: float) -> Earlier | None:
        return await self._call_with(content, "accept", message, Content, now)

    # ------------------------------------------------ delivery
    async def claim(
        self, destination: str, limit: int, now: float, classes: Sequence[MailClass] = CLASSES
    ) -> Claim | None:
        return await self._call("claim", destination, limit, now, classes)

    async def claim_expired(self, limit: int, now: float) -> Claim | None:
        return await self._call("claim_expired", limit, now)

    async def next_deadline(self) -> float | None:
        return await self._call("next_deadline")

    async def claim_overdue(self, destination: str, limit: int, now: float) -> Claim | None:
        return await self._call("claim_overdue", destination, limit, now)

    async def release(self, claim: Claim, now: float) -> None:
        await self._call("release", _light(claim), now)

    async def mark_in_doubt(
        self, claim: Claim, recipient_ids: Sequence[int], host: str, address: str, now: float, signed: str = ""
    ) -> None:
        await self._call("mark_in_doubt", _light(claim), recipient_ids, host, address, now, signed)

    async def settle(self, settlement: Settlement, now: float) -> tuple[Settled, ...]:
        return await self._call("settle", replace(settlement, claim=_light(settlement.claim)), now)

    def content(self, queue_id: str) -> AsyncIterator[bytes]:
        return chunks.all_of(queue_id, self._first_chunk, self._chunk)

    async def _first_chunk(self, queue_id: str) -> tuple[int, int, bytes]:
        return await self._call("first_chunk", queue_id)

    async def _chunk(self, message: int, position: int) -> bytes:
        return await self._call("chunk", message, position)

    async def next_due(self, destination: str, now: float, classes: Sequence[MailClass] = CLASSES) -> float | None:
        return await self._call("next_due", destination, now, classes)

    async def destinations(
        self, after: str, limit: int, now: float
    ) -> Sequence[tuple[str, Mapping[MailClass, float]]]:
        return await self._call("destinations", after, limit, now)

    async def quarantine(self, queue_id: str, reason: str, now: float) -> None:
        await self._call("quarantine", queue_id, reason, now)

    # ------------------------------------------------ reports
    async def notices(self, kinds: Collection[Notice], limit: int, now: float) -> Sequence[DueNotice]:
        return await self._call("notices", kinds, limit, now)

    async def report(
        self, notice_ids: Sequence[int], message: NewMessage | None, content: ContentBuffer | None, now: float
    ) -> None:
        if content is None:
            await self._call("report", notice_ids, message, None, now)
        else:
            await self._call_with(content, "report", notice_ids, message, Content, now)

    async def seen(self, queue_id: str, unreported: bool, now: float) -> None:
        await self._call("seen", queue_id, unreported, now)

    async def told(self, notice_ids: Sequence[int], now: float) -> None:
        await self._call("told", notice_ids, now)

    # ------------------------------------------------ persons
    async def knows(self, key: str, scope: str) -> bool:
        return await self._call("knows", key, scope)

    async def find(self, ref: str) -> Sequence[str]:
        return await self._call("find", ref)

    async def show(self, queue_id: str) -> MessageView | None:
        return await self._call("show", queue_id)

    async def queue(self, wanted: Filter) -> tuple[Sequence[MessageView], int]:
        return await self._call("queue", wanted)

    async def needing_person(self, limit: int, unreported: bool = False) -> tuple[Sequence[MessageView], int]:
        return await self._call("needing_person", limit, unreported)

    async def overview(self, now: float) -> Overview:
        return await self._call("overview", now)

    async def order(self, event: Event, selection: Selection, now: float) -> Sequence[Changed]:
        return await self._call("order", event, selection, now)

    async def bring_forward(self, beyond: float, doubt_rest: float, now: float) -> int:
        return await self._call("bring_forward", beyond, doubt_rest, now)

    async def standing_hold(self, destination: str, held: bool, now: float) -> None:
        await self._call("standing_hold", destination, held, now)

    # ------------------------------------------------ what is remembered beside mail
    async def remember(self, kind: Memory, values: Mapping[str, str], expires_at: float | None, now: float) -> None:
        await self._call("remember", kind, values, expires_at, now)

    async def forget(self, kind: Memory, names: Collection[str], now: float) -> int:
        return await self._call("forget", kind, names, now)

    async def recall(self, kind: Memory, names: Collection[str], now: float) -> Mapping[str, Remembered]:
        return await self._call("recall", kind, names, now)

    async def memories(self, kind: Memory, after: str, limit: int, now: float) -> Sequence[Remembered]:
        return await self._call("memories", kind, after, limit, now)

    # ------------------------------------------------ upkeep
    async def purge(self, content_before: float, messages_before: float, limit: int, now: float) -> Purged:
        return await self._call("purge", content_before, messages_before, limit, now)

    async def reconcile(self, working: Collection[int], doubts: DoubtPolicy, now: float) -> Reconciled:
        return await self._call("reconcile", working, doubts, now)

    async def backup(self, path: Path, now: float) -> int:
        return await self._call("backup", path, now)


def _light(claim: Claim) -> Claim:
    """The content is over there already."""
    return replace(claim, content=b"")
