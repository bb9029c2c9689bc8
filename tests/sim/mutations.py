"""Protections of the product, each of which can be switched off: a simulation that does not miss it would prove nothing.

Rules: a mutation takes away one protection with all its layers, and nothing else; it says which promises are to break
(names of `tests.sim.invariants`). It holds in this process, while its context lasts.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from msgspec import structs

from mta.delivery import results
from mta.doorbell import Doorbell
from mta.listener import conversation
from mta.listener.conversation import Conversation
from mta.listener.protocol import SubmissionSession
from mta.model.envelope import Kind, NewMessage, Notice
from mta.model.outcome import Observation, Phase, Seen
from mta.policy import lanes, schedule
from mta.policy.agenda import Agenda, Turn
from mta.policy.ceilings import Ceilings
from mta.policy.lanes import Counts, LaneRules, Order, Turns, Waiting
from mta.reports.drafts import Draft
from mta.reports.stage import Reports
from mta.scheduler import Scheduler
from mta.smtp.inbox import Inbox
from mta.smtp.replies import Answer, observation
from mta.smtp.session import SmtpSession
from mta.spool import keys, outcome, schema
from mta.spool.base import RecipientResult, Settled, Settlement
from mta.spool.batch import Effects
from mta.spool.claims import Claims
from mta.spool.marks import mark, next_step
from mta.spool.rows import RecipientRow, recipient, save
from mta.spool.sqlite import SqliteSpool

TWICE = ("no key is sent twice, unless in doubt", "no submission is sent twice, unless in doubt")


@dataclass(frozen=True, slots=True)
class Mutation:
    """`promises` are those that break without the protection."""

    name: str
    promises: tuple[str, ...]
    off: Callable[[], AbstractContextManager[None]]


MUTATIONS: dict[str, Mutation] = {}


def breaks(*promises: str) -> Callable[[Callable[[], Iterator[None]]], Callable[[], AbstractContextManager[None]]]:
    """Enters a mutation into `MUTATIONS`, by its function's name in words."""

    def enter(body: Callable[[], Iterator[None]]) -> Callable[[], AbstractContextManager[None]]:
        name = body.__name__.replace("_", " ")
        MUTATIONS[name] = Mutation(name, promises, contextmanager(body))
        return MUTATIONS[name].off

    return enter


# ---------------------------------------------------------------- the spool
@breaks(*TWICE)
def in_doubt_mark() -> Iterator[None]:
    """The final dot goes out without a mark: who crashes behind it knows of no doubt."""

    async def nothing(*_: object) -> None:
        pass

    with patch.object(SqliteSpool, "mark_in_doubt", nothing):
        yield


@breaks("no key is sent twice, unless in doubt")
def key_index() -> Iterator[None]:
    """An email's key is not looked for when it is accepted, and the index of keys is not unique."""
    earlier, made = keys.earlier, schema.MIGRATIONS

    def unknown(db: sqlite3.Connection, effects: Effects, busy: Collection[int], new: NewMessage) -> Any:
        return None if new.key else earlier(db, effects, busy, new)

    def loosened(statement: str) -> str:
        return statement.replace("CREATE UNIQUE INDEX messages_by_key", "CREATE INDEX messages_by_key")

    loose = tuple(tuple(map(loosened, version)) for version in made)
    assert loose != made
    with patch.object(keys, "earlier", unknown), patch.object(schema, "MIGRATIONS", loose):
        yield


@breaks("the spool is consistent")
def atomic_settlement() -> Iterator[None]:
    """A settlement's rows are committed first; counts, and what is known of the message as a whole, afterwards."""

    async def settle(self: SqliteSpool, settlement: Settlement, now: float) -> tuple[Settled, ...]:
        later = Effects(now)
        settled = await self._commits.run(lambda db, _: outcome.settle(db, later, self._claims, settlement), now)
        await self._commits.run(lambda _, effects: _add(effects, later), now)
        return settled

    with patch.object(SqliteSpool, "settle", settle):
        yield


