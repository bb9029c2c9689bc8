"""Group commit: whatever waits while one commit is being synced goes into the next transaction; nobody waits on a timer.

Rules: an operation that fails does not take its neighbours along (all are run again, in savepoints); what operations do
to counts is summed up and written once a batch, in the same transaction; a transaction runs in one function on the
connection, without awaits, so neither a cancelled caller nor another task can leave it half done.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from mta.doorbell import Lane
from mta.model.envelope import MailClass
from mta.spool.base import ContentBuffer, SpoolError
from mta.spool.claims import Claims
from mta.spool.connection import Connection, complete, storage_error

T = TypeVar("T")

BATCH_OCTETS = 8 * 1024 * 1024
"""Content that goes into one transaction, unless a single message is larger."""
BATCH_OPERATIONS = 1000


class Sum(StrEnum):
    """What is summed up over a batch; in brackets what it goes by."""

    COUNT = "recipients (status, class)"
    TALLY = "messages in quarantine (name)"
    WAITING = "waiting recipients (destination)"
    UNFINISHED_OF = "unfinished recipients (message)"
    WAITING_OF = "waiting recipients (message)"


_SUMS = tuple(Sum)


@dataclass(slots=True)
class Effects:
    """What the operations of a batch do beside their own rows, at `now`. `changes` is cut back when an operation fails;
    bells (`due`, `deadlines`, `notices`) are hints and may ring for nothing; `ended` are claims, added as an
    operation's last deed; `free` is what the disk has left (octets), asked by the first who needs some."""

    now: float = 0.0
    changes: list[tuple[Sum, Any, int]] = field(default_factory=list)
    replies: dict[str, str] = field(default_factory=dict)
    due: dict[Lane, float] = field(default_factory=dict)
    deadlines: bool = False
    notices: bool = False
    ended: set[int] = field(default_factory=set)
    free: int | None = None

    def change(self, what: Sum, key: object, n: int) -> None:
        self.changes.append((what, key, n))

    def ring(self, destination: str, at: float, mail_class: MailClass) -> None:
        """Something of this class becomes due at `destination` with this commit."""
        lane = (destination, mail_class)
        self.due[lane] = min(at, self.due.get(lane, at))

    def totals(self) -> dict[Sum, dict[Any, int]]:
        totals: dict[Sum, dict[Any, int]] = {what: {} for what in _SUMS}
        for what, key, n in self.changes:
            sums = totals[what]
            sums[key] = sums.get(key, 0) + n
        return totals


Work = Callable[[sqlite3.Connection, Effects], T]
"""An operation: SQL on the connection, what it does to counts and bells into `Effects`."""


class Operation(NamedTuple):
    work: Work[Any]
    now: float
    done: "asyncio.Future[Any]"
    content: ContentBuffer | None
    octets: int
    exclusive: bool


class GroupCommit:
    """Runs operations in the order given, many to a transaction. `committed` is told what each commit did."""

    def __init__(self, connection: Connection, claims: Claims, committed: Callable[[Effects], None]) -> None:
        self._connection = connection
        self._claims = claims
        self._committed = committed
        self._waiting: list[Operation] = []
        self._flusher: asyncio.Task[None] | None = None
        self._closed = False

    def run(
        self, work: Work[T], now: float, *, content: ContentBuffer | None = None, exclusive: bool = False
    ) -> "asyncio.Future[T]":
        """The result of `work` once it is durable; it is begun at once. `content` is what it stores, closed when the work is
        over (which may be after its caller); `exclusive`: no claim is looked for until it is committed. Raises
        `SpoolError`; the future has that, or what `work` raises. Cancelling it undoes nothing."""
        if self._closed:
            if content:
                content.close()
            raise SpoolError("the spool is closed")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(Operation(work, now, done, content, content.size if content else 0, exclusive))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush())
        return done

    async def close(self) -> None:
        """Waits for what was given; nothing more is taken."""
        self._closed = True
        if self._flusher is not None:
            await self._flusher

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._take())
        finally:
            self._flusher = None

    def _take(self) -> list[Operation]:
        octets = count = 0
        for operation in self._waiting[:BATCH_OPERATIONS]:
            octets += operation.octets
            if count and octets > BATCH_OCTETS:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _commit(self, batch: list[Operation]) -> None:
        try:
            outcomes, effects = await self._connection.run(partial(run_batch, batch, self._claims))
        except _RolledBack as broken:
            await self._go_on_after(batch, broken)
            return
        except (Exception, asyncio.CancelledError) as error:
            _answer(batch, [storage_error(error)] * len(batch))
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        _answer(batch, outcomes)
        self._committed(effects)

    async def _go_on_after(self, batch: list[Operation], broken: "_RolledBack") -> None:
        place = broken.place
        _answer(batch[place : place + 1], [storage_error(broken.cause)])
        self._waiting[:0] = batch[place + 1 :]
        if place:
            await self._commit(batch[:place])


