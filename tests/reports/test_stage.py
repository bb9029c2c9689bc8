"""The reports stage over a spool in memory, in virtual time: who is told, when, and what trouble does to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mta.model.envelope import ByMode, DeliverBy, Kind, MailClass, NewMessage, Notice
from mta.model.events import Fact, Reported, Trouble
from mta.model.lifecycle import Status
from mta.reports.stage import LONGEST_REST
from tests.reports.desk import INTERVAL, POSTMASTER, SCHEDULES, make_stage
from tests.reports.fake_spool import FakeSpool
from tests.support.virtual import VirtualClock, run_virtual


@dataclass
class Desk:
    """A running stage, its spool, and what was observed."""

    spool: FakeSpool
    facts: list[Fact] = field(default_factory=list)
    clock: VirtualClock = field(default_factory=VirtualClock)

    def sent(self, kind: Kind) -> list[tuple[NewMessage, bytes]]:
        return [(message, content) for message, content in self.spool.written if message.kind is kind]

    def troubles(self) -> list[Trouble]:
        return [fact for fact in self.facts if isinstance(fact, Trouble)]


@asynccontextmanager
async def running(
    spool: FakeSpool, postmaster: str | None = POSTMASTER, aliases: dict[str, tuple[str, ...]] | None = None
) -> AsyncIterator[Desk]:
    desk = Desk(spool)
    stage = make_stage(spool, desk.clock, desk.facts.append, postmaster, aliases)
    task = asyncio.create_task(stage.run())
    await settle()
    try:
        yield desk
        assert not task.done(), task
    finally:
        task.cancel()


async def settle() -> None:
    """All that is due now has been done."""
    await asyncio.sleep(0.001)


def virtual(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtual(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# ---------------------------------------------------------------- the sender
@virtual
async def test_dsn_10_ret_full_returns_the_whole_message_with_a_failure_alone():
    """DSN-08: the DSN itself asks for nothing."""
    body = b"Subject: Your order 1234\r\n\r\n" + b"all of it\r\n" * 20_000
    async with running(FakeSpool(original=body)) as desk:
        desk.spool.mark(ret="FULL", envid="Q+2B1", notify="FAILURE", orcpt="rfc822;Ann+2B@old.test")
        desk.spool.mark(ret="FULL", notice=Notice.DSN_DELAYED)
        desk.spool.mark(ret="HDRS")
        desk.spool.mark()
        await settle()
        dsns = desk.sent(Kind.DSN)
        assert [content.count(b"all of it") for _, content in dsns] == [20_000, 0, 0, 0]
        assert b"Original-Envelope-Id: Q+1\r\n" in dsns[0][1]
        assert b"Original-Recipient: rfc822; Ann+@old.test\r\n" in dsns[0][1]
        for message, _ in dsns:
            asked = [(it.notify, it.orcpt) for it in message.recipients]
            assert (message.ret, message.envid, message.eight_bit, asked) == ("", "", False, [("", "")])


@virtual
async def test_tls_09_of_mail_that_needs_encryption_the_header_alone_goes_back():
    """Whatever RET says; and the DSN needs encryption too (RFC 8689 section 5)."""
    body = b"Subject: Your order 1234\r\n\r\n" + b"all of it\r\n" * 20
    async with running(FakeSpool(original=body)) as desk:
        desk.spool.mark(ret="FULL", require_tls=True)
        desk.spool.mark(ret="FULL")
        await settle()
        dsns = [(message.require_tls, content.count(b"all of it")) for message, content in desk.sent(Kind.DSN)]
        assert dsns == [(True, 0), (False, 20)]
        assert all(b"Your order 1234" in content for _, content in desk.sent(Kind.DSN))


@virtual
async def test_the_postmaster_hears_of_a_failure_that_its_sender_does_not_want_to():
    """DSN-06; and why the sender was not told."""
    async with running(FakeSpool()) as desk:
        desk.spool.mark(notice=Notice.REPORT, notify="NEVER")
        await settle()
        [(_, content)] = desk.sent(Kind.REPORT)
        assert b"its sender asked not to be told" in content


@virtual
async def test_a_failure_is_told_to_its_sender_at_once():
    """DSN-08, DSN-15: null path, one recipient, kind DSN, as an ordinary message."""
    async with running(FakeSpool()) as desk:
        desk.spool.mark()
        await settle()
        [(message, content)] = desk.sent(Kind.DSN)
        now = message.accepted_at
        assert (message.reverse_path, message.eight_bit, message.size) == ("", False, len(content))
        assert [(it.address, it.destination) for it in message.recipients] == [("shop@example.com", "example.com")]
        assert message.message_id.encode() in content
        assert message.message_id == f"<{message.queue_id}@mail.example.com>"
        assert message.expires_at == SCHEDULES[MailClass.NORMAL].expires_at(now)
        assert message.warn_at is None
        assert b"Subject: Your order 1234" in content
        assert desk.spool.marks == []
        assert desk.facts == [Reported(message.queue_id, "06ABCDEFGHJKMN00", "dsn", "shop@example.com", 1)]


@virtual
async def test_marks_of_one_step_share_a_dsn_others_do_not():
    """DSN-14."""
    spool = FakeSpool()
    for address, step in (("a@x.example", 1), ("b@x.example", 1), ("c@x.example", 2)):
        spool.mark(recipient=address, step=step)
    async with running(spool) as desk:
        assert [b"a@x" in content and b"b@x" in content for _, content in desk.sent(Kind.DSN)] == [True, False]


@virtual
async def test_more_steps_than_one_look_takes():
    spool = FakeSpool()
    for number in range(250):
        spool.mark(recipient=f"r{number}@x.example")
    async with running(spool) as desk:
        assert len(desk.sent(Kind.DSN)) == 250
        assert len({message.queue_id for message, _ in desk.spool.written}) == 250
        assert len({message.message_id for message, _ in desk.spool.written}) == 250


@virtual
async def test_an_urgent_original_has_an_urgent_dsn_a_bulk_one_a_normal():
    spool = FakeSpool()
    for mail_class in MailClass:
        spool.mark(mail_class=mail_class)
    async with running(spool) as desk:
        classes = [message.mail_class for message, _ in desk.sent(Kind.DSN)]
        assert classes == [MailClass.URGENT, MailClass.NORMAL, MailClass.NORMAL]


@virtual
async def test_pri_04_frl_06_a_dsn_has_the_priority_and_what_was_asked_for():
    spool = FakeSpool()
    spool.mark(priority=-4, hold_request="for;60", deliver_by=DeliverBy(1_800_000_060.0, ByMode.NOTIFY))
    async with running(spool) as desk:
        [(message, content)] = desk.sent(Kind.DSN)
        assert (message.priority, message.deliver_by, message.not_before) == (-4, None, None)
        assert b"\r\nMT-Priority: -4\r\n" in content
        assert b"\r\nFuture-Release-Request: for;60\r\n" in content
        assert b"\r\nDeliver-By-Date: Fri, 15 Jan 2027 08:01:00 +0000\r\n" in content


@pytest.mark.parametrize(
    ("notice", "status", "words"),
    [
        (Notice.DSN_FAILED, Status.FAILED, b"Action: failed\r\nStatus: 5.1.1"),
        (Notice.DSN_DELAYED, Status.PENDING, b"Action: delayed\r\nStatus: 4.1.1"),
        (Notice.DSN_DOUBT, Status.IN_DOUBT, b"Action: delayed\r\nStatus: 4.1.1"),
        (Notice.DSN_LATE, Status.PENDING, b"Action: delayed\r\nStatus: 4.1.1"),
        (Notice.DSN_RELAYED, Status.SENT, b"Action: relayed\r\nStatus: 2.1.1"),
    ],
)
def test_each_kind_of_notice_has_its_action(notice: Notice, status: Status, words: bytes):
    async def test() -> None:
        spool = FakeSpool()
        spool.mark(notice=notice, status=status)
        async with running(spool) as desk:
            [(_, content)] = desk.sent(Kind.DSN)
            assert words in content
            retries = notice in (Notice.DSN_DELAYED, Notice.DSN_LATE)
            assert (b"Will-Retry-Until" in content) == retries

    run_virtual(test())


@virtual
async def test_a_sender_of_this_machine_is_found_by_the_aliases():
    spool = FakeSpool()
    spool.mark(reverse_path="cron@mail.example.com")
    async with running(spool, aliases={"*": ("ops@example.net", "night@example.org")}) as desk:
        [(message, content)] = desk.sent(Kind.DSN)
        assert [it.address for it in message.recipients] == ["ops@example.net", "night@example.org"]
        assert b"To: cron@mail.example.com\r\n" in content


@pytest.mark.parametrize("sender", ["", "nobody@mail.example.com", "no address at all", "a@b\r\nBcc: c@d"])
def test_b09_a_sender_who_cannot_be_told_is_counted(sender: str):
    """B09, DSN-07: no mail to nobody; it is visible, and it does not keep the others back."""

    async def test() -> None:
        spool = FakeSpool()
        spool.mark(reverse_path=sender)
        spool.mark()
        async with running(spool, postmaster=None) as desk:
            assert [mark.reverse_path for mark in spool.untold] == [sender]
            assert [message.recipients[0].address for message, _ in spool.written] == ["shop@example.com"]
            assert [trouble.severity for trouble in desk.troubles()] == ["warning"]

    run_virtual(test())


@pytest.mark.parametrize("original", [None, b"", b"Subject: " + b"x" * 200_000])
def test_a_purged_or_damaged_original_is_told_of_all_the_same(original: bytes | None):
    async def test() -> None:
        spool = FakeSpool(original=original)
        spool.mark()
        async with running(spool) as desk:
            [(_, content)] = desk.sent(Kind.DSN)
            assert b"Status: 5.1.1" in content
            assert b"text/rfc822-headers" not in content

    run_virtual(test())


@virtual
async def test_b31_a_row_that_cannot_be_composed_does_not_stop_the_rest():
    spool = FakeSpool()
    spool.mark(reply=None)
    spool.mark()
    async with running(spool) as desk:
        assert len(desk.sent(Kind.DSN)) == 1
        assert [mark.reply for mark in spool.untold] == [None]
        assert [trouble.severity for trouble in desk.troubles()] == ["error"]


@pytest.mark.parametrize("raised", [RecursionError, MemoryError, AssertionError])
def test_dsn_10_whatever_fails_with_a_whole_message_its_sender_is_told(
    monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
):
    """With the header, and why; the fault is shown."""

    def broken(message: bytes) -> bytes:
        raise raised("deep")

    monkeypatch.setattr("mta.policy.dsn_return.seven_bit", broken)

    async def test() -> None:
        spool = FakeSpool(original=b"Subject: Your order 1234\r\n\r\n\xff\r\n")
        spool.mark(ret="FULL")
        async with running(spool) as desk:
            [(_, content)] = desk.sent(Kind.DSN)
            assert b"Content-Type: text/rfc822-headers\r\n\r\nSubject: Your order 1234\r\n" in content
            assert b"Only the header of your message is attached" in content
            assert spool.untold == []
            assert [(it.severity, it.detail) for it in desk.troubles()] == [("warning", f"{raised.__name__}: deep")]

    run_virtual(test())


@virtual
async def test_dsn_10_a_sender_of_a_message_nested_without_end_is_told():
    """300 multiparts in 14 KB, and one 8-bit octet."""
    frames = [b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (level, level) for level in range(300)]
    async with running(FakeSpool(original=b"Subject: x\r\n" + b"".join(frames) + b"\r\n\xff\r\n")) as desk:
        desk.spool.mark(ret="FULL")
        await settle()
        assert (len(desk.sent(Kind.DSN)), desk.troubles()) == (1, [])


@virtual
async def test_b09_a_whole_message_for_a_sender_who_cannot_be_told_is_counted():
    async with running(FakeSpool()) as desk:
        desk.spool.mark(ret="FULL", reverse_path="no address")
        await settle()
        assert [mark.reverse_path for mark in desk.spool.untold] == ["no address"]
        assert len(desk.troubles()) == 1


# ---------------------------------------------------------------- trouble with the spool
@pytest.mark.parametrize("fault", ["fail_reports", "fail_buffers", "fail_reading"])
def test_b08_trouble_with_the_spool_delays_and_loses_nothing(fault: str):
    """B08: the mark stays until its DSN is in; one error line for the row of failures; nothing twice."""

    async def test() -> None:
        spool = FakeSpool()
        setattr(spool, fault, 5)
        async with running(spool) as desk:
            spool.mark()
            await asyncio.sleep(5 * LONGEST_REST)
            assert len(desk.sent(Kind.DSN)) == 1
            assert spool.marks == spool.untold == []
            assert [trouble.severity for trouble in desk.troubles()] == ["error"]
            assert all(buffer.closed for buffer in spool.buffers)

    run_virtual(test())


@virtual
async def test_b08_rings_do_not_hurry_a_broken_spool():
    spool = FakeSpool(fail_reading=10**6)
    async with running(spool):
        spool.fail_reading = 10**6
        for _ in range(600):
            spool.doorbell.ring_notices()
            await asyncio.sleep(1)
        assert 10**6 - spool.fail_reading < 60


@virtual
async def test_b08_what_fails_to_go_in_keeps_nothing_else_back():
    spool = FakeSpool(fail_reports=2)
    spool.mark(notice=Notice.ALERT, status=Status.DEAD)
    spool.mark(recipient="first@x.example")
    spool.mark(recipient="second@x.example")
    async with running(spool) as desk:
        assert [(message.kind, b"second@x" in content) for message, content in spool.written] == [(Kind.DSN, True)]
        await asyncio.sleep(LONGEST_REST)
        assert (len(desk.sent(Kind.DSN)), len(desk.sent(Kind.ALERT))) == (2, 1)


@virtual
async def test_a_second_row_of_trouble_is_told_again():
    spool = FakeSpool(fail_reading=3)
    async with running(spool) as desk:
        await asyncio.sleep(10 * LONGEST_REST)
        spool.fail_reading = 3
        await asyncio.sleep(10 * LONGEST_REST)
        assert len(desk.troubles()) == 2


@virtual
async def test_what_was_marked_before_the_start_or_without_a_ring_is_told():
    spool = FakeSpool()
    spool.mark()
    async with running(spool) as desk:
        assert len(desk.sent(Kind.DSN)) == 1
        spool.mark()
        spool.doorbell.notices.clear()
        await asyncio.sleep(61)
        assert len(desk.sent(Kind.DSN)) == 2


# ---------------------------------------------------------------- the postmaster
@pytest.mark.parametrize(("notice", "kind"), [(Notice.REPORT, Kind.REPORT), (Notice.ALERT, Kind.ALERT)])
def test_the_first_at_once_further_ones_collected(notice: Notice, kind: Kind):
    """interface.md section 2: since start, or after a quiet interval."""

    async def test() -> None:
        async with running(FakeSpool()) as desk:
            loop, start = asyncio.get_running_loop(), asyncio.get_running_loop().time()
            told: list[tuple[float, int]] = []

            async def step(until: float, address: str) -> None:
                await asyncio.sleep(start + until - loop.time())
                desk.spool.mark(notice=notice, recipient=address)
                await settle()
                told.append((until, len(desk.sent(kind))))

            await step(1, "a@x.example")
            await step(2, "b@x.example")
            await step(200, "c@x.example")
            await asyncio.sleep(start + 302 - loop.time())
            told.append((302, len(desk.sent(kind))))
            await step(400, "d@x.example")
            await step(1000, "e@x.example")
            await step(2000, "f@x.example")
            assert told == [(1, 1), (2, 1), (200, 1), (302, 2), (400, 2), (1000, 4), (2000, 5)]
            [_, (_, second), *_] = desk.sent(kind)
            assert b"b@x.example" in second
            assert b"c@x.example" in second

    run_virtual(test())


@virtual
async def test_reports_and_alerts_keep_separate_intervals_and_dsns_none():
    async with running(FakeSpool()) as desk:
        for _ in range(3):
            for notice in (Notice.REPORT, Notice.ALERT, Notice.DSN_FAILED):
                desk.spool.mark(notice=notice)
            await settle()
        counts = [len(desk.sent(kind)) for kind in (Kind.REPORT, Kind.ALERT, Kind.DSN)]
        assert counts == [1, 1, 3]


@virtual
async def test_a_collected_report_is_about_several_messages():
    spool = FakeSpool()
    spool.mark(notice=Notice.REPORT)
    spool.mark(notice=Notice.REPORT, queue_id="06OTHER000000000")
    async with running(spool) as desk:
        [(message, content)] = desk.sent(Kind.REPORT)
        assert message.subject == "2 recipients failed"
        assert [it.address for it in message.recipients] == [POSTMASTER]
        assert b"06OTHER000000000" in content
        assert desk.facts == [Reported(message.queue_id, "", "report", POSTMASTER, 2)]


@virtual
async def test_without_a_postmaster_the_marks_stay_and_senders_are_told():
    spool = FakeSpool()
    spool.mark(notice=Notice.ALERT)
    spool.mark()
    async with running(spool, postmaster=None) as desk:
        await asyncio.sleep(3 * INTERVAL)
        assert [message.kind for message, _ in spool.written] == [Kind.DSN]
        assert [mark.notice for mark in spool.marks] == [Notice.ALERT]
        assert desk.troubles() == []


@virtual
async def test_a_postmaster_nobody_can_reach_keeps_the_marks_and_is_told_once_an_interval():
    spool = FakeSpool()
    spool.mark(notice=Notice.ALERT)
    async with running(spool, postmaster="no address") as desk:
        await asyncio.sleep(2 * INTERVAL - 10)
        assert [trouble.severity for trouble in desk.troubles()] == ["warning", "warning"]
        assert len(spool.marks) == 1


@virtual
async def test_b34_a_leap_of_the_clock_changes_no_interval():
    async with running(FakeSpool()) as desk:
        desk.spool.mark(notice=Notice.REPORT)
        await settle()
        desk.clock.step = -86400.0
        desk.spool.mark(notice=Notice.REPORT)
        await asyncio.sleep(INTERVAL + 1)
        assert len(desk.sent(Kind.REPORT)) == 2
