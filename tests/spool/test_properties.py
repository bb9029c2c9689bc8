"""Any sequence of verbs keeps the counts true, changes statuses only as the lifecycle allows, and claims nobody twice."""

import asyncio
import contextlib
import json
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from mta.model.envelope import ByMode, DeliverBy, Kind, MailClass, Notice
from mta.model.lifecycle import TRANSITIONS, Event
from mta.spool.base import Claim, RecipientResult, Selection, Settlement, SpoolError, SpoolRefusal
from mta.spool.connection import connect_inline
from mta.spool.sqlite import SqliteSpool
from tests.spool.house import House
from tests.spool.invariants import check
from tests.spool.making import CONTENT, LATER, NOW, message, put, queue_id

RESULTS = [Event.DELIVERED, Event.DEFERRED, Event.DOUBTED, Event.REFUSED, Event.GAVE_UP]
ORDERS = [Event.RETRY, Event.HOLD, Event.RELEASE, Event.CANCEL, Event.RESOLVE_SENT, Event.RESOLVE_RESEND]
DOMAINS = ["a.example", "b.example"]
STEPS = {(before.value, after.value) for (before, _), after in TRANSITIONS.items()}
STEPS |= {("held", "pending"), ("held", "in_doubt"), ("in_doubt", "pending")}  # release; a mark undone


def reachable(before: object, after: object) -> bool:
    """Whether one verb may do it: it is at most a mark, a result and an order."""
    found = {before}
    for _ in range(3):
        found |= {later for earlier, later in STEPS if earlier in found}
    return after in found


