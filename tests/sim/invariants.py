"""What must hold whatever goes wrong: each promise a few lines, with its name.

Rules: the first group is looked at as things happen, the second whenever the daemon is down, the third at the end, when
all that can heal has healed. A promise is about what a program, a receiver or an administrator sees.
"""

import re
import sqlite3
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mta.doorbell import Lane
from mta.model.events import Fact, Trouble
from mta.policy.ceilings import RAISED_AFTER
from tests.sim.history import LONGEST, History
from tests.sim.ledger import Copy, Ledger, Submission, Told, address, body
from tests.sim.loop import GRAIN
from tests.sim.remote import ConnectionLimiting, Taken
from tests.sim.scenario import EPOCH, ClockStep, DiskTrouble, DomainPlan, Email, Outage, Scenario, Settings
from tests.spool import invariants as at_rest

_PROGRAMS = re.compile(r"m\d+\.\d+@")
ON_THE_WAY = 12.0
"""Seconds that a MAIL command may be on its way, and wait at a server."""
DECIDED = 30.0
"""Seconds from when it is decided how a session is encrypted until it is there, or found."""
CONNECT = 30.0
"""Seconds that a host without an answer takes (`delivery.timeouts.connect`)."""
STUCK = 900.0
"""Seconds that a bad disk may keep a result from being recorded."""
LESSONS = 4
"""How often in an hour the same may have to be learned."""
_STORAGE = ("SpoolError", "SpoolFull", "the spool", "no space")


@dataclass(frozen=True, slots=True)
class Violation:
    """`name` is the promise that was broken, the same for each way to break it."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True, slots=True)
class Learned:
    """How many sessions a server bears, as the daemon has it on its disk; instants in seconds from the start."""

    sessions: int
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """`what` waits since `at`, wall time, for nothing that is known; `promise` says that it need not."""

    promise: str
    what: str
    at: float


# ---------------------------------------------------------------- as things happen
def of_copy(copy: Copy, email: Email | None, earlier: Sequence[Copy], touched: set[str]) -> Iterator[Violation]:
    """A server took a program's mail; `earlier` are the copies for this recipient before it."""
    taken = copy.taken
    if email is None or copy.recipient not in {address(email, *it) for it in email.recipients}:
        yield Violation("nobody gets another's mail", f"{copy.recipient} got email {email.number if email else '?'}")
        return
    if taken.reverse_path != email.sender:
        yield Violation("the sender stays", f"{copy.recipient}: {taken.reverse_path!r} instead of {email.sender!r}")
    if taken.content.partition(b"\r\n\r\n")[2] != body(email.number, email.size):
        yield Violation("the content arrives as it was", f"{copy.recipient}, {len(taken.content)} octets")
    same = [it for it in earlier if email.key or it.n == copy.n]
    if same and copy.doubts <= same[-1].doubts and not touched & {"resolve", "resend"}:
        what = "key" if email.key else "submission"
        name = f"no {what} is sent twice, unless in doubt"
        yield Violation(name, f"{copy.recipient} at {same[-1].taken.at:.3f} and {taken.at:.3f} (id {copy.queue_id})")
    if "resend" not in touched and any(it.taken.content != taken.content for it in same if it.queue_id == copy.queue_id):
        yield Violation("a doubt is sent again with the same octets", copy.recipient)


def of_times(
    copy: Copy, email: Email, one: Submission, touched: set[str], scenario: Scenario, began: float
) -> Iterator[Violation]:
    """`one` is the submission that was sent, `began` the loop's time at the start. Where nobody sets the clock."""
    if _clock_is_set(scenario):
        return
    late = copy.taken.mail_at - began > one.at + email.deliver_by + ON_THE_WAY
    if email.by in ("header", "R") and late and "resend" not in touched:
        yield Violation("nothing is sent after its deadline", f"{copy.recipient} at {copy.taken.mail_at - began:.3f}")
    if email.hold and copy.taken.at - began < one.at + email.release - 1 and not touched & {"retry", "resolve", "resend"}:
        yield Violation("nothing is sent before its release", f"{copy.recipient} at {copy.taken.at - began:.3f}")


