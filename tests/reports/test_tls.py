"""TLS-10 as a stage: counts over restarts, one report for a day and domain, sent in its time and once."""

import asyncio
import email
import email.policy
import gzip
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mta.doorbell import Doorbell
from mta.model.envelope import Kind, MailClass, Notice
from mta.model.events import Encrypted, Fact, Reported, Trouble
from mta.model.lifecycle import Event, Status
from mta.model.reply import finding
from mta.model.tls import TlsPolicy, TlsResult
from mta.policy.acceptance import Locals
from mta.policy.notices import notices_for
from mta.ports.names import Lookup, TextAnswer
from mta.reports.tls import LONGEST_DELAY, LOOK_INTERVAL, TlsReports, TlsReportSettings
from mta.spool.base import DoubtPolicy, Filter, Memory, MessageView, RecipientResult, Settlement, SpoolError
from mta.spool.connection import connect_inline
from mta.spool.sqlite import SqliteSpool, open_sqlite
from tests.support.virtual import VirtualClock, run_virtual

NOON = 1_800_057_600.0 + 12 * 3600
"""Of 2027-01-16."""
TO_MIDNIGHT = 12 * 3600.0
RECORD = "v=TLSRPTv1; rua=mailto:tls@example.org"


class Records:
    """A resolver: domain -> its TLSRPT record, or how the question ends."""

    def __init__(self, records: dict[str, str | Lookup]) -> None:
        self.records, self.asked = records, list[str]()

    async def texts(self, name: str) -> TextAnswer:
        domain = name.removeprefix("_smtp._tls.")
        self.asked.append(domain)
        found = self.records.get(domain, Lookup.NXDOMAIN)
        return TextAnswer(found) if isinstance(found, Lookup) else TextAnswer(Lookup.FOUND, (found,))


class Chances:
    def stream(self, purpose: str) -> random.Random:
        return random.Random(purpose)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, VirtualClock(NOON)
        self.names = Records({"example.org": RECORD})
        self.facts: list[Fact] = []
        self.spool: Any = None

    @asynccontextmanager
    async def stage(self, *, runs: bool = True, orderly: bool = True) -> AsyncIterator[TlsReports]:
        spool, _ = await open_sqlite(
            self.folder / "spool.db", doubts=DoubtPolicy(True, 0), now=self.clock.now(), doorbell=Doorbell(),
            connect=connect_inline,
        )  # fmt: skip
        self.spool = spool
        locals_ = Locals("mail.example.com", frozenset(), {}, "postmaster@example.com")
        settings = TlsReportSettings("mail.example.com", "postmaster@example.com", locals_)
        stage = TlsReports(settings, spool, self.names, self.clock, Chances(), self.facts.append)
        task = asyncio.create_task(stage.run()) if runs else None
        try:
            yield stage
        finally:
            if task:
                task.cancel()
            if orderly:
                await stage.flush()
            await spool.close()

    async def reports(self) -> list[MessageView]:
        return list((await self.spool.queue(Filter()))[0])

    async def document(self, queue_id: str) -> dict[str, Any]:
        content = b"".join([chunk async for chunk in self.spool.content(queue_id)])
        mail = email.message_from_bytes(content, policy=email.policy.SMTP)
        _, attached = mail.iter_parts()
        return json.loads(gzip.decompress(attached.get_content()))

    async def counted(self) -> list[str]:
        return [one.name for one in await self.spool.memories(Memory.TLS_RESULT, "", 99, self.clock.now())]


def session(domain: str = "example.org", result: TlsResult = TlsResult.SUCCESS) -> Encrypted:
    return Encrypted(domain, ((TlsPolicy.MTA_STS, "mx: mx.example.org"),), result, "mx.example.org", "192.0.2.1")


def summary(document: dict[str, Any]) -> tuple[int, int]:
    found = document["policies"][0]["summary"]
    return found["total-successful-session-count"], found["total-failure-session-count"]


