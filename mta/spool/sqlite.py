"""The spool on SQLite: `mta.spool.base.Spool` over one file that one daemon owns.

Rules: three connections, each with its thread: one writes, in group commits; one looks for claims and reads content; one
answers persons, so that a long list holds up no delivery. Reads never wait for an fsync and never become writes (B44). A
claim is held in memory: after a crash nothing is claimed. Errors of the storage leave here as `SpoolError`.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from mta.doorbell import Doorbell
from mta.model.envelope import NewMessage, Notice
from mta.model.lifecycle import Event, Status
from mta.spool import chunks, due, intake, keys, marks, orders, outcome, ownership, schema, upkeep, views
from mta.spool.backup import Backups
from mta.spool.base import (
    Changed,
    Claim,
    ContentBuffer,
    DoubtPolicy,
    DueNotice,
    Earlier,
    Filter,
    MessageView,
    Overview,
    Purged,
    Reconciled,
    Recovered,
    Selection,
    Settled,
    Settlement,
    SpoolError,
    SpoolRefusal,
)
from mta.spool.batch import Effects, GroupCommit
from mta.spool.buffer import MemoryUse, SpillBuffer
from mta.spool.claims import Claims
from mta.spool.connection import (
    Connect,
    Connection,
    complete,
    connect_threaded,
    open_reader,
    open_writer,
    snapshot,
    storage_error,
)
from mta.spool.space import RESERVE, check_room

T = TypeVar("T")

PAGE = 500
"""Destinations that are read at a time."""
RETRIES_AT_ONCE = 20
"""Destinations whose retries share commits: one commit for each takes a minute for 20,000, all in one hold up the others."""


async def open_sqlite(
    path: Path,
    *,
    doubts: DoubtPolicy,
    now: float,
    doorbell: Doorbell,
    connect: Connect = connect_threaded,
    min_free: int = RESERVE,
) -> "tuple[SqliteSpool, Recovered]":
    """Takes the spool at `path` (made where there is none) and recovers what a crash left. Raises `SpoolBusy`,
    `SpoolDamaged`, `SpoolError`. `min_free` octets of the disk are left to the results of deliveries."""
    owned = ownership.own(path)
    connections: list[Connection] = []
    try:
        schema.create_missing(path)
        for opener in (open_writer, open_reader, open_reader):
            connections.append(await connect(partial(opener, path)))
        spool = SqliteSpool(path, owned, connections, doorbell, min_free, Backups(path, connect))
        return spool, await spool.recover(doubts, now)
    except BaseException as error:
        for connection in connections:
            await connection.close()
        owned.give_up()
        if isinstance(error, sqlite3.Error | OSError):
            raise storage_error(error) from error
        raise


class SqliteSpool:
    def __init__(
        self,
        path: Path,
        owned: ownership.Ownership,
        connections: Sequence[Connection],
        doorbell: Doorbell,
        min_free: int,
        backups: Backups,
    ) -> None:
        self._path = path
        self._backups = backups
        self._min_free = min_free
        self._owned = owned
        self._connections = connections
        writer, self._delivery, self._persons = connections
        self._doorbell = doorbell
        self._claims = Claims()
        self._memory_use = MemoryUse()
        self._commits = GroupCommit(writer, self._claims, self._ring)
        self._closed = False

    @property
    def doorbell(self) -> Doorbell:
        return self._doorbell

    def _ring(self, effects: Effects) -> None:
        for destination, at in effects.due.items():
            self._doorbell.ring_delivery(destination, at)
        if effects.notices:
            self._doorbell.ring_notices()

    async def _read(self, connection: Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work` on one state of the spool."""
        return await self._query(connection, partial(snapshot, work))

    async def _query(self, connection: Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work` of a single statement, which sees one state anyway, or one to which it makes no difference."""
        if self._closed:
            raise SpoolError("the spool is closed")
        try:
            return await connection.run(partial(complete, work))
        except (sqlite3.Error, OSError) as error:
            raise storage_error(error) from error

    async def _look(self, view: Callable[[sqlite3.Connection, Collection[int]], T]) -> T:
        def look(db: sqlite3.Connection) -> T:
            with self._claims.lock:
                busy = self._claims.everyone()
            return view(db, busy)

        return await self._read(self._persons, look)

    async def recover(self, doubts: DoubtPolicy, now: float) -> Recovered:
        """What the last run left; part of opening."""
        found = await self._commits.run(lambda db, effects: outcome.recover(db, effects, doubts), now)
        return Recovered(found, await self._read(self._persons, views.damaged))

    # ------------------------------------------------ submission
    def buffer(self) -> ContentBuffer:
        return SpillBuffer(self._path.parent, self._memory_use)

    def check_room(self, octets: int) -> None:
        try:
            check_room(self._path.parent, octets, self._min_free)
        except OSError as error:
            raise storage_error(error) from error

    async def accept(self, message: NewMessage, content: ContentBuffer, now: float) -> Earlier | None:
        def work(db: sqlite3.Connection, effects: Effects) -> Earlier | None:
            with self._claims.lock:
                busy = self._claims.everyone(effects.ended) if message.key or message.same_since is not None else ()
            if (known := keys.earlier(db, effects, busy, message)) is not None:
                return known
            check_room(self._path.parent, content.size, self._min_free)
            intake.accept(db, effects, message, content)
            return None

        return await self._commits.run(work, now, content=content)

    # ------------------------------------------------ delivery
    async def claim(self, destination: str, limit: int, now: float) -> Claim | None:
        return await self._take(due.first_due, due.DUE, destination, limit, now)

    async def claim_overdue(self, destination: str, limit: int, now: float) -> Claim | None:
        return await self._take(due.first_overdue, due.OVERDUE, destination, limit, now)

    async def _take(
        self, search: due.Search, condition: str, destination: str, limit: int, now: float
    ) -> Claim | None:
        def look(db: sqlite3.Connection) -> Claim | due.Flaw | None:
            return due.take(db, self._claims, search, condition, destination, limit, now)

        while isinstance(found := await self._claimed(look, now), due.Flaw):
            await self._set_apart(found, now)
        return found

    async def _claimed(
        self, look: Callable[[sqlite3.Connection], Claim | due.Flaw | None], now: float
    ) -> Claim | due.Flaw | None:
        looking = asyncio.ensure_future(self._read(self._delivery, look))
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            looking.add_done_callback(partial(self._let_go, now))
            raise

    def _let_go(self, now: float, looking: "asyncio.Future[Claim | due.Flaw | None]") -> None:
        """What was claimed for a caller that is gone goes back (B58)."""
        if not looking.cancelled() and looking.exception() is None and isinstance(found := looking.result(), Claim):
            with contextlib.suppress(SpoolError):  # closed: claims end with it
                self._commits.submit(lambda db, effects: outcome.release(db, effects, self._claims, found), now)

    async def _set_apart(self, flaw: due.Flaw, now: float) -> None:
        await self._commits.run(lambda db, effects: intake.quarantine(db, effects, flaw.message, flaw.reason), now)

    async def release(self, claim: Claim, now: float) -> None:
        await self._commits.run(lambda db, effects: outcome.release(db, effects, self._claims, claim), now)

    async def mark_in_doubt(
        self, claim: Claim, recipient_ids: Sequence[int], host: str, address: str, now: float
    ) -> None:
        def work(db: sqlite3.Connection, effects: Effects) -> None:
            outcome.mark_in_doubt(db, effects, self._claims, claim, recipient_ids, host, address)

        await self._commits.run(work, now)

    async def settle(self, settlement: Settlement, now: float) -> tuple[Settled, ...]:
        return await self._commits.run(
            lambda db, effects: outcome.settle(db, effects, self._claims, settlement), now
        )

    async def content(self, queue_id: str) -> AsyncIterator[bytes]:
        message, rest, chunk = await self._query(self._delivery, partial(chunks.first, queue_id=queue_id))
        position = 1
        while len(chunk) < rest:
            yield chunk
            rest -= len(chunk)
            chunk = await self._query(self._delivery, partial(chunks.chunk, message=message, position=position))
            position += 1
        if len(chunk) > rest:
            raise SpoolError(f"{queue_id}: the content is longer than it should be")
        yield chunk

    async def next_due(self, destination: str) -> float | None:
        return await self._read(self._delivery, lambda db: due.next_due(db, self._claims, destination))

    async def destinations(self, after: str, limit: int) -> Sequence[tuple[str, float]]:
        return await self._query(self._persons, lambda db: due.destinations(db, after, limit))

    async def quarantine(self, queue_id: str, reason: str, now: float) -> None:
        await self._commits.run(lambda db, effects: intake.quarantine_named(db, effects, queue_id, reason), now)

    # ------------------------------------------------ reports
    async def notices(self, kinds: Iterable[Notice], limit: int, now: float) -> Sequence[DueNotice]:
        wanted = tuple(kinds)
        return await self._query(self._persons, lambda db: marks.due(db, wanted, limit))

    async def report(
        self, notice_ids: Sequence[int], message: NewMessage | None, content: ContentBuffer | None, now: float
    ) -> None:
        await self._commits.run(
            lambda db, effects: marks.report(db, effects, notice_ids, message, content), now, content=content
        )

    async def told(self, notice_ids: Sequence[int], now: float) -> None:
        await self._commits.run(lambda db, effects: marks.told(db, notice_ids), now)

    # ------------------------------------------------ persons
    async def find(self, ref: str) -> Sequence[str]:
        return await self._read(self._persons, lambda db: views.find(db, ref))

    async def show(self, queue_id: str) -> MessageView | None:
        return await self._look(lambda db, busy: views.show(db, busy, queue_id))

    async def queue(self, wanted: Filter) -> tuple[Sequence[MessageView], int]:
        return await self._look(lambda db, busy: views.queue(db, busy, wanted))

    async def needing_person(self, limit: int, unreported: bool = False) -> tuple[Sequence[MessageView], int]:
        return await self._look(lambda db, busy: views.needing_person(db, busy, limit, unreported))

    async def overview(self) -> Overview:
        return await self._look(views.overview)

    async def order(self, event: Event, selection: Selection, now: float) -> Sequence[Changed]:
        """By destination, or for everything, the answer has one `Changed` without queue id for each destination: memory
        does not follow the backlog."""
        if selection.queue_ids:
            return await self._commits.run(
                lambda db, effects: orders.order(db, effects, self._claims.everyone(effects.ended), event, selection),
                now,
                exclusive=True,
            )
        if event is not Event.RETRY:
            raise SpoolRefusal(f"{event} needs a message")
        if selection.destination:
            return await self._retry([selection.destination], now)
        return [changed async for page in self._pages() for changed in await self._retry(page, now)]

    async def _retry(self, destinations: Sequence[str], now: float) -> list[Changed]:
        changed = []
        for start in range(0, len(destinations), RETRIES_AT_ONCE):
            group = destinations[start : start + RETRIES_AT_ONCE]
            totals = await asyncio.gather(*(self._retry_one(destination, now) for destination in group))
            changed += [
                Changed("", destination, Status.PENDING, Status.PENDING, f"{total} recipients due now")
                for destination, total in zip(group, totals, strict=True)
                if total
            ]
        return changed

    async def _retry_one(self, destination: str, now: float) -> int:
        """How many recipients are due now."""
        total = part = await self._retry_slice(destination, now)
        while part == orders.SLICE:
            part = await self._retry_slice(destination, now)
            total += part
        return total

    async def _retry_slice(self, destination: str, now: float) -> int:
        return await self._commits.run(lambda db, effects: orders.retry_slice(db, effects, destination), now)

    async def _pages(self) -> AsyncIterator[list[str]]:
        after = ""
        while page := [name for name, _ in await self.destinations(after, PAGE)]:
            yield page
            after = page[-1]

    async def standing_hold(self, destination: str, held: bool, now: float) -> None:
        await self._commits.run(lambda db, effects: orders.standing_hold(db, effects, destination, held), now)
        if held:
            return
        if destination != "*":
            self._doorbell.ring_delivery(destination, now)
            return
        async for page in self._pages():
            for name in page:
                self._doorbell.ring_delivery(name, now)

    # ------------------------------------------------ upkeep
    async def purge(self, content_before: float, messages_before: float, limit: int, now: float) -> Purged:
        """A step takes at most 8 MiB of content (or one larger message), so it may do less than `limit`."""
        return await self._commits.run(
            lambda db, effects: upkeep.purge(db, effects, content_before, messages_before, limit), now
        )

    async def reconcile(self, working: Collection[int], doubts: DoubtPolicy, now: float) -> Reconciled:
        def look(db: sqlite3.Connection) -> tuple[Collection[int], Collection[int]]:
            with self._claims.lock:
                abandoned, busy = self._claims.abandoned(working), self._claims.everyone()
            return abandoned, outcome.left_halfway(db, busy)

        abandoned, loose = await self._query(self._persons, look)  # a guess, without the lock; looked at again below
        if not abandoned and not loose:
            return Reconciled()
        return await self._commits.run(
            lambda db, effects: outcome.reconcile(db, effects, self._claims, abandoned, loose, doubts), now, exclusive=True
        )

    async def backup(self, path: Path, now: float) -> int:
        if self._closed:
            raise SpoolError("the spool is closed")
        try:
            return await self._backups.make(path)
        except sqlite3.Error as error:
            raise SpoolError(f"the copy {path} failed: {error}") from error

    async def close(self) -> None:
        """Waits for the verbs given so far; further ones raise `SpoolError`. The file is free then."""
        if self._closed:
            return
        await self._backups.stop()
        await self._commits.close()
        self._closed = True
        for connection in reversed(self._connections):  # the writer last: it copies the WAL back
            with contextlib.suppress(sqlite3.Error):
                await connection.close()
        self._owned.give_up()