class Run:
    """A spool, what is claimed of it, and one verb after another, each followed by a look at the file."""

    def __init__(self, house: House, spool: SqliteSpool, chance: random.Random) -> None:
        self.house, self.spool, self.chance = house, spool, chance
        self.claims: list[Claim] = []
        self.last = 0
        self.now = NOW
        self.statuses: dict[object, object] = {}

    async def accept(self) -> None:
        self.last += 1
        people = [f"u{n}@{self.chance.choice(DOMAINS)}" for n in range(self.chance.randint(1, 4))]
        by = DeliverBy(self.now + self.chance.choice([30, 3600, 90000]), self.chance.choice(list(ByMode)))
        new = message(
            self.last, people, mail_class=self.chance.choice(list(MailClass)), kind=self.chance.choice(list(Kind)),
            sender=self.chance.choice(["", "shop@example.com"]), by=self.chance.choice([by, None]),
            not_before=self.chance.choice([None, None, self.now + 20]),
        )  # fmt: skip
        await put(self.spool, new, now=self.now)

    async def claim(self) -> None:
        search = self.chance.choice([self.spool.claim, self.spool.claim, self.spool.claim_overdue, None])
        limit = self.chance.randint(1, 3)
        if search is None:
            claim = await self.spool.claim_expired(limit, self.now)
        else:
            claim = await search(self.chance.choice(DOMAINS), limit, self.now)
        if claim:
            by = claim.deliver_by
            assert (search is None) <= (by is not None and by.at <= self.now)
            assert by is None or not by.fails or (search is None) == (by.at <= self.now)
            assert search != self.spool.claim or await self.spool.next_due(
                claim.destination, self.now, [claim.mail_class]
            ) == claim.following
            taken = {one.id for other in self.claims for one in other.recipients}
            assert claim.recipients
            assert taken.isdisjoint(one.id for one in claim.recipients)
            self.claims.append(claim)

    async def mark(self) -> None:
        if self.claims:
            claim = self.chance.choice(self.claims)
            ids = [one.id for one in claim.recipients if self.chance.random() < 0.8]
            with contextlib.suppress(SpoolError):  # one was ended by a person: the dot is not sent
                await self.spool.mark_in_doubt(claim, ids, "mx", "192.0.2.1", self.now)

    async def settle(self) -> None:
        if self.claims:
            claim = self.claims.pop(self.chance.randrange(len(self.claims)))
            results = [self.result(one.id) for one in claim.recipients if self.chance.random() < 0.8]
            await self.spool.settle(Settlement(claim, tuple(results)), self.now)

    def result(self, recipient_id: int) -> RecipientResult:
        event = self.chance.choice(RESULTS)
        next_at = self.now + self.chance.choice([0, 60, 86400]) if event in RESULTS[1:3] else None
        if event is Event.DOUBTED and self.chance.random() < 0.5:
            next_at = None
        counted = event is not Event.DEFERRED or self.chance.random() < 0.7
        notices = tuple(notice for notice in Notice if self.chance.random() < 0.4)
        return RecipientResult(recipient_id, event, LATER, next_at, counted, "final", "mx", notices=notices)

    async def release(self) -> None:
        if self.claims:
            await self.spool.release(self.claims.pop(), self.now)

    async def order(self) -> None:
        names = tuple(queue_id(self.chance.randint(1, self.last + 1)) for _ in range(self.chance.randint(1, 2)))
        with contextlib.suppress(SpoolRefusal):
            await self.spool.order(self.chance.choice(ORDERS), Selection(names), self.now)

    async def retry_all(self) -> None:
        await self.spool.order(Event.RETRY, Selection(destination=self.chance.choice([*DOMAINS, ""])), self.now)

    async def hold(self) -> None:
        with contextlib.suppress(SpoolRefusal):
            await self.spool.standing_hold(self.chance.choice([*DOMAINS, "*"]), self.chance.random() < 0.4, self.now)

    async def quarantine(self) -> None:
        if self.chance.random() < 0.3:
            await self.spool.quarantine(queue_id(self.chance.randint(1, self.last + 1)), "mice", self.now)

    async def report(self) -> None:
        marks = [one.id for one in await self.spool.notices(Notice, 3, self.now)]
        content = self.spool.buffer()
        content.write(CONTENT)
        self.last += 1
        await self.spool.report(marks, message(self.last, ["s@a.example"], sender="", kind=Kind.DSN), content, self.now)

    async def purge(self) -> None:
        await self.spool.purge(self.now - 60, self.now - 3600, 2, self.now)

    async def crash(self) -> None:
        self.claims.clear()
        self.spool = await self.house.reopen(retry_after=self.chance.choice([None, 600]), now=self.now)

    async def wait(self) -> None:
        self.now += self.chance.choice([1, 60, 86400, 6 * 86400])

    async def look(self) -> None:
        check(self.house)
        rows = cast("list[tuple[object, object]]", self.house.ask("SELECT id, status FROM recipients"))
        statuses = dict(rows)
        for recipient, status in statuses.items():
            assert reachable(self.statuses.get(recipient, "pending"), status), (self.statuses.get(recipient), status)
        self.statuses = statuses
        await self.look_at_views()

    async def look_at_views(self) -> None:
        overview = await self.spool.overview(self.now)
        assert all(n >= 0 for n in overview.recipients.values())
        for name, due in await self.spool.destinations("", 10, self.now):
            for mail_class, at in due.items():
                next_due = await self.spool.next_due(name, self.now, [mail_class])
                assert next_due is None or at <= next_due
        rows = """SELECT destination, class, min(next_at) FROM recipients WHERE waiting AND next_at IS NOT NULL
            AND (fails_at IS NULL OR fails_at > ?) GROUP BY 1, 2"""
        true = {(name, mail_class): at for name, mail_class, at in self.house.ask(rows, self.now)}
        rows = """SELECT min(coalesce(fails_at, late_at)) FROM recipients WHERE waiting AND next_at IS NOT NULL
            AND destination NOT IN (SELECT destination FROM standing_holds) AND id NOT IN (SELECT value FROM json_each(?))
            AND NOT EXISTS (SELECT 1 FROM standing_holds WHERE destination = '*')"""
        claimed = [one.id for claim in self.claims for one in claim.recipients]
        assert [(await self.spool.next_deadline(),)] == self.house.ask(rows, json.dumps(claimed))
        seen = await self.spool.destinations("", 10, self.now)
        assert {(name, mail_class): at for name, due in seen for mail_class, at in due.items()} == true


VERBS: list[Callable[[Run], Awaitable[None]]] = [
    Run.accept, Run.accept, Run.claim, Run.claim, Run.claim, Run.mark, Run.mark, Run.settle, Run.settle, Run.release,
    Run.order, Run.order, Run.order, Run.retry_all, Run.hold, Run.quarantine, Run.report, Run.purge, Run.crash, Run.wait,
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(VERBS), min_size=5, max_size=60), st.integers(0, 2**32))
def test_any_sequence_of_verbs_keeps_the_books(verbs: list[Callable[[Run], Awaitable[None]]], seed: int) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            house = House(Path(folder), connect_inline)
            course = Run(house, await house.open(by_sender=bool(seed % 2)), random.Random(seed))
            for verb in verbs:
                await verb(course)
                await course.look()
            await house.close()
            check(house)

    asyncio.run(run())