def test_tls_10_a_day_s_counts_are_reported_after_its_end(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        async with scene.stage() as stage:
            for _ in range(3):
                stage.observe(session())
            stage.observe(session(result=TlsResult.CERTIFICATE_EXPIRED))
            stage.observe(session("silent.example"))
            await asyncio.sleep(TO_MIDNIGHT - 1)
            assert not scene.names.asked
            await asyncio.sleep(2)
            stage.observe(session())  # another day's
            await asyncio.sleep(LONGEST_DELAY + LOOK_INTERVAL)
            [report] = await scene.reports()
            document = await scene.document(report.queue_id)
            assert summary(document) == (3, 1)
            assert document["date-range"]["start-datetime"] == "2027-01-16T00:00:00Z"
            assert await scene.counted() == ["2027-01-17 example.org"]
            await asyncio.sleep(86400)
            assert len([fact for fact in scene.facts if isinstance(fact, Reported)]) == 2
        [told, _] = scene.facts
        assert told == Reported(report.queue_id, "", "tls-report", "tls@example.org", 1)

    run_virtual(main())


def test_tls_10_the_report_is_mail_of_our_own_that_no_encryption_holds_up(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        async with scene.stage() as stage:
            stage.observe(session())
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY + LOOK_INTERVAL)
            [report] = await scene.reports()
            assert (report.reverse_path, report.kind, report.mail_class) == ("", Kind.TLS_REPORT, MailClass.BULK)
            assert report.tls_optional and not report.require_tls
            assert report.deliver_by is not None
            assert report.deliver_by.at == pytest.approx(report.accepted_at + 86400)
            assert [it.address for it in report.recipients] == ["tls@example.org"]
            assert report.key == "tls-report:2027-01-16:example.org"

    run_virtual(main())


def test_a_report_that_fails_is_told_to_nobody_and_needs_nobody(tmp_path: Path):
    """RFC 8460 section 5.5: it is optional; a dead address of a stranger is no work for our people."""

    async def main() -> None:
        scene = Scene(tmp_path)
        async with scene.stage() as stage:
            stage.observe(session())
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY + LOOK_INTERVAL)
            claim = await scene.spool.claim("example.org", 10, scene.clock.now())
            notices = notices_for(claim.kind, claim.reverse_path, Event.REFUSED, held_doubt=False, warn=False)
            reply = finding("5.1.1", "no such user")
            result = RecipientResult(claim.recipients[0].id, Event.REFUSED, reply, notices=notices)
            await scene.spool.settle(Settlement(claim, (result,)), scene.clock.now())
            assert not await scene.spool.notices(Notice, 10, scene.clock.now())
            overview = await scene.spool.overview(scene.clock.now())
            assert (overview.recipients[Status.FAILED], overview.untold) == (1, 0)
            assert (await scene.spool.needing_person(10)) == ([], 0)

    run_virtual(main())


def test_counts_add_up_over_restarts(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        for _ in range(3):
            async with scene.stage() as stage:
                stage.observe(session())
                await asyncio.sleep(90)
                stage.observe(session())
        async with scene.stage(orderly=False) as stage:  # a crash: what was counted in its last minute is lost
            await asyncio.sleep(61)
            stage.observe(session())
            await asyncio.sleep(30)
        async with scene.stage():
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY + LOOK_INTERVAL)
            [report] = await scene.reports()
            assert summary(await scene.document(report.queue_id)) == (6, 0)

    run_virtual(main())


def test_tls_10_a_crash_between_the_report_and_the_end_of_its_counts_sends_no_second_one(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)

        async def crashes(*_: object) -> int:
            raise SpoolError("disk I/O error")

        async with scene.stage(runs=False) as stage:
            stage.observe(session())
            await stage.flush()
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY)
            scene.spool.forget = crashes
            with pytest.raises(SpoolError):
                await stage._send_due()
            assert len(await scene.reports()) == 1
        async with scene.stage():
            await asyncio.sleep(LONGEST_DELAY)
            assert len(await scene.reports()) == 1
            assert not await scene.counted()
        assert len([fact for fact in scene.facts if isinstance(fact, Reported)]) == 1

    run_virtual(main())