def of_doubts(
    copy: Copy, email: Email, doubted: Sequence[float], touched: set[str], scenario: Scenario, history: History, began: float
) -> Iterator[Violation]:
    """`doubted`: when it was said to be in doubt before, in seconds from the start."""
    if doubted and not email.by and not touched & {"retry", "resolve", "resend"} and not _clock_is_set(scenario):
        # where there is a deadline, it rests for less
        rested = copy.taken.mail_at - began - doubted[-1] + _recorded_late(doubted[-1], scenario)
        if rested < min(it.in_doubt_delay for it in history.during(doubted[-1] - STUCK, inf)) - 1:
            yield Violation("a doubt rests before it is sent again", f"{copy.recipient} ({copy.queue_id}): {rested:.1f} s")
    held = any(_doubt_policies(email.in_doubt, at, scenario, history) == {"hold"} for at in doubted)
    if held and not touched & {"resolve", "resend"}:
        yield Violation("a doubt that waits for a person is not sent again", f"{copy.recipient} ({copy.queue_id})")


def _recorded_late(at: float, scenario: Scenario) -> float:
    """For how many seconds a bad disk may have kept what was recorded at `at` from being so."""
    disks = (it for it in scenario.faults if isinstance(it, DiskTrouble))
    return STUCK if any(it.at <= at < it.until + STUCK for it in disks) else 0.0


def _clock_is_set(scenario: Scenario) -> bool:
    return any(isinstance(it, ClockStep) for it in scenario.faults)


def _doubt_policies(order: str, at: float, scenario: Scenario, history: History) -> set[str]:
    """That by which a doubt which was recorded at `at` rests or waits: its message's own, else the configuration's when it
    arose; several where that can't be told."""
    if order:
        return {order}
    since, until = (0.0, inf) if _clock_is_set(scenario) else (at - STUCK, at + GRAIN)
    return {it.in_doubt for it in history.during(since, until)}


def of_fact(fact: Fact, disk_is_well: bool) -> Iterator[Violation]:
    if not isinstance(fact, Trouble) or fact.severity not in ("error", "warning"):
        return
    storage = any(word in f"{fact.what} {fact.detail}" for word in _STORAGE)
    if fact.severity == "error" and (disk_is_well or not storage):
        yield Violation("nothing fails inside", f"{fact.what}: {fact.detail}")
    if fact.what.startswith("deliveries ended without a result"):
        yield Violation("every delivery ends with a result", fact.detail)


def of_sessions(
    domain: str, open_now: int, in_all: int, scenario: Scenario, history: History
) -> Iterator[Violation]:
    """After a connection to `domain` was begun: none is by a destination's cap of before, as idle ones make room. In all
    there may still be those that were open when the caps were lowered."""
    lately, plan = history.lately, scenario.domain(domain)
    if open_now > max(it.cap(plan) for it in history.now):
        yield Violation("a destination's sessions are capped", f"{open_now} connections to {domain}")
    if in_all > max(it.max_sessions + it.max_sessions_per_destination * len(scenario.domains) for it in lately):
        yield Violation("all sessions are capped", f"{in_all} connections")


def of_turn(destination: str, there: int, in_all: int, scenario: Scenario, history: History) -> Iterator[Violation]:
    """When one begins, so many run, it among them. An open session serves one turn after the other: it does not end, nor is
    another one begun, where a cap that was lowered is not kept. What goes by the relay has the relay's limits; what was
    begun by another route than now's counts there."""
    plan, by_relay = scenario.domain(destination), destination in scenario.by_relay
    rerouted = by_relay and len({it.relayed for it in history.lately}) > 1
    if not rerouted and there > max(it.cap(None if by_relay and it.relayed else plan) for it in history.now):
        yield Violation("a destination's sessions are capped", f"{there} at work for {destination}")
    if in_all > max(it.max_sessions for it in history.now):
        yield Violation("all sessions are capped", f"{in_all} at work")


def of_route(taken: Taken, scenario: Scenario, history: History) -> Iterator[Violation]:
    """The relay gets what is to go there, also what was begun before a reload. Beyond it stand the domains' own servers."""
    if scenario.relay is not None and taken.domain == scenario.relay.name:
        meant = {path.rpartition("@")[2] for path in taken.forward_paths}
        if not (meant <= set(scenario.by_relay) and any(it.relayed for it in history.lately)):
            yield Violation("mail goes by its route", f"the relay took mail for {', '.join(sorted(meant))}")


