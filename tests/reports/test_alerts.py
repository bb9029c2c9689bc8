"""The stage that calls a person by a program and a web server, in virtual time: when, with what, and what trouble does."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mta.model.envelope import Kind, Notice
from mta.model.events import Fact, Trouble
from mta.model.lifecycle import Event, Status
from mta.policy.notices import notices_for
from mta.ports.system import Called, Callers
from mta.reports.alerts import FIRST_REST, GIVE_UP_AFTER, LONGEST_REST, Alerts, AlertSettings
from mta.spool.base import DoubtPolicy, RecipientResult, Settlement
from mta.spool.sqlite import open_sqlite
from tests.reports.fake_spool import FakeSpool
from tests.reports.test_stage import settle, virtual
from tests.reports.test_with_spool import NOW, NULL_MX, Still, opened, submit, take
from tests.support.virtual import VirtualClock

COMMAND, WEBHOOK = ("/usr/local/bin/page", "--now"), "https://hooks.example.com/x"
BOTH = AlertSettings("mail.example.com", COMMAND, WEBHOOK, 300.0)
WAYS = (Notice.ALERT, Notice.ALERT_COMMAND, Notice.ALERT_WEBHOOK)


@dataclass
class World:
    """What was called, when (by the loop's time), and what it is to say: `taken` is asked each time."""

    spool: Any
    settings: AlertSettings = BOTH
    clock: Any = field(default_factory=VirtualClock)
    command_takes: bool = True
    webhook_takes: bool = True
    programs: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    posts: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    async def run(self, command: Sequence[str], document: bytes) -> Called:
        assert command == COMMAND
        self.programs.append((asyncio.get_running_loop().time(), json.loads(document)))
        return Called(self.command_takes, "exit code")

    async def post(self, url: str, document: bytes) -> Called:
        assert url == WEBHOOK
        self.posts.append((asyncio.get_running_loop().time(), json.loads(document)))
        return Called(self.webhook_takes, "status")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Alerts]:
        stage = Alerts(self.settings, self.spool, Callers(self.run, self.post), self.clock, self.facts.append)
        task = asyncio.create_task(stage.run())
        await settle()
        try:
            yield stage
            assert not task.done(), task
        finally:
            task.cancel()

    def said(self, severity: str) -> list[str]:
        return [fact.what for fact in self.facts if isinstance(fact, Trouble) and fact.severity == severity]


def recipients(document: dict[str, Any]) -> list[str]:
    return [message["recipient"] for message in document["messages"]]


@virtual
async def test_the_document_says_what_needs_a_person():
    spool, world = FakeSpool(), None
    spool.mark(notice=Notice.ALERT_COMMAND, status=Status.IN_DOUBT, doubts=2, key="order-1", subject="caf\u00e9\n")
    world = World(spool)
    async with world.running():
        [(_, document)] = world.programs
    [message] = document.pop("messages")
    assert document.pop("at").endswith("Z")
    assert document == {"version": 1, "kind": "alert", "hostname": "mail.example.com"}
    assert message == {
        "queue_id": "06ABCDEFGHJKMN00",
        "message_id": "<order-1234@example.com>",
        "idempotency_key": "order-1",
        "class": "normal",
        "sender": "shop@example.com",
        "recipient": "ann@example.org",
        "subject": "caf\u00e9\n",
        "status": "in_doubt",
        "reply": {"code": 550, "enhanced": "5.1.1", "text": "no such user here"},
        "category": "no-such-user",
        "remote_host": "mx1.example.org",
        "attempts": 1,
        "doubts": 2,
        "at": "2027-01-15T08:00:00.000Z",
    }
    assert spool.marks == []
    assert spool.untold == []


@virtual
async def test_the_first_at_once_further_ones_collected():
    world = World(FakeSpool())
    async with world.running():
        start = asyncio.get_running_loop().time()
        for number in range(4):
            world.spool.mark(notice=Notice.ALERT_WEBHOOK, recipient=f"r{number}@x.example")
            await asyncio.sleep(1)
        await asyncio.sleep(400)
    told = [recipients(document) for _, document in world.posts]
    assert told == [["r0@x.example"], ["r1@x.example", "r2@x.example", "r3@x.example"]]
    assert [round(at - start) for at, _ in world.posts] == [0, 300]