def _add(effects: Effects, more: Effects) -> None:
    effects.changes += more.changes
    effects.replies |= more.replies
    for (destination, mail_class), at in more.due.items():
        effects.ring(destination, at, mail_class)
    effects.deadlines |= more.deadlines
    effects.notices |= more.notices
    effects.ended |= more.ended


@breaks("every failure is reported")
def report_mark_in_settlement() -> Iterator[None]:
    """What is to be told is written down after the commit that settles it."""

    async def settle(self: SqliteSpool, settlement: Settlement, now: float) -> tuple[Settled, ...]:
        quiet = tuple(structs.replace(it, notices=()) for it in settlement.results)
        settled = await unmarked(self, structs.replace(settlement, results=quiet), now)
        if any(it.notices for it in settlement.results):
            await self._commits.run(partial(_mark, results=settlement.results, settled=settled), now)
        return settled

    unmarked = SqliteSpool.settle
    with patch.object(SqliteSpool, "settle", settle):
        yield


def _mark(db: sqlite3.Connection, effects: Effects, results: Sequence[RecipientResult], settled: Sequence[Settled]) -> None:
    step, still = next_step(db), {it.recipient_id: it.status for it in settled}
    for result in results:
        row = recipient(db, result.recipient_id)
        if row is not None and row.status == still.get(row.id):
            mark(db, effects, row, result.notices, result.reply, host=result.host, phase=result.phase, step=step)
            save(db, row)


@breaks(*TWICE, "nothing fails inside")
def claim_check() -> Iterator[None]:
    """A recipient that is claimed is found once more by whoever looks for what is due; the second of two sessions sends
    it too, or finds that it is sent already."""
    with patch.object(Claims, "busy", lambda self, destination: ()):
        yield


@breaks("what is due begins")
def ring_of_what_is_due() -> Iterator[None]:
    """No commit tells the scheduler what it made due: that is found at the next look, a quarter of an hour later."""
    with patch.object(Doorbell, "ring_delivery", lambda *_: None):
        yield


@breaks("what has passed its deadline ends")
def ring_of_deadlines() -> Iterator[None]:
    with patch.object(Doorbell, "ring_deadlines", lambda *_: None):
        yield


@breaks("a sender is told at once")
def ring_of_notices() -> Iterator[None]:
    with patch.object(Doorbell, "ring_notices", lambda *_: None):
        yield


# ---------------------------------------------------------------- the listener
@breaks("what was refused is not sent")
def shield_of_the_accepting_commit() -> Iterator[None]:
    """A client that hangs up, the timer and a stop end a session whatever it is at, also while its commit runs."""
    lost = SubmissionSession.connection_lost

    def connection_lost(self: SubmissionSession, error: Exception | None) -> None:
        lost(self, error)
        if self.task is not None:
            self.task.cancel()

    def begin(self: SubmissionSession, commits: bool) -> None:
        self._receives_content &= not commits

    unshielded = property(lambda self: False, begin)
    with (
        patch.object(SubmissionSession, "connection_lost", connection_lost),
        patch.object(SubmissionSession, "_commits", unshielded, create=True),
    ):
        yield


@breaks("what is in order is not refused for good")
def rset_handling() -> Iterator[None]:
    """RSET is answered, and the transaction stays as it was."""
    with patch.dict(conversation._COMMANDS, {"RSET": Conversation._noop}):
        yield


# ---------------------------------------------------------------- delivery
@breaks("no destination starves")
def fairness_between_destinations() -> Iterator[None]:
    """Whoever was served last is served next: each line is a stack."""
    begin = Agenda.begin

    def begin_with_the_last(self: Agenda, now: float) -> Turn | None:
        for line in self._lines:
            if line:
                line.move_to_end(next(reversed(line)), last=False)
        return begin(self, now)

    with patch.object(Agenda, "begin", begin_with_the_last):
        yield


@breaks("urgent mail goes first")
def lanes_of_urgent_mail() -> Iterator[None]:
    """No session is for urgent mail alone, and the lowest class gets the next free one."""
    real = lanes.order

    def order(rules: LaneRules, cap: int, running: Counts, waiting: Waiting, turns: Turns) -> Order:
        return Order(real(structs.replace(rules, urgent_reserve=0.0), cap, running, waiting, turns).classes[::-1])

    with patch.object(lanes, "order", order):
        yield