def of_encryption(taken: Taken, domain: DomainPlan, history: History, began: float) -> Iterator[Violation]:
    """A reload may ask for it: of whoever finds a connection after it, however that was opened."""
    since = taken.free_at - began - DECIDED - CONNECT * len(domain.hosts)
    asked = domain.dane or all(it.of(domain).tls == "encrypt" for it in history.during(since, inf))
    if asked and not taken.encrypted:
        yield Violation("what needs TLS is never sent in clear", f"{taken.host} took mail in clear")


def of_rate(times: Sequence[float], domain: DomainPlan, scenario: Scenario, history: History) -> Iterator[Violation]:
    """`times` are when mail of the domain was taken, over all runs of the daemon. Where nobody sets the clock. Of several
    rates the quickest counts, with the greatest burst: what was begun before a reload may be taken after it. Hosts that do
    not answer hold up what was begun."""
    if _clock_is_set(scenario):
        return
    on_the_way = ON_THE_WAY + CONNECT * (len(domain.hosts) - 1)
    for count, since in enumerate(reversed(times[-100:]), 1):
        limits = [it.of(domain) for it in history.during(since - LONGEST, inf)]
        if not all(it.rate for it in limits):
            return
        quickest = max(_per_second(it.rate) for it in limits)
        allowed = max(it.burst for it in limits) + quickest * (times[-1] - since + on_the_way)
        if count > allowed + 1:
            yield Violation("a rate is kept", f"{domain.name}: {count} messages in {times[-1] - since:.1f} s")


def _per_second(rate: str) -> float:
    amount, _, period = rate.partition("/")
    return int(amount) / {"1m": 60.0, "10m": 600.0}[period]


def of_learned(
    domain: str, open_now: int, learned: Sequence[Learned], now: float, scenario: Scenario
) -> Iterator[Violation]:
    """After a connection to `domain` was begun. What is written down holds for this run and for each later one, until it
    expires; one more is tried for each hour (`policy.ceilings`). Where nobody sets the clock."""
    if _clock_is_set(scenario):
        return
    for it in learned:
        allowed = it.sessions + (now - it.since) // RAISED_AFTER
        if it.since + ON_THE_WAY < now < it.until and open_now > allowed:
            yield Violation("a limit that was learned is kept", f"{open_now} connections to {domain} instead of {allowed:g}")


def of_crowds(times: Sequence[float], domain: DomainPlan, settings: Sequence[Settings]) -> Iterator[Violation]:
    """`times` are when one server that bears `ConnectionLimiting.LIMIT` connections turned away one run of the daemon for
    having more. Whoever is one too many is turned away once, then it is learned, as soon as another session gets through;
    an hour later one more is tried. The lesson may have to be had again where nobody gets through (TLS that hangs, lines
    that break): not more than `LESSONS` times an hour, of what the cap was in it."""
    most = max(it.cap(domain) for it in settings)
    bound = LESSONS * max(0, most - ConnectionLimiting.LIMIT)
    lately = sum(it > times[-1] - RAISED_AFTER for it in times)
    if lately > bound:
        yield Violation("a server that turns us away teaches", f"{domain.name} did so {lately} times in an hour")


def of_turns(waiting: str, passed: Counter[str], lately: Sequence[Settings]) -> Iterator[Violation]:
    """While something was due at `waiting`, which neither rested nor had a session, others had their turns. Those that
    had begun before a reload are had by the caps of before."""
    for other, turns in passed.items():
        if turns > max(it.max_sessions for it in lately) + 5:
            yield Violation("no destination starves", f"{waiting} waited while {other} had {turns} turns")


def of_urgent(waiting: str, lower: int, turns: int, lately: Sequence[Settings]) -> Iterator[Violation]:
    """While urgent mail for `waiting` was due, and its destination did not rest, so many of the `turns` that could have been
    its own were of other classes. Those are owed their shares, and each session may have begun its turn before,
    by the caps of before a reload too."""
    if lower > max(it.max_sessions for it in lately) + 6 + 2 * max(it.bulk_share for it in lately) * turns:
        yield Violation("urgent mail goes first", f"to {waiting} it waited for {lower} turns of other classes")