@virtual
async def test_one_that_fails_is_tried_ever_more_seldom_and_holds_the_other_up_for_nothing():
    world = World(FakeSpool(), command_takes=False)
    for notice in (Notice.ALERT_COMMAND, Notice.ALERT_WEBHOOK):
        world.spool.mark(notice=notice, at=world.clock.now())
    async with world.running():
        assert len(world.posts) == 1
        await asyncio.sleep(3600)
        waits = [round(b - a) for (a, _), (b, _) in zip(world.programs, world.programs[1:], strict=False)]
        assert waits[:4] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST, 8 * FIRST_REST]
        assert waits[-1] == LONGEST_REST
        world.command_takes = True
        await asyncio.sleep(LONGEST_REST)
    assert world.spool.marks == []
    assert world.said("info") == ["alert webhook told of 1 recipients", "alert command told of 1 recipients"]
    assert len(world.posts) == 1


@virtual
async def test_what_was_tried_for_a_day_is_counted_as_untold_and_what_is_younger_stays():
    world = World(FakeSpool(), webhook_takes=False)
    world.spool.mark(notice=Notice.ALERT_WEBHOOK, recipient="old@x.example", at=world.clock.now())
    async with world.running():
        await asyncio.sleep(GIVE_UP_AFTER / 2)
        world.spool.mark(notice=Notice.ALERT_WEBHOOK, recipient="new@x.example", at=world.clock.now())
        await asyncio.sleep(GIVE_UP_AFTER / 2 + 2 * LONGEST_REST)
    assert [mark.recipient for mark in world.spool.untold] == ["old@x.example"]
    assert [mark.recipient for mark in world.spool.marks] == ["new@x.example"]


@virtual
async def test_without_a_way_marks_stay_until_there_is_one():
    world = World(FakeSpool(), settings=AlertSettings("mail.example.com"))
    world.spool.mark(notice=Notice.ALERT_COMMAND)
    async with world.running() as stage:
        assert (world.programs, len(world.spool.marks)) == ([], 1)
        stage.settings = BOTH
        world.spool.doorbell.ring_notices()
        await asyncio.sleep(1)
    assert len(world.programs) == 1


@virtual
async def test_trouble_with_the_spool_is_waited_out():
    world = World(FakeSpool(fail_reading=2))
    world.spool.mark(notice=Notice.ALERT_COMMAND)
    async with world.running():
        await asyncio.sleep(100)
    assert len(world.programs) == 1
    assert world.spool.marks == []


# ---------------------------------------------------------------- the real spool
async def test_an_alert_is_in_the_commit_that_decides_and_lasts_until_it_was_taken(tmp_path: Path):
    """Over a restart; the mail to the postmaster is untouched by it."""
    path = tmp_path / "spool.db"
    async with opened(path) as spool:
        queue_id = await submit(spool, "shop@example.com", "ann@example.org")
        claim = await take(spool, "example.org")
        marks = notices_for(Kind.MAIL, claim.reverse_path, Event.GAVE_UP, held_doubt=False, warn=False, alerts=WAYS)
        results = tuple(RecipientResult(it.id, Event.GAVE_UP, NULL_MX, notices=marks) for it in claim.recipients)
        await spool.settle(Settlement(claim, results), NOW)
        async with World(spool, clock=Still(), command_takes=False).running():
            await _until(lambda: spool.notices([Notice.ALERT_WEBHOOK], 10, NOW))
    async with opened(path) as spool:
        world = World(spool, clock=Still())
        async with world.running():
            await _until(lambda: spool.notices([Notice.ALERT_COMMAND], 10, NOW))
        [(_, document)] = world.programs
        assert [(it["queue_id"], it["status"]) for it in document["messages"]] == [(queue_id, "dead")]
        assert world.posts == []
        assert len(await spool.notices([Notice.ALERT], 10, NOW)) == 1
        assert (await spool.overview(NOW)).untold == 0


async def test_a_doubt_that_a_crash_left_calls_a_person_too(tmp_path: Path):
    path = tmp_path / "spool.db"
    async with opened(path) as spool:
        await submit(spool, "", "ann@example.org")
        claim = await take(spool, "example.org")
        await spool.mark_in_doubt(claim, [it.id for it in claim.recipients], "mx1.example.org", "192.0.2.1", NOW)
    spool, recovered = await open_sqlite(
        path, doubts=DoubtPolicy(False, 0, WAYS), now=NOW, doorbell=spool.doorbell
    )
    try:
        assert recovered.in_doubt == 1
        assert [it.notice for it in await spool.notices(WAYS, 10, NOW)] == list(WAYS)
        assert (await spool.overview(NOW)).held_doubts == 1
    finally:
        await spool.close()


async def _until(left: Any) -> None:
    """Until nothing is left."""
    async with asyncio.timeout(10):
        while await left():
            await asyncio.sleep(0.001)
