"""The reports stage over the real spool: what a crash, a restart and a bounce of a bounce leave (B08, B09)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mta.doorbell import Doorbell
from mta.model.envelope import Kind, MailClass, NewMessage, NewRecipient, Notice
from mta.model.events import Fact, Reported, Trouble
from mta.model.lifecycle import Event, Status
from mta.model.reply import Reply, finding
from mta.policy.notices import notices_for
from mta.spool.base import (
    Claim,
    ContentBuffer,
    DoubtPolicy,
    RecipientResult,
    Settlement,
    SpoolError,
    SpoolFull,
)
from mta.spool.sqlite import SqliteSpool, open_sqlite
from tests.reports.desk import POSTMASTER, make_stage

NOW = 1_800_000_000.0
NULL_MX = finding("5.1.10", "nullmx.example accepts no mail (null MX)")
NUMBERS = itertools.count(1)


class Still:
    """A clock that stands."""

    def now(self) -> float:
        return NOW


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteSpool]:
    spool, _ = await open_sqlite(path, doubts=DoubtPolicy(False, 0), now=NOW, doorbell=Doorbell())
    try:
        yield spool
    finally:
        await spool.close()


async def submit(spool: SqliteSpool, sender: str, recipient: str) -> str:
    queue_id = f"06ABCDEFGHJK{next(NUMBERS):04}"
    content = spool.buffer()
    content.write(b"Subject: Your order 1234\r\n\r\nbody\r\n")
    address = NewRecipient(recipient, recipient.partition("@")[2])
    message = NewMessage(
        queue_id, f"<{queue_id}@example.com>", sender, (address,), "Your order 1234", content.size, False,
        MailClass.NORMAL, Kind.MAIL, NOW, NOW + 86400, None,
    )  # fmt: skip
    await spool.accept(message, content, NOW)
    return queue_id


async def take(spool: SqliteSpool, destination: str) -> Claim:
    claim = await spool.claim(destination, 100, NOW)
    assert claim is not None
    return claim


async def fail(spool: SqliteSpool, destination: str) -> Claim:
    """One attempt at `destination` that ends for good, as delivery settles it."""
    claim = await take(spool, destination)
    notices = notices_for(claim.kind, claim.reverse_path, Event.REFUSED, held_doubt=False, warn=False)
    results = [RecipientResult(it.id, Event.REFUSED, NULL_MX, notices=notices) for it in claim.recipients]
    await spool.settle(Settlement(claim, tuple(results)), NOW)
    return claim


class Told:
    """An observer to wait at."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._news = asyncio.Event()

    def __call__(self, fact: Fact) -> None:
        self.facts.append(fact)
        self._news.set()

    async def of(self, wanted: type[Fact], count: int = 1) -> Sequence[Fact]:
        async with asyncio.timeout(10):
            while len(found := [fact for fact in self.facts if isinstance(fact, wanted)]) < count:
                self._news.clear()
                await self._news.wait()
        return found


@asynccontextmanager
async def reporting(spool: object, **options: str | None) -> AsyncIterator[Told]:
    told = Told()
    task = asyncio.create_task(make_stage(spool, Still(), told, **options).run())
    try:
        yield told
    finally:
        task.cancel()


class Broken:
    """The spool, but for one verb."""

    def __init__(self, spool: SqliteSpool, verb: str, failure: Callable[..., object]) -> None:
        self._spool, self._verb, self._failure = spool, verb, failure

    def __getattr__(self, name: str) -> object:
        return self._failure if name == self._verb else getattr(self._spool, name)


async def _insert_fails(ids: Sequence[int], message: NewMessage | None, content: ContentBuffer | None, now: float) -> None:
    raise SpoolError("OperationalError: database is locked")


async def _reading_fails(kinds: Sequence[Notice], limit: int, now: float) -> Sequence[object]:
    raise SpoolError("disk I/O error")


def _buffer_fails() -> ContentBuffer:
    raise SpoolFull("no space left on device")


@pytest.mark.parametrize(
    ("verb", "failure"), [("report", _insert_fails), ("notices", _reading_fails), ("buffer", _buffer_fails)]
)
async def test_b08_after_a_restart_only_the_dsn_is_made(tmp_path: Path, verb: str, failure: Callable[..., object]):
    """B08: the DSN can't be queued, the daemon restarts: the message stays failed, its DSN goes out once."""
    path = tmp_path / "spool.db"
    async with opened(path) as spool:
        queue_id = await submit(spool, "shop@example.com", "a@nullmx.example")
        await fail(spool, "nullmx.example")
        async with reporting(Broken(spool, verb, failure), postmaster=None) as told:
            await told.of(Trouble)
    async with opened(path) as spool:
        assert await spool.claim("nullmx.example", 100, NOW) is None
        async with reporting(spool, postmaster=None) as told:
            [dsn] = await told.of(Reported)
        assert isinstance(dsn, Reported)
        assert (dsn.about, dsn.kind, dsn.to, dsn.recipients) == (queue_id, "dsn", "shop@example.com", 1)
    async with opened(path) as spool:
        assert (await spool.overview(NOW)).recipients[Status.FAILED] == 1
        claim = await take(spool, "example.com")
        assert (claim.kind, claim.reverse_path) == (Kind.DSN, "")
        content = b"".join([chunk async for chunk in spool.content(claim.queue_id)])
        assert b"Final-Recipient: rfc822; a@nullmx.example\r\nAction: failed\r\nStatus: 5.1.10\r\n" in content
        assert b"Subject: Your order 1234\r\n" in content
        assert len(content) == claim.size
        assert await spool.claim("example.com", 100, NOW) is None
        view = await spool.show(queue_id)
        assert view is not None
        assert "bounced" in [entry.event for entry in view.timeline]