def of_shares(waiting: Lane, turns: int, lately: Sequence[Settings]) -> Iterator[Violation]:
    """While mail of a lower class waited at a destination, others had so many turns there: with each of them it earns its
    share of one, and sessions that were at work before may end first."""
    least = min(it.bulk_share for it in lately)
    if least and turns > 1 / least + 2 * max(it.max_sessions_per_destination for it in lately) + 2:
        yield Violation("each class has its share", f"{waiting[1].label} mail for {waiting[0]} waited for {turns} turns")


def of_idleness(waiting: Iterable[Waiting]) -> Iterator[Violation]:
    """It did so at two looks, with nothing in its way at either."""
    for it in sorted(waiting, key=lambda it: it.at):
        yield Violation(it.promise, f"{it.what}, since {it.at - EPOCH:.3f}")


def of_tasks(count: int, lately: Sequence[Settings]) -> Iterator[Violation]:
    """Whoever was connected when a cap was lowered ends in peace."""
    limit = max(120 + 4 * it.max_sessions + 2 * it.max_connections for it in lately)  # deadlines are kept fifty at a time
    if count > limit:
        yield Violation("tasks are bounded", f"{count} of at most {limit}")


# ---------------------------------------------------------------- at rest
def at_rest_in(path: Path) -> Iterator[Violation]:
    """The daemon is down, or just coming up: the spool's counts are those of its rows."""
    if not path.exists():
        return
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        house: Any = SimpleNamespace(ask=lambda statement: db.execute(statement).fetchall())
        try:
            at_rest.check(house)
        except AssertionError as error:
            where = traceback.extract_tb(error.__traceback__)[-1].line
            yield Violation("the spool is consistent", f"{where}: {error}"[:500])
    db.close()


# ---------------------------------------------------------------- at the end
@dataclass(frozen=True, slots=True)
class Row:
    queue_id: str
    kind: str
    sender: str
    recipient: str
    status: str
    bounced: int
    doubts: int
    doubt_order: str
    expires_at: float
    not_before: float | None
    by_server: int
    """Whether its last reply is a server's."""
    failed_dsns: int
    """How often its timeline says that its sender was told of its failure."""
    notify: str
    doubted_at: float
    """When it was last said to be in doubt; 0 for never."""


_ROWS = """SELECT m.queue_id, m.kind, m.reverse_path, r.address, r.status, r.bounced, r.doubts, m.doubt_order,
    m.expires_at, m.not_before, r.reply_code IS NOT NULL,
    (SELECT count(*) FROM timeline t WHERE t.message = m.id AND t.recipient = r.address AND t.event = 'bounced'
    AND t.detail LIKE '%"failed"%'), r.notify,
    (SELECT coalesce(max(t.at), 0) FROM timeline t WHERE t.message = m.id AND t.recipient = r.address
    AND t.event = 'in_doubt') FROM recipients r JOIN messages m ON m.id = r.id >> 20"""


def at_the_end(path: Path, ledger: Ledger, scenario: Scenario, history: History, now: float) -> Iterator[Violation]:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        rows = [Row(*row) for row in db.execute(_ROWS)]
        untold = db.execute("SELECT kind, count(*) FROM notices GROUP BY 1").fetchall()
    db.close()
    by_id: dict[str, list[Row]] = {}
    for row in rows:
        by_id.setdefault(row.queue_id, []).append(row)
    yield from _nothing_lost(ledger, by_id)
    yield from _refused_is_not_sent(ledger)
    yield from _one_email_for_a_key(ledger)
    yield from _taken_if_in_order(ledger)
    for row in rows:
        yield from _ends_well(row, ledger, scenario, history, now)
    if untold:
        yield Violation("what is to be told is told", f"{untold}")