def test_who_does_not_ask_gets_no_report_and_a_silent_name_server_is_asked_again(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        scene.names.records = {
            "https.example": "v=TLSRPTv1; rua=https://https.example/report",
            "down.example": Lookup.TROUBLE,
            "late.example": Lookup.TROUBLE,
        }
        async with scene.stage() as stage:
            for domain in ("https.example", "down.example", "late.example", "none.example"):
                stage.observe(session(domain))
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY + LOOK_INTERVAL)
            assert not await scene.reports()
            assert await scene.counted() == ["2027-01-16 down.example", "2027-01-16 late.example"]
            scene.names.records["late.example"] = RECORD
            await asyncio.sleep(LOOK_INTERVAL)
            [report] = await scene.reports()
            assert report.key == "tls-report:2027-01-16:late.example"
            await asyncio.sleep(4 * 86400)
            assert not await scene.counted()

    run_virtual(main())


def test_the_world_s_reports_do_not_all_go_at_once(tmp_path: Path):
    """RFC 8460: up to four hours after the day's end, which differ from one sender, and one day, to the next."""

    async def main() -> None:
        scene = Scene(tmp_path)
        delays = []
        async with scene.stage() as stage:
            await asyncio.sleep(TO_MIDNIGHT)
            for day in range(1, 8):
                stage.observe(session())
                await asyncio.sleep(86400)
                while len(scene.facts) < day:
                    await asyncio.sleep(60)
                delays.append(scene.clock.now() % 86400)
                await asyncio.sleep(86400 - scene.clock.now() % 86400)
        assert len(set(delays)) >= 5
        assert max(delays) <= LONGEST_DELAY + LOOK_INTERVAL + 60
        assert max(delays) - min(delays) > 3600

    run_virtual(main())


def test_every_domain_gets_its_report(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        domains = [f"d{number}.example" for number in range(70)]
        scene.names.records = dict.fromkeys(domains, RECORD)
        async with scene.stage() as stage:
            for domain in domains:
                stage.observe(session(domain))
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY + LOOK_INTERVAL)
            found = {report.key.rpartition(":")[2] for report in await scene.reports()}
            assert found == set(domains)

    run_virtual(main())


def test_a_report_that_can_t_be_made_keeps_no_other_back(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        domains = [f"d{number}.example" for number in range(70)]
        scene.names.records = dict.fromkeys(domains, RECORD)
        async with scene.stage() as stage:
            for domain in domains:
                stage.observe(session(domain))
            await stage.flush()
            resolve = scene.names.texts

            async def texts(name: str) -> TextAnswer:
                assert name != "_smtp._tls.d1.example", "a bug"
                return await resolve(name)

            scene.names.texts = texts
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY + LOOK_INTERVAL)
            assert len(await scene.reports()) == 69
            assert [type(fact) for fact in scene.facts if not isinstance(fact, Reported)] == [Trouble]

    run_virtual(main())


class Failing:
    """A spool, some verbs of which fail while `broken`."""

    def __init__(self, spool: SqliteSpool) -> None:
        self._spool, self.broken = spool, True

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: object) -> None:
            raise SpoolError("database is locked")

        return fail if self.broken and name in ("remember", "memories") else getattr(self._spool, name)


def test_trouble_with_the_spool_loses_no_count_and_is_told_once(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        async with scene.stage() as stage:
            stage._spool = failing = Failing(scene.spool)
            for _ in range(5):
                stage.observe(session())
                await asyncio.sleep(100)
            told = [fact.what.partition(" of")[0] for fact in scene.facts if isinstance(fact, Trouble)]
            assert sorted(told) == ["counts", "reports"]
            failing.broken = False
            await asyncio.sleep(TO_MIDNIGHT + LONGEST_DELAY + LOOK_INTERVAL)
            [report] = await scene.reports()
            assert summary(await scene.document(report.queue_id)) == (5, 0)

    run_virtual(main())


def test_what_is_counted_in_a_minute_is_bounded(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        async with scene.stage(orderly=False) as stage:
            for number in range(12_000):
                stage.observe(session(f"d{number}.example"))
            assert len(stage._counted) == 10_000

    run_virtual(main())