async def test_b08_a_stage_that_is_stopped_at_any_moment_tells_once(tmp_path: Path):
    """Cancelled after 0, 1, 2 ... turns of the loop, then started again: one DSN for each message."""
    async with opened(tmp_path / "spool.db") as spool:
        for turns in range(12):
            await submit(spool, "shop@example.com", "a@nullmx.example")
            await fail(spool, "nullmx.example")
            async with reporting(spool, postmaster=None):
                for _ in range(turns):
                    await asyncio.sleep(0)
            async with reporting(spool, postmaster=None):
                async with asyncio.timeout(10):
                    while await spool.notices([Notice.DSN_FAILED], 10, NOW):
                        await asyncio.sleep(0)
            await take(spool, "example.com")
            assert await spool.claim("example.com", 100, NOW) is None


async def test_b09_no_report_breeds_a_report(tmp_path: Path):
    """B09: mail fails, its DSN fails, the report about that fails: one of each, all counted, nothing left."""
    async with opened(tmp_path / "spool.db") as spool, reporting(spool) as told:
        await submit(spool, "shop@example.com", "a@nullmx.example")
        await fail(spool, "nullmx.example")
        await told.of(Reported, 2)
        assert (await fail(spool, "example.com")).kind is Kind.DSN
        assert (await fail(spool, "example.net")).kind is Kind.REPORT
        due = await spool.notices(list(Notice), 10, NOW)
        assert [(mark.notice, mark.kind) for mark in due] == [(Notice.REPORT, Kind.DSN)]
        kinds = [fact.kind for fact in told.facts if isinstance(fact, Reported)]
        assert sorted(kinds) == ["dsn", "report"]
        overview = await spool.overview(NOW)
        assert (overview.recipients[Status.FAILED], overview.recipients[Status.PENDING], overview.untold) == (3, 0, 2)


async def test_b09_the_null_sender_is_reported_and_never_answered(tmp_path: Path):
    async with opened(tmp_path / "spool.db") as spool, reporting(spool) as told:
        await submit(spool, "", "a@nullmx.example")
        await fail(spool, "nullmx.example")
        [report] = await told.of(Reported)
        assert isinstance(report, Reported)
        assert (report.kind, report.to) == ("report", POSTMASTER)
        claim = await take(spool, "example.net")
        content = b"".join([chunk async for chunk in spool.content(claim.queue_id)])
        assert b"no sender who could be told" in content


async def test_nobody_to_tell_is_counted(tmp_path: Path):
    async with opened(tmp_path / "spool.db") as spool, reporting(spool, postmaster=None) as told:
        await submit(spool, "gone@mail.example.com", "a@nullmx.example")
        await fail(spool, "nullmx.example")
        await told.of(Trouble)
        assert (await spool.overview(NOW)).untold == 1


async def test_a_held_doubt_is_told_to_the_sender_and_the_postmaster(tmp_path: Path):
    """interface.md section 4: by a "delayed" DSN, since it has not failed, and by alert."""
    async with opened(tmp_path / "spool.db") as spool, reporting(spool) as told:
        await submit(spool, "shop@example.com", "a@lost.example")
        claim = await take(spool, "lost.example")
        recipient = claim.recipients[0].id
        await spool.mark_in_doubt(claim, [recipient], "mx.lost.example", "192.0.2.1", NOW)
        notices = notices_for(Kind.MAIL, claim.reverse_path, Event.DOUBTED, held_doubt=True, warn=False)
        reply = Reply(None, "4.4.2", "connection lost")
        result = RecipientResult(recipient, Event.DOUBTED, reply, phase="final", host="mx.lost.example", notices=notices)
        await spool.settle(Settlement(claim, (result,)), NOW)
        await told.of(Reported, 2)
        dsn = await take(spool, "example.com")
        content = b"".join([chunk async for chunk in spool.content(dsn.queue_id)])
        assert b"Action: delayed\r\nStatus: 4.4.2\r\n" in content
        assert b"Will-Retry-Until" not in content
        alert = await take(spool, "example.net")
        content = b"".join([chunk async for chunk in spool.content(alert.queue_id)])
        assert f"mta resolve {claim.queue_id} --sent".encode() in content