def _nothing_lost(ledger: Ledger, by_id: dict[str, list[Row]]) -> Iterator[Violation]:
    for submissions in ledger.submissions.values():
        for one in submissions:
            if one.told is not Told.YES:
                continue
            email = one.email
            there = {it.recipient for it in by_id.get(one.queue_id, ())}
            if missing := {address(email, *it) for it in email.recipients} - there:
                yield Violation("what was acknowledged is not lost", f"{one.queue_id or email.number}: {sorted(missing)}")


def _refused_is_not_sent(ledger: Ledger) -> Iterator[Violation]:
    for copies in ledger.copies.values():
        for copy in copies:
            number = int(copy.recipient[1:].partition(".")[0])
            one = ledger.submissions[number][copy.n]
            if one.told in (Told.NO, Told.BROKEN_OFF) and not one.email.key:
                what = f"{copy.recipient}, submission {copy.n}: {one.told} {one.code}"
                yield Violation("what was refused is not sent", what)


def _taken_if_in_order(ledger: Ledger) -> Iterator[Violation]:
    """All that programs submit is in order; a key whose email has ended unsent has to be another one (554)."""
    for submissions in ledger.submissions.values():
        for one in submissions:
            if one.told is Told.NO and one.code >= 500 and not (one.email.key and one.code == 554):
                yield Violation("what is in order is not refused for good", f"{one.email.number}.{one.n}: {one.code}")


def _one_email_for_a_key(ledger: Ledger) -> Iterator[Violation]:
    """Whoever submits it again hears of the first one."""
    for number, submissions in ledger.submissions.items():
        found = {it.queue_id for it in submissions if it.told is Told.YES and it.email.key}
        if len(found) > 1 and "resend" not in ledger.touched.get(number, set()):
            yield Violation("a key is one email's", f"{number}: {', '.join(sorted(found))}")


def _ends_well(row: Row, ledger: Ledger, scenario: Scenario, history: History, now: float) -> Iterator[Violation]:
    is_programs = row.kind == "mail"
    number = int(row.recipient[1:].partition(".")[0]) if _PROGRAMS.match(row.recipient) else -1
    touched = ledger.touched.get(number, set()) if is_programs else set()
    who = f"{row.recipient} ({row.queue_id}, {row.kind}) is {row.status}"
    if row.failed_dsns > 1 or (row.kind != "mail" and row.bounced):
        yield Violation("one bounce at most, none about a bounce", f"{who}, with {row.failed_dsns} bounces")
    was_taken = any(it.queue_id == row.queue_id for it in ledger.copies.get(row.recipient, ()))
    unsent = row.status in ("failed", "dead", "cancelled") and not row.doubts and not touched & {"resolve", "resend"}
    if unsent and was_taken:
        yield Violation("what a server took is sent, or in doubt", who)
    match row.status:
        case "sent":
            if is_programs and not was_taken and not touched & {"resolve", "resend"}:
                yield Violation("sent means that a server took it", who)
        case "failed" if row.by_server and not {row.recipient, row.recipient.rpartition("@")[2]} & ledger.refused:
            yield Violation("failed means that a server refused it", who)
        case "failed" | "dead":
            told = row.failed_dsns == (not row.notify or "FAILURE" in row.notify)
            if is_programs and row.sender and not told and not touched:
                yield Violation("every failure is reported", f"{who}, with {row.failed_dsns} bounces")
        case "held" | "cancelled":
            if not touched:
                yield Violation("only persons hold and cancel", who)
        case "in_doubt" if "hold" in _doubt_policies(row.doubt_order, row.doubted_at - EPOCH, scenario, history):
            pass
        case "pending" if (row.not_before or 0) > now:  # the clock was set back
            pass
        case _:
            domain = next((it for it in scenario.domains if row.recipient.endswith("@" + it.name)), None)
            if domain is None or not _never_well(domain, scenario) or now > row.expires_at + 2 * 86400:
                yield Violation("when all is well again, everything drains", who)


def _never_well(domain: DomainPlan, scenario: Scenario) -> bool:
    hosts = {it.name for it in domain.hosts}
    outages = (it for it in scenario.faults if isinstance(it, Outage))
    return domain.until is None or any(it.until is None and it.host in hosts for it in outages)


def first(violations: Iterable[Violation]) -> Violation | None:
    return next(iter(violations), None)