def _answer(batch: Sequence[Operation], outcomes: Sequence[object]) -> None:
    for operation, outcome in zip(batch, outcomes, strict=True):
        if operation.content:
            operation.content.close()
        if operation.done.done():  # its caller was cancelled
            continue
        if isinstance(outcome, Exception):
            operation.done.set_exception(outcome)
        else:
            operation.done.set_result(outcome)


class _RolledBack(Exception):
    """SQLite undid the whole transaction for what one operation met (no space, an I/O error), not only that operation."""

    def __init__(self, place: int, cause: Exception) -> None:
        super().__init__(place, cause)
        self.place, self.cause = place, cause


class _Failed(Exception):
    """An operation failed in a transaction that can't undo it alone."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


def run_batch(batch: Sequence[Operation], claims: Claims, db: sqlite3.Connection) -> tuple[list[object], Effects]:
    """One transaction: an outcome (a value or an exception) for each operation. Raises when nothing was committed; the
    connection is out of the transaction then and can be used again. Operations seldom fail: only where one of several does,
    all are run again, each in a savepoint, which costs about as much as a statement and keeps copies of the pages."""
    with claims.lock if any(operation.exclusive for operation in batch) else contextlib.nullcontext():
        try:
            outcomes, effects = _transaction(db, batch, _run_plainly)
        except _Failed as failed:
            if len(batch) == 1:  # nothing else is undone
                return [_reason(failed.cause)], Effects()
            outcomes, effects = _transaction(db, batch, _run_guarded)
        with claims.lock:
            claims.end(effects.ended)
    return outcomes, effects


def _transaction(
    db: sqlite3.Connection,
    batch: Sequence[Operation],
    run: Callable[[sqlite3.Connection, Operation, Effects, int], object],
) -> tuple[list[object], Effects]:
    effects = Effects()
    db.execute("BEGIN IMMEDIATE")
    try:
        outcomes = [run(db, operation, effects, place) for place, operation in enumerate(batch)]
        _write_totals(db, effects)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return outcomes, effects


def _run_plainly(db: sqlite3.Connection, operation: Operation, effects: Effects, place: int) -> object:
    effects.now = operation.now
    try:
        return complete(lambda db: operation.work(db, effects), db)
    except Exception as error:
        raise _Failed(error) from error


def _run_guarded(db: sqlite3.Connection, operation: Operation, effects: Effects, place: int) -> object:
    effects.now = operation.now
    before = len(effects.changes)
    db.execute("SAVEPOINT operation")
    try:
        outcome: object = complete(lambda db: operation.work(db, effects), db)
    except Exception as error:
        if not db.in_transaction:
            raise _RolledBack(place, error) from error
        db.execute("ROLLBACK TO operation")
        db.execute("RELEASE operation")
        del effects.changes[before:]
        return _reason(error)
    db.execute("RELEASE operation")
    return outcome


def _reason(error: Exception) -> Exception:
    """What an operation that failed answers."""
    return storage_error(error) if isinstance(error, sqlite3.Error | OSError) else error


def _write_totals(db: sqlite3.Connection, effects: Effects) -> None:
    totals = effects.totals()
    _for_each(
        db,
        "INSERT INTO counters (status, class, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
        [(*key, n) for key, n in totals[Sum.COUNT].items() if n],
    )
    _for_each(
        db,
        "INSERT INTO tallies (name, n) VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
        list(totals[Sum.TALLY].items()),
    )
    waiting = totals[Sum.WAITING]
    _for_each(
        db,
        """INSERT INTO destinations (destination, waiting, last_reply) VALUES (?, ?, ?) ON CONFLICT DO UPDATE
        SET waiting = waiting + excluded.waiting, last_reply = coalesce(excluded.last_reply, last_reply)""",
        [(name, waiting.get(name, 0), effects.replies.get(name)) for name in waiting.keys() | effects.replies.keys()],
    )
    unfinished, waiting_of = totals[Sum.UNFINISHED_OF], totals[Sum.WAITING_OF]
    _for_each(
        db,
        """UPDATE messages SET unfinished = unfinished + ?1, waiting = waiting + ?2,
        finished_at = CASE WHEN unfinished + ?1 > 0 THEN NULL ELSE coalesce(finished_at, ?3) END WHERE id = ?4""",
        [
            (unfinished.get(message, 0), waiting_of.get(message, 0), effects.now, message)
            for message in unfinished.keys() | waiting_of.keys()
        ],
    )


def _for_each(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:  # most sums of most batches are empty, and a statement for no row costs as much as one
        db.executemany(statement, rows)