@breaks("each class has its share")
def shares_of_lower_classes() -> Iterator[None]:
    """The highest class that waits goes first, whatever the others have earned."""
    with patch.object(lanes, "_is_owed", lambda *_: False):
        yield


@breaks("a server that turns us away teaches")
def learning_of_limits() -> Iterator[None]:
    """What a server says of too many connections is a failure like others."""
    with patch.object(Ceilings, "refused", lambda *_: None):
        yield


@breaks("a limit that was learned is kept")
def memory_of_limits() -> Iterator[None]:
    """What was learned is written down, and not read by the next run."""
    with patch.object(Ceilings, "recalled", lambda *_: None):
        yield


@breaks("a destination's sessions are capped")
def reload_of_limits() -> Iterator[None]:
    """The scheduler's limits stay as they were at the start."""
    with patch.object(Scheduler, "reconfigure", lambda *_: None):
        yield


@breaks("nothing is sent after its deadline")
def deadline() -> Iterator[None]:
    """A message's deadline is not kept with it."""
    with _accepted_without(deliver_by=None):
        yield


@breaks("nothing is sent before its release")
def release() -> Iterator[None]:
    """A message that is for later is due at once."""
    with _accepted_without(not_before=None):
        yield


@contextmanager
def _accepted_without(**fields: None) -> Iterator[None]:
    accept = SqliteSpool.accept

    async def forgetful(self: SqliteSpool, message: NewMessage, content: Any, now: float) -> Any:
        return await accept(self, structs.replace(message, **fields), content, now)

    with patch.object(SqliteSpool, "accept", forgetful):
        yield


@breaks("an attempt comes as its schedule has it")
def schedule_of_attempts() -> Iterator[None]:
    """A wait does not grow from attempt to attempt."""
    real = schedule.interval
    with patch.object(schedule, "interval", lambda policy, _, chance: real(policy, 1, chance)):
        yield


@breaks("failed means that a server refused it")
def session_discard_after_a_timeout() -> Iterator[None]:
    """A reply that did not come in time is forgotten and the session used again, as if it were a new one (the pool keeps
    none for as long as a timeout takes): a reply that comes late is the next command's."""
    heard, observed = Inbox.answer, SmtpSession._observed

    async def answer(self: Inbox, timeout: float) -> Answer:
        found = await heard(self, timeout)
        self._owed -= found.seen is Seen.TIMEOUT
        return found

    def observe(self: SmtpSession, phase: Phase, found: Answer) -> Observation:
        if found.seen is not Seen.TIMEOUT:
            return observed(self, phase, found)
        self.opened_at = asyncio.get_running_loop().time()
        return observation(phase, found)

    with (
        patch.object(Inbox, "answer", answer),
        patch.object(Inbox, "surplus", False),
        patch.object(SmtpSession, "_observed", observe),
    ):
        yield


# ---------------------------------------------------------------- reports
@breaks("one bounce at most, none about a bounce")
def dsn_loop_check() -> Iterator[None]:
    """What fails is told to its sender, whatever it is and whoever that is: a DSN has a sender, the postmaster, and null
    paths are no reason against one."""
    told, held, composed = results.notices_for, outcome._held_doubt, Reports._mail

    def notices_for(kind: Kind, reverse_path: str, *args: Any, **named: Any) -> tuple[Notice, ...]:
        return told(Kind.MAIL if kind is Kind.DSN else kind, reverse_path or "<>", *args, **named)

    def held_doubt(row: RecipientRow, alerts: tuple[Notice, ...]) -> tuple[Notice, ...]:
        own = row.kind in (Kind.REPORT, Kind.ALERT)
        return held(row, alerts) if own else (Notice.DSN_DOUBT, *alerts)

    def mail(self: Reports, draft: Draft) -> Any:
        made = composed(self, draft)
        return replace(made, message=structs.replace(made.message, reverse_path=self._settings.postmaster or ""))

    with (
        patch.object(results, "notices_for", notices_for),
        patch.object(outcome, "_held_doubt", held_doubt),
        patch.object(Reports, "_mail", mail),
    ):
        yield
