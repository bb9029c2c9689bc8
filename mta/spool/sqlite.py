"""The spool on SQLite: `mta.spool.base.Spool` over one file that one daemon owns.

Rules: three connections: one writes, in group commits; one looks for claims and reads content; one answers persons, where it
has a thread, so that a long list holds up no delivery. Reads never become writes (B44). A claim is held in memory: after a
crash nothing is claimed. Errors of the storage leave here as `SpoolError`.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from mta.doorbell import Doorbell
from mta.model.envelope import MailClass, NewMessage, Notice
from mta.model.lifecycle import Event
from mta.spool import (
    chunks,
    deadlines,
    due,
    intake,
    keys,
    marks,
    memories,
    orders,
    outcome,
    ownership,
    schema,
    upkeep,
    views,
)
from mta.spool.backup import Backups
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
    SpoolRefusal,
)
from mta.spool.batch import Effects, GroupCommit
from mta.spool.buffer import MemoryUse, SpillBuffer
from mta.spool.claims import Claims
from mta.spool.connection import (
    Connect,
    Connection,
    Together,
    complete,
    connect_threaded,
    open_reader,
    open_writer,
    snapshot,
    storage_error,
)
from mta.spool.orders import Sooner
from mta.spool.retries import retry
from mta.spool.searches import Searches
from mta.spool.senders import Senders
from mta.spool.space import RESERVE, check_room, free_octets

T = TypeVar("T")

PAGE = 500
"""Destinations that are read at a time."""


async def open_sqlite(
    path: Path,
    *,
    doubts: DoubtPolicy,
    now: float,
    doorbell: Doorbell,
    connect: Connect = connect_threaded,
    min_free: int = RESERVE,
    by_sender: bool = False,
    daemon: int = 0,
) -> "tuple[SqliteSpool, Recovered]":
    """Takes the spool at `path` (made where there is none) and recovers what a crash left. Raises `SpoolBusy`,
    `SpoolDamaged`, `SpoolError`. `min_free` octets of the disk are left to the results of deliveries.
    `by_sender`: claims go by sender in turn (`mta.spool.senders`), else by age alone.
    `daemon`: the process that this one keeps the spool for."""
    owned = ownership.own(path, daemon)
    connections: list[Connection] = []
    try:
        schema.create_missing(path)
        for opener in (partial(open_writer, by_sender=by_sender), open_reader, open_reader):
            connections.append(await connect(partial(opener, path)))
        spool = SqliteSpool(path, owned, connections, doorbell, min_free, Backups(path, connect), by_sender)
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
        by_sender: bool,
    ) -> None:
        self._folder = path.parent
        self._backups = backups
        self._min_free = min_free
        self._owned = owned
        writer, delivery, self._persons = connections
        self._delivery = Together(delivery)
        self._connections = writer, self._delivery, self._persons
        self._doorbell = doorbell
        self._claims = Claims()
        self._choose: due.Chooser = Senders().choose if by_sender else due.oldest
        self._memory_use = MemoryUse()
        self._commits = GroupCommit(writer, self._claims, self._ring)
        self._searches = Searches(self._claims, self._commits, self._search)
        self._closed = False

    @property
    def doorbell(self) -> Doorbell:
        return self._doorbell

    def _ring(self, effects: Effects) -> None:
        for (destination, mail_class), at in effects.due.items():
            self._doorbell.ring_delivery(destination, at, mail_class)
        if effects.deadlines:
            self._doorbell.ring_deadlines()
        if effects.notices:
            self._doorbell.ring_notices()

    def _search(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        if self._closed:
            raise SpoolError("the spool is closed")
        return self._delivery.submit(partial(complete, partial(snapshot, work)))

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
        return SpillBuffer(self._folder, self._memory_use)

    def check_room(self, octets: int) -> None:
        try:
            check_room(self._folder, free_octets(self._folder), octets, self._min_free)
        except OSError as error:
            raise storage_error(error) from error

    async def accept(self, message: NewMessage, content: ContentBuffer, now: float) -> Earlier | None:
        def work(db: sqlite3.Connection, effects: Effects) -> Earlier | None:
            with self._claims.lock:
                busy = self._claims.everyone(effects.ended) if message.key or message.same_since is not None else ()
            if (known := keys.earlier(db, effects, busy, message)) is not None:
                return known
            free = free_octets(self._folder) if effects.free is None else effects.free
            effects.free = check_room(self._folder, free, content.size, self._min_free)
            intake.accept(db, effects, message, content)
            return None

        return await self._commits.run(work, now, content=content)

    # ------------------------------------------------ delivery
    async def claim(
        self, destination: str, limit: int, now: float, classes: Sequence[MailClass] = CLASSES
    ) -> Claim | None:
        return await self._searches.take(partial(due.first_due, destination, classes, self._choose), due.DUE, limit, now)

    async def claim_expired(self, limit: int, now: float) -> Claim | None:
        return await self._searches.take(deadlines.first_expired, deadlines.EXPIRED, limit, now)

    async def next_deadline(self) -> float | None:
        return await self._read(self._delivery, lambda db: deadlines.next_deadline(db, self._claims))

    async def claim_overdue(self, destination: str, limit: int, now: float) -> Claim | None:
        return await self._searches.take(partial(due.first_overdue, destination), due.OVERDUE, limit, now)

    async def release(self, claim: Claim, now: float) -> None:
        await self._commits.run(lambda db, effects: outcome.release(db, effects, self._claims, claim), now)

    async def mark_in_doubt(
        self, claim: Claim, recipient_ids: Sequence[int], host: str, address: str, now: float, signed: str = ""
    ) -> None:
        def work(db: sqlite3.Connection, effects: Effects) -> None:
            outcome.mark_in_doubt(db, effects, self._claims, claim, recipient_ids, host, address, signed)

        await self._commits.run(work, now)

    async def settle(self, settlement: Settlement, now: float) -> tuple[Settled, ...]:
        return await self._commits.run(
            lambda db, effects: outcome.settle(db, effects, self._claims, settlement), now
        )

    def content(self, queue_id: str) -> AsyncIterator[bytes]:
        return chunks.all_of(queue_id, self.first_chunk, self.chunk)

    async def first_chunk(self, queue_id: str) -> tuple[int, int, bytes]:
        """The message's row id, the octets of its content, the first chunk of it."""
        return await self._query(self._delivery, partial(chunks.first, queue_id=queue_id))

    async def chunk(self, message: int, position: int) -> bytes:
        return await self._query(self._delivery, partial(chunks.chunk, message=message, position=position))

    async def next_due(self, destination: str, now: float, classes: Sequence[MailClass] = CLASSES) -> float | None:
        return await self._read(self._delivery, lambda db: due.next_due(db, self._claims, destination, now, classes))

    async def destinations(
        self, after: str, limit: int, now: float
    ) -> Sequence[tuple[str, Mapping[MailClass, float]]]:
        return await self._query(self._persons, lambda db: due.destinations(db, after, limit, now))

    async def quarantine(self, queue_id: str, reason: str, now: float) -> None:
        await self._commits.run(lambda db, effects: intake.quarantine_named(db, effects, queue_id, reason), now)

    # ------------------------------------------------ reports
    async def notices(self, kinds: Collection[Notice], limit: int, now: float) -> Sequence[DueNotice]:
        wanted = tuple(kinds)
        return await self._query(self._persons, lambda db: marks.due(db, wanted, limit))

    async def report(
        self, notice_ids: Sequence[int], message: NewMessage | None, content: ContentBuffer | None, now: float
    ) -> None:
        await self._commits.run(
            lambda db, effects: marks.report(db, effects, notice_ids, message, content), now, content=content
        )

    async def seen(self, queue_id: str, unreported: bool, now: float) -> None:
        await self._commits.run(lambda db, effects: marks.seen(db, effects, queue_id, unreported), now)

    async def told(self, notice_ids: Sequence[int], now: float) -> None:
        await self._commits.run(lambda db, effects: marks.told(db, notice_ids), now)

    # ------------------------------------------------ persons
    async def knows(self, key: str, scope: str) -> bool:
        return await self._query(self._persons, lambda db: keys.knows(db, key, scope))

    async def find(self, ref: str) -> Sequence[str]:
        return await self._read(self._persons, lambda db: views.find(db, ref))

    async def show(self, queue_id: str) -> MessageView | None:
        return await self._look(lambda db, busy: views.show(db, busy, queue_id))

    async def queue(self, wanted: Filter) -> tuple[Sequence[MessageView], int]:
        return await self._look(lambda db, busy: views.queue(db, busy, wanted))

    async def needing_person(self, limit: int, unreported: bool = False) -> tuple[Sequence[MessageView], int]:
        return await self._look(lambda db, busy: views.needing_person(db, busy, limit, unreported))

    async def overview(self, now: float) -> Overview:
        return await self._look(lambda db, busy: views.overview(db, busy, now))

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
            return await retry([selection.destination], Sooner(), self._commits, now)
        return await self._sooner(Sooner(), now)

    async def bring_forward(self, beyond: float, doubt_rest: float, now: float) -> int:
        return len(await self._sooner(Sooner(beyond, doubt_rest), now))

    async def _sooner(self, sooner: Sooner, now: float) -> list[Changed]:
        changed: list[Changed] = []
        async for page in self._pages(now):
            changed += await retry([name for name, _ in page], sooner, self._commits, now)
        return changed

    async def _pages(self, now: float) -> AsyncIterator[Sequence[tuple[str, Mapping[MailClass, float]]]]:
        after = ""
        while page := await self.destinations(after, PAGE, now):
            yield page
            after = page[-1][0]

    async def standing_hold(self, destination: str, held: bool, now: float) -> None:
        await self._commits.run(lambda db, effects: orders.standing_hold(db, effects, destination, held), now)
        if held:
            return
        self._doorbell.ring_deadlines()
        if destination != "*":
            self._ring_lanes(destination, CLASSES, now)
            return
        async for page in self._pages(now):
            for name, classes in page:
                self._ring_lanes(name, classes, now)

    def _ring_lanes(self, destination: str, classes: Iterable[MailClass], now: float) -> None:
        for mail_class in classes:
            self._doorbell.ring_delivery(destination, now, mail_class)

    # ------------------------------------------------ what is remembered beside mail
    async def remember(self, kind: Memory, values: Mapping[str, str], expires_at: float | None, now: float) -> None:
        await self._commits.run(lambda db, effects: memories.remember(db, kind, values, expires_at, now), now)

    async def forget(self, kind: Memory, names: Collection[str], now: float) -> int:
        return await self._commits.run(lambda db, effects: memories.forget(db, kind, names), now)

    async def recall(self, kind: Memory, names: Collection[str], now: float) -> Mapping[str, Remembered]:
        return await self._query(self._persons, lambda db: memories.recall(db, kind, names, now))

    async def memories(self, kind: Memory, after: str, limit: int, now: float) -> Sequence[Remembered]:
        return await self._query(self._persons, lambda db: memories.page(db, kind, after, limit, now))

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
