"""What every spool promises: `mta.spool.base` in cases. An implementation's tests subclass `Contract` and give it the
fixture `house`. Nothing here looks behind the verbs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from msgspec import structs
from msgspec.structs import replace

from mta.model.envelope import Kind, MailClass, NewRecipient, Notice
from mta.model.lifecycle import Event, Status
from mta.spool.base import (
    Changed,
    ContentBuffer,
    Filter,
    MessageView,
    Selection,
    Settlement,
    Spool,
    SpoolError,
    SpoolRefusal,
    Trial,
)
from tests.spool.house import House
from tests.spool.lanes_contract import Deadlines, Lanes, Scheduled
from tests.spool.making import (
    CONTENT,
    DAY,
    LATER,
    NO_USER,
    NOW,
    OK,
    claimed,
    deliver,
    mark,
    message,
    normal,
    outcome,
    put,
    queue_id,
    read,
    result,
)
from tests.spool.memories_contract import Memories

ONE = queue_id(1)


@pytest.fixture
async def spool(house: House) -> Spool:
    return await house.open()


async def view(spool: Spool, name: str = ONE) -> MessageView:
    found = await spool.show(name)
    assert found is not None
    return found


async def status(spool: Spool, name: str = ONE, place: int = 0) -> Status:
    return (await view(spool, name)).recipients[place].status


async def events(spool: Spool, name: str = ONE) -> list[str]:
    return [entry.event for entry in (await view(spool, name)).timeline]


async def order(spool: Spool, event: Event, name: str = ONE, recipient: str = "", now: float = NOW) -> Sequence[Changed]:
    return await spool.order(event, Selection((name,), recipient), now)


async def die(spool: Spool, name: str = ONE, notices: Sequence[Notice] = ()) -> None:
    await put(spool, message(int(name)))
    await spool.settle(outcome(await claimed(spool), Event.GAVE_UP, LATER, notices=notices), NOW)


async def doubt(spool: Spool, next_at: float | None = NOW + 600) -> None:
    """Message 1 with a doubt that is settled."""
    await put(spool, message(1))
    claim = await claimed(spool)
    await mark(spool, claim)
    await spool.settle(outcome(claim, Event.DOUBTED, LATER, next_at=next_at), NOW)


class Submission:
    async def test_what_was_accepted_can_be_shown_and_read(self, spool: Spool) -> None:
        new = message(1, ["ann@example.org", "bob@example.net"], mail_class=MailClass.URGENT, subject="order 17")
        await put(spool, new)
        seen = await view(spool)
        assert (seen.message_id, seen.reverse_path, seen.subject) == ("<1@example.com>", "shop@example.com", "order 17")
        assert (seen.mail_class, seen.kind, seen.accepted_at, seen.expires_at) == (0, Kind.MAIL, NOW, NOW + 5 * DAY)
        assert [(one.address, one.status, one.next_attempt_at) for one in seen.recipients] == [
            ("ann@example.org", Status.PENDING, NOW),
            ("bob@example.net", Status.PENDING, NOW),
        ]
        assert await events(spool) == ["accepted"]
        assert await read(spool, ONE) == CONTENT

    @pytest.mark.parametrize("size", [1, 131072, 131073, 3_000_001])
    async def test_content_comes_back_as_it_was_whatever_its_size(self, spool: Spool, size: int) -> None:
        content = bytes(index * 7 % 251 for index in range(1000)) * (size // 1000 + 1)
        await put(spool, message(1), content[:size])
        assert await read(spool, ONE) == content[:size]

    async def test_the_null_reverse_path_is_kept(self, spool: Spool) -> None:
        await put(spool, message(1, sender="", kind=Kind.DSN))
        claim = await claimed(spool)
        assert (claim.reverse_path, claim.kind) == ("", Kind.DSN)

    async def test_the_doorbell_rings_for_each_destination(self, spool: Spool) -> None:
        await put(spool, message(1, ["ann@example.org", "bob@example.net"]))
        assert spool.doorbell.take_due() == {normal("example.org"): NOW, normal("example.net"): NOW}

    async def test_a_queue_id_is_taken_once(self, spool: Spool) -> None:
        await put(spool, message(1))
        with pytest.raises(SpoolError):
            await put(spool, message(1, ["eve@example.org"]))
        assert [one.address for one in (await view(spool)).recipients] == ["ann@example.org"]

    async def test_b01_a_cancelled_accept_is_stored_whole(self, house: House, spool: Spool) -> None:
        accepting = asyncio.create_task(put(spool, message(1, [f"u{n}@example.org" for n in range(50)])))
        await asyncio.sleep(0)
        accepting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await accepting
        await put(spool, message(2))  # the spool goes on
        again = await house.reopen()
        assert len((await view(again)).recipients) == 50
        assert await read(again, ONE) == CONTENT

    async def test_the_buffer_is_closed_after_accept(self, spool: Spool) -> None:
        buffer = spool.buffer()
        buffer.write(b"x" * 2_000_000)
        await spool.accept(message(1), buffer, NOW)
        with pytest.raises(SpoolError):
            buffer.write(b"more")

    async def test_content_of_an_unknown_message_is_an_error(self, spool: Spool) -> None:
        with pytest.raises(SpoolError):
            await read(spool, ONE)


class Claiming:
    async def test_a_claim_tells_all_that_an_attempt_needs(self, spool: Spool) -> None:
        await put(spool, message(1, warn_after=60, mail_class=MailClass.BULK))
        claim = await claimed(spool)
        assert (claim.queue_id, claim.message_id, claim.reverse_path) == (ONE, "<1@example.com>", "shop@example.com")
        assert (claim.mail_class, claim.size, claim.eight_bit) == (MailClass.BULK, len(CONTENT), False)
        assert (claim.accepted_at, claim.expires_at, claim.warn_at) == (NOW, NOW + 5 * DAY, NOW + 60)
        (one,) = claim.recipients
        assert (one.address, one.status, one.attempts, one.doubts) == ("ann@example.org", Status.PENDING, 0, 0)
        assert (one.remote_host, one.reply, one.warned) == ("", None, False)

    async def test_nothing_is_claimed_before_it_is_due(self, spool: Spool) -> None:
        await put(spool, message(1), now=NOW + 10)
        assert await spool.claim("example.org", 10, NOW) is None
        assert await spool.claim("example.org", 10, NOW + 10) is not None

    async def test_recipients_of_one_message_at_one_destination_go_together(self, spool: Spool) -> None:
        await put(spool, message(1, ["a@example.org", "b@example.net", "c@example.org"]))
        claim = await claimed(spool)
        assert [one.address for one in claim.recipients] == ["a@example.org", "c@example.org"]

    async def test_a_limit_splits_them_and_the_rest_can_be_claimed(self, spool: Spool) -> None:
        await put(spool, message(1, [f"u{n}@example.org" for n in range(5)]))
        parts = [await claimed(spool, limit=2) for _ in range(3)]
        assert [len(part.recipients) for part in parts] == [2, 2, 1]
        assert len({one.id for part in parts for one in part.recipients}) == 5
        assert await spool.claim("example.org", 2, NOW) is None

    async def test_by_class_then_what_is_due_longest(self, spool: Spool) -> None:
        await put(spool, message(1, mail_class=MailClass.BULK), now=NOW - 50)
        await put(spool, message(2), now=NOW - 10)
        await put(spool, message(3), now=NOW - 20)
        await put(spool, message(4, mail_class=MailClass.URGENT), now=NOW)
        order = [(await claimed(spool)).queue_id for _ in range(4)]
        assert order == [queue_id(4), queue_id(3), queue_id(2), queue_id(1)]

    async def test_b31_a_bulk_run_does_not_hide_an_urgent_one(self, spool: Spool) -> None:
        await asyncio.gather(*(put(spool, message(n, mail_class=MailClass.BULK)) for n in range(500)))
        await put(spool, message(501, mail_class=MailClass.URGENT))
        assert (await claimed(spool)).queue_id == queue_id(501)

    async def test_b31_what_was_deferred_goes_behind_what_was_not_tried(self, spool: Spool) -> None:
        for number in range(1, 9):
            await put(spool, message(number))
        for _ in range(8):
            claim = await claimed(spool)
            await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 60), NOW)
        await put(spool, message(9))
        assert (await claimed(spool, now=NOW + 1)).queue_id == queue_id(9)
        assert await spool.claim("example.org", 10, NOW + 1) is None

    async def test_b58_many_workers_claim_each_recipient_once(self, spool: Spool) -> None:
        await asyncio.gather(*(put(spool, message(n, ["a@example.org", "b@example.org"])) for n in range(40)))
        seen: list[int] = []

        async def work() -> None:
            while claim := await spool.claim("example.org", 1, NOW):
                seen.extend(one.id for one in claim.recipients)
                await deliver(spool, claim)

        await asyncio.gather(*(work() for _ in range(20)))
        assert len(seen) == len(set(seen)) == 80
        assert (await spool.overview(NOW)).recipients[Status.SENT] == 80

    async def test_b58_a_released_claim_is_due_as_before(self, spool: Spool) -> None:
        await put(spool, message(1))
        first = await claimed(spool)
        await spool.release(first, NOW)
        assert spool.doorbell.take_due() == {normal("example.org"): NOW}
        again = await claimed(spool)
        assert (again.recipients, await events(spool)) == (first.recipients, ["accepted"])

    async def test_b58_a_worker_that_is_gone_while_it_claims_leaves_nothing_claimed(self, spool: Spool) -> None:
        await put(spool, message(1))
        claiming = asyncio.ensure_future(spool.claim("example.org", 1, NOW))
        await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.wait([claiming])
        async with asyncio.timeout(10):
            while await spool.claim("example.org", 1, NOW) is None:
                await asyncio.sleep(0)

    async def test_b58_after_a_restart_nothing_is_claimed(self, house: House, spool: Spool) -> None:
        await put(spool, message(1))
        await claimed(spool)
        assert await status(spool) is Status.SENDING
        again = await house.reopen()
        assert await status(again) is Status.PENDING
        await claimed(again)

    async def test_next_due_leaves_out_what_is_claimed(self, spool: Spool) -> None:
        await put(spool, message(1), now=NOW)
        await put(spool, message(2, mail_class=MailClass.URGENT), now=NOW + 5)
        assert await spool.next_due("example.org", NOW) == NOW
        await claimed(spool)
        assert await spool.next_due("example.org", NOW) == NOW + 5
        assert await spool.next_due("example.net", NOW) is None

    async def test_destinations_come_in_pages_by_name(self, spool: Spool) -> None:
        await put(spool, message(1, ["a@c.example", "a@a.example", "a@b.example"]))
        claim = await claimed(spool, "b.example")
        await deliver(spool, claim)
        assert list(await spool.destinations("", 1, NOW)) == [("a.example", {MailClass.NORMAL: NOW})]
        assert list(await spool.destinations("a.example", 5, NOW)) == [("c.example", {MailClass.NORMAL: NOW})]

    async def test_doubts_go_apart_and_by_their_last_host(self, spool: Spool) -> None:
        await put(spool, message(1, [f"u{n}@example.org" for n in range(4)]))
        claim = await claimed(spool)
        ids = [one.id for one in claim.recipients]
        await spool.mark_in_doubt(claim, ids[:1], "mx1", "192.0.2.1", NOW)
        await spool.mark_in_doubt(claim, ids[1:3], "mx2", "192.0.2.2", NOW)
        doubts = [result(claim, Event.DOUBTED, LATER, next_at=NOW + n, place=n) for n in range(3)]
        await spool.settle(Settlement(claim, tuple(doubts)), NOW)
        groups = [await claimed(spool, now=NOW + 10) for _ in range(3)]
        assert [[one.address[:2] for one in group.recipients] for group in groups] == [["u0"], ["u3"], ["u1", "u2"]]
        assert [one.remote_host for one in groups[2].recipients] == ["mx2", "mx2"]
        assert [one.remote_address for one in groups[0].recipients] == ["192.0.2.1"]
        assert [(one.status, one.doubts) for one in groups[0].recipients] == [(Status.IN_DOUBT, 1)]

    async def test_doubts_whose_content_was_signed_differently_go_apart(self, spool: Spool) -> None:
        await put(spool, message(1, [f"u{n}@example.org" for n in range(3)]))
        claim = await claimed(spool)
        ids = [one.id for one in claim.recipients]
        await spool.mark_in_doubt(claim, ids[::2], "mx1", "192.0.2.1", NOW, "example.org/1")
        await spool.mark_in_doubt(claim, ids[1:2], "mx1", "192.0.2.1", NOW, "example.org/2")
        doubts = [result(claim, Event.DOUBTED, LATER, next_at=NOW, place=n) for n in range(3)]
        await spool.settle(Settlement(claim, tuple(doubts)), NOW)
        first, second = [await claimed(spool) for _ in range(2)]
        assert [one.signed for one in first.recipients] == ["example.org/1"] * 2
        assert [one.signed for one in second.recipients] == ["example.org/2"]


class Overdue:
    async def test_what_rests_is_found_when_its_time_is_over(self, spool: Spool) -> None:
        await put(spool, message(1))
        await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + 9 * DAY), NOW)
        assert await spool.claim_overdue("example.org", 10, NOW + DAY) is None
        claim = await spool.claim_overdue("example.org", 10, NOW + 5 * DAY)
        assert claim is not None
        assert claim.recipients[0].attempts == 1

    async def test_an_unsent_warning_is_overdue_once(self, spool: Spool) -> None:
        await put(spool, message(1, warn_after=60))
        assert await spool.claim_overdue("example.org", 10, NOW + 59) is None
        claim = await spool.claim_overdue("example.org", 10, NOW + 60)
        assert claim is not None
        warned = outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 90, counted=False, notices=[Notice.DSN_DELAYED])
        await spool.settle(warned, NOW + 60)
        assert await spool.claim_overdue("example.org", 10, NOW + 61) is None
        assert (await claimed(spool, now=NOW + 90)).recipients[0].warned

    @pytest.mark.parametrize("notify", ["NEVER", "SUCCESS,FAILURE"])
    async def test_dsn_06_a_warning_that_nobody_wants_is_never_overdue(self, spool: Spool, notify: str) -> None:
        await put(spool, message(1, warn_after=60, notify=notify))
        assert await spool.claim_overdue("example.org", 10, NOW + DAY) is None
        assert await spool.claim_overdue("example.org", 10, NOW + 5 * DAY) is not None

    async def test_what_waits_for_a_person_is_not_given_up(self, spool: Spool) -> None:
        await doubt(spool, next_at=None)
        assert await spool.claim_overdue("example.org", 10, NOW + 9 * DAY) is None
        assert await spool.claim("example.org", 10, NOW + 9 * DAY) is None
        assert await spool.next_due("example.org", NOW) is None


class Settling:
    async def test_a_delivery(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await mark(spool, claim)
        one = result(claim, Event.DELIVERED)
        sent = structs.replace(one, remote_id="4Q2x")
        (settled,) = await spool.settle(Settlement(claim, (sent,)), NOW + 2)
        assert (settled.status, settled.attempts) == (Status.SENT, 1)
        (seen,) = (await view(spool)).recipients
        assert (seen.status, seen.attempts, seen.doubts, seen.finished_at) == (Status.SENT, 1, 0, NOW + 2)
        assert (seen.remote_host, seen.remote_address) == ("mx1.example.org", "192.0.2.1")
        assert (seen.remote_id, seen.reply) == ("4Q2x", OK)
        assert await events(spool) == ["accepted", "sent"]
        assert await spool.claim("example.org", 10, NOW + 9 * DAY) is None

    async def test_a_deferral_rings_for_its_next_attempt(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        spool.doorbell.take_due()
        (settled,) = await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 60), NOW)
        assert (settled.status, settled.attempts) == (Status.PENDING, 1)
        assert spool.doorbell.take_due() == {normal("example.org"): NOW + 60}
        again = await claimed(spool, now=NOW + 60)
        assert (again.recipients[0].attempts, again.recipients[0].reply) == (1, LATER)

    async def test_each_recipient_its_own_result_and_the_rest_as_before(self, spool: Spool) -> None:
        await put(spool, message(1, [f"u{n}@example.org" for n in range(4)]))
        claim = await claimed(spool)
        ids = [one.id for one in claim.recipients]
        await spool.mark_in_doubt(claim, [ids[0]], "mx1", "192.0.2.1", NOW)
        results = (
            result(claim, Event.DELIVERED, OK, place=0),
            result(claim, Event.REFUSED, NO_USER, place=1),
            result(claim, Event.DEFERRED, LATER, next_at=NOW + 60, place=2),
        )
        await spool.settle(Settlement(claim, results), NOW)
        seen = (await view(spool)).recipients
        assert [one.status for one in seen] == [Status.SENT, Status.FAILED, Status.PENDING, Status.PENDING]
        assert [one.attempts for one in seen] == [1, 1, 1, 0]
        assert [one.address for one in (await claimed(spool)).recipients] == ["u3@example.org"]

    async def test_the_timeline_names_servers_attempts_and_replies(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        trial = Trial("mx0.example.org", "192.0.2.9", "TLSv1.3 X", "banner", LATER)
        settlement = outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 60)
        await spool.settle(Settlement(claim, settlement.results, (trial,)), NOW + 1)
        _, attempt, deferred = (await view(spool)).timeline
        assert (attempt.event, attempt.at, attempt.recipient) == ("attempt", NOW + 1, "ann@example.org")
        assert attempt.detail["server"] == "mx0.example.org"
        assert attempt.detail["tls"] == "TLSv1.3 X"
        assert deferred.event == "deferred"
        assert deferred.detail["attempt"] == 1
        assert deferred.detail["reply"] == {"code": 451, "enhanced": "4.3.0", "text": "try later"}
        assert deferred.detail["next_attempt_at"] == NOW + 60

    async def test_a_rest_without_an_attempt_counts_nothing_and_settles_no_doubt(self, spool: Spool) -> None:
        await doubt(spool)
        claim = await claimed(spool, now=NOW + 600)
        resting = outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 700, counted=False)
        (settled,) = await spool.settle(resting, NOW + 600)
        assert (settled.status, settled.attempts) == (Status.IN_DOUBT, 1)
        assert (await claimed(spool, now=NOW + 700)).recipients[0].remote_host == "mx1.example.org"

    async def test_a_rest_after_a_mark_whose_dot_was_not_sent_is_no_doubt(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await mark(spool, claim)
        await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 60, counted=False), NOW)
        assert await status(spool) is Status.PENDING
        assert (await claimed(spool, now=NOW + 60)).recipients[0].remote_host == ""

    async def test_a_settlement_given_again_changes_nothing(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        settlement = outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 60, notices=[Notice.DSN_DELAYED])
        first = await spool.settle(settlement, NOW)
        assert await spool.settle(settlement, NOW) == first
        assert await events(spool) == ["accepted", "deferred"]
        assert len(await spool.notices([Notice.DSN_DELAYED], 10, NOW)) == 1

    async def test_b45_a_cancelled_settlement_sticks(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await mark(spool, claim)
        settling = asyncio.ensure_future(spool.settle(outcome(claim, Event.DELIVERED), NOW))
        await asyncio.sleep(0)
        settling.cancel()
        await asyncio.wait([settling])
        await put(spool, message(2))  # comes after it
        assert await status(spool) is Status.SENT

    async def test_a_failed_report_mail_is_counted_as_untold(self, spool: Spool) -> None:
        await put(spool, message(1, sender="", kind=Kind.REPORT))
        await spool.settle(outcome(await claimed(spool), Event.REFUSED, NO_USER), NOW)
        assert (await spool.overview(NOW)).untold == 1


class Doubt:
    async def test_the_mark_is_undone_where_the_dot_was_not_sent(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await mark(spool, claim)
        await spool.release(claim, NOW)
        (again,) = (await claimed(spool)).recipients
        assert (again.status, again.doubts, again.remote_host) == (Status.PENDING, 0, "")

    async def test_a_crash_after_the_mark_is_a_doubt(self, house: House, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await mark(spool, claim)
        again = await house.reopen(now=NOW + 5)
        assert house.recovered.in_doubt == 1
        (seen,) = (await view(again)).recipients
        assert (seen.status, seen.attempts, seen.doubts, seen.next_attempt_at) == (Status.IN_DOUBT, 1, 1, NOW + 605)
        assert (seen.remote_host, seen.remote_address) == ("mx1.example.org", "192.0.2.1")
        assert await events(again) == ["accepted", "in_doubt"]
        assert (await house.reopen(now=NOW + 6)) is not again
        assert house.recovered.in_doubt == 0

    async def test_a_crash_with_hold_waits_for_a_person_who_is_told_once(self, house: House, spool: Spool) -> None:
        await put(spool, message(1))
        await mark(spool, await claimed(spool))
        again = await house.reopen(retry_after=None)
        again = await house.reopen(retry_after=None)
        assert await again.claim("example.org", 10, NOW + 9 * DAY) is None
        told = await again.notices(Notice, 10, NOW)
        assert [(one.notice, one.queue_id) for one in told] == [(Notice.DSN_DOUBT, ONE), (Notice.ALERT, ONE)]
        assert len({one.step for one in told}) == 1
        ((seen,), total) = await again.needing_person(10)
        assert (seen.queue_id, total) == (ONE, 1)

    @pytest.mark.parametrize("notify", ["NEVER", "FAILURE"])
    async def test_dsn_06_a_held_doubt_is_told_to_who_wants_to_hear_of_delays(
        self, house: House, spool: Spool, notify: str
    ) -> None:
        await put(spool, message(1, notify=notify))
        await mark(spool, await claimed(spool))
        again = await house.reopen(retry_after=None)
        assert [one.notice for one in await again.notices(Notice, 10, NOW)] == [Notice.ALERT]

    async def test_a_crash_before_the_mark_is_none(self, house: House, spool: Spool) -> None:
        await put(spool, message(1))
        await claimed(spool)
        again = await house.reopen()
        assert house.recovered.in_doubt == 0
        assert (await claimed(again)).recipients[0].attempts == 0

    async def test_doubts_are_never_forgotten(self, spool: Spool) -> None:
        await doubt(spool)
        claim = await claimed(spool, now=NOW + 600)
        await mark(spool, claim)
        await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 700), NOW + 600)
        (seen,) = (await view(spool)).recipients
        assert (seen.status, seen.doubts) == (Status.PENDING, 1)
        await spool.settle(outcome(await claimed(spool, now=NOW + 700), Event.GAVE_UP, LATER), NOW + 700)
        (seen,) = (await view(spool)).recipients
        assert (seen.status, seen.doubts) == (Status.DEAD, 1)

    async def test_the_dot_is_not_to_be_sent_for_a_claim_that_is_over(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await spool.release(claim, NOW)
        with pytest.raises(SpoolError):
            await mark(spool, claim)
        assert await status(spool) is Status.PENDING

    async def test_a_delivery_without_its_mark_is_still_a_delivery(self, spool: Spool) -> None:
        await put(spool, message(1))
        await spool.settle(outcome(await claimed(spool), Event.DELIVERED), NOW)
        assert await status(spool) is Status.SENT


class Reports:
    async def test_marks_of_one_commit_are_one_step(self, spool: Spool) -> None:
        await put(spool, message(1, ["a@example.org", "b@example.org"]))
        await put(spool, message(2))
        for _ in range(2):
            refused = outcome(await claimed(spool), Event.REFUSED, NO_USER, notices=[Notice.DSN_FAILED, Notice.REPORT])
            await spool.settle(refused, NOW + 3)
        assert spool.doorbell.notices.is_set()
        marks = await spool.notices([Notice.DSN_FAILED], 1, NOW)
        assert [one.recipient for one in marks] == ["a@example.org", "b@example.org"]
        assert len({one.step for one in marks}) == 1
        (first, *_) = marks
        assert (first.queue_id, first.status, first.attempts, first.at) == (ONE, Status.FAILED, 1, NOW + 3)
        assert (first.reply, first.remote_host, first.phase) == (NO_USER, "mx1.example.org", "final")
        assert (first.reverse_path, first.kind, first.subject) == ("shop@example.com", Kind.MAIL, "hello")
        assert len(await spool.notices([Notice.DSN_FAILED, Notice.REPORT], 100, NOW)) == 6

    async def test_b08_the_report_goes_in_as_its_marks_go_out(self, house: House, spool: Spool) -> None:
        await put(spool, message(1))
        await spool.settle(outcome(await claimed(spool), Event.REFUSED, NO_USER, notices=[Notice.DSN_FAILED]), NOW)
        spool = await house.reopen()
        (due,) = await spool.notices([Notice.DSN_FAILED], 10, NOW)
        with pytest.raises(SpoolError):  # the DSN can't be stored: its queue id is taken
            await spool.report([due.id], message(1, sender="", kind=Kind.DSN), written(spool), NOW)
        spool = await house.reopen()
        assert [one.id for one in await spool.notices([Notice.DSN_FAILED], 10, NOW)] == [due.id]
        assert await spool.claim("example.org", 10, NOW + 9 * DAY) is None  # the failure stays recorded
        await spool.report([due.id], message(2, ["shop@example.com"], sender="", kind=Kind.DSN), written(spool), NOW)
        assert await spool.notices(Notice, 10, NOW) == []
        assert await read(spool, queue_id(2)) == CONTENT
        assert (await claimed(spool, "example.com")).kind is Kind.DSN
        assert await events(spool) == ["accepted", "failed", "bounced"]
        assert (await view(spool)).timeline[-1].detail["dsn"] == queue_id(2)

    async def test_a_report_about_marks_that_are_gone_stores_nothing(self, spool: Spool) -> None:
        await die(spool, notices=[Notice.DSN_FAILED])
        (due,) = await spool.notices(Notice, 10, NOW)
        for number in (2, 3):
            await spool.report([due.id], message(number, ["shop@example.com"], sender=""), written(spool), NOW)
        assert await spool.show(queue_id(2)) is not None
        assert await spool.show(queue_id(3)) is None

    async def test_told_to_nobody_is_counted(self, spool: Spool) -> None:
        await die(spool, notices=[Notice.DSN_FAILED])
        (due,) = await spool.notices(Notice, 10, NOW)
        await spool.report([due.id], None, None, NOW)
        assert (await spool.overview(NOW)).untold == 1
        assert await spool.notices(Notice, 10, NOW) == []

    async def test_a_recipient_gets_one_failed_dsn_ever(self, spool: Spool) -> None:
        await die(spool, notices=[Notice.DSN_FAILED])
        (due,) = await spool.notices(Notice, 10, NOW)
        await spool.report([due.id], None, None, NOW)
        await order(spool, Event.RETRY)
        claim = await claimed(spool)
        await spool.settle(outcome(claim, Event.REFUSED, NO_USER, notices=[Notice.DSN_FAILED, Notice.REPORT]), NOW)
        assert [one.notice for one in await spool.notices(Notice, 10, NOW)] == [Notice.REPORT]

    async def test_what_a_person_took_back_is_not_told(self, spool: Spool) -> None:
        await die(spool, notices=[Notice.DSN_FAILED, Notice.ALERT])
        await order(spool, Event.RETRY)
        assert await spool.notices(Notice, 10, NOW) == []
        await spool.settle(outcome(await claimed(spool), Event.GAVE_UP, LATER, notices=[Notice.DSN_FAILED]), NOW)
        assert len(await spool.notices(Notice, 10, NOW)) == 1


def written(spool: Spool) -> ContentBuffer:
    buffer = spool.buffer()
    buffer.write(CONTENT)
    return buffer


async def pending(spool: Spool) -> None:
    await put(spool, message(1))
    await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + 60), NOW)


async def held(spool: Spool) -> None:
    await pending(spool)
    await order(spool, Event.HOLD)


async def held_in_doubt(spool: Spool) -> None:
    await doubt(spool)
    await order(spool, Event.HOLD)


async def sending(spool: Spool) -> None:
    await put(spool, message(1))
    await claimed(spool)


async def sent(spool: Spool) -> None:
    await put(spool, message(1))
    await deliver(spool, await claimed(spool))


async def failed(spool: Spool) -> None:
    await put(spool, message(1))
    await spool.settle(outcome(await claimed(spool), Event.REFUSED, NO_USER), NOW)


async def dead_with_doubt(spool: Spool) -> None:
    await doubt(spool)
    await spool.settle(outcome(await claimed(spool, now=NOW + 600), Event.GAVE_UP, LATER), NOW)


async def cancelled(spool: Spool) -> None:
    await pending(spool)
    await order(spool, Event.CANCEL)


State = Callable[[Spool], Awaitable[None]]
RETRY, HOLD, RELEASE, CANCEL = Event.RETRY, Event.HOLD, Event.RELEASE, Event.CANCEL
AS_SENT, AGAIN = Event.RESOLVE_SENT, Event.RESOLVE_RESEND
VERBS: dict[State, dict[Event, object]] = {
    pending: {RETRY: "pending", HOLD: "held", RELEASE: "pending", CANCEL: "cancelled", AS_SENT: 65, AGAIN: 65},
    sending: {RETRY: "sending", HOLD: "sending", RELEASE: "sending", CANCEL: "sending", AS_SENT: 65, AGAIN: 65},
    doubt: {RETRY: "in_doubt", HOLD: "held", RELEASE: "in_doubt", CANCEL: "cancelled", AS_SENT: "sent", AGAIN: "pending"},
    held: {RETRY: "held", HOLD: "held", RELEASE: "pending", CANCEL: "cancelled", AS_SENT: 65, AGAIN: 65},
    held_in_doubt: {RETRY: "held", RELEASE: "in_doubt", CANCEL: "cancelled", AS_SENT: "sent", AGAIN: "pending"},
    sent: dict.fromkeys((RETRY, HOLD, RELEASE, CANCEL, AS_SENT, AGAIN), 65),
    failed: dict.fromkeys((RETRY, HOLD, RELEASE, CANCEL, AS_SENT, AGAIN), 65),
    die: {RETRY: "pending", HOLD: 65, RELEASE: 65, CANCEL: 65, AS_SENT: 65, AGAIN: "pending"},
    dead_with_doubt: {RETRY: "pending", HOLD: 65, RELEASE: 65, CANCEL: 65, AS_SENT: "sent", AGAIN: "pending"},
    cancelled: dict.fromkeys((RETRY, HOLD, RELEASE, CANCEL, AS_SENT, AGAIN), 65),
}
"""The table of interface.md section 1."""


class Persons:
    @pytest.mark.parametrize(
        ("state", "event", "expected"),
        [(state, event, after) for state, row in VERBS.items() for event, after in row.items()],
        ids=lambda value: getattr(value, "__name__", str(value)),
    )
    async def test_the_table_of_verbs(self, spool: Spool, state: State, event: Event, expected: object) -> None:
        await state(spool)
        before = await view(spool)
        if expected == 65:
            with pytest.raises(SpoolRefusal, match=ONE):
                await order(spool, event)
            assert await view(spool) == before
            return
        (changed,) = await order(spool, event, now=NOW + 1)
        assert (changed.before, changed.after) == (before.recipients[0].status, expected)
        assert await status(spool) == expected
        assert (await view(spool)).recipients[0].doubts == before.recipients[0].doubts

    async def test_retry_makes_due_now_and_rings(self, spool: Spool) -> None:
        await pending(spool)
        spool.doorbell.take_due()
        await order(spool, Event.RETRY, now=NOW + 1)
        assert spool.doorbell.take_due() == {normal("example.org"): NOW + 1}
        await claimed(spool, now=NOW + 1)

    async def test_a_dead_one_that_is_retried_lives_as_long_again(self, spool: Spool) -> None:
        await die(spool)
        for days in (10, 30):
            await order(spool, Event.RETRY, now=NOW + days * DAY)
            claim = await claimed(spool, now=NOW + days * DAY)
            assert claim.expires_at == NOW + (days + 5) * DAY
            await spool.settle(outcome(claim, Event.GAVE_UP, LATER), NOW + days * DAY)
        assert (await view(spool)).recipients[0].attempts == 3

    async def test_hold_keeps_and_release_lets_go_as_before(self, spool: Spool) -> None:
        await pending(spool)
        await order(spool, Event.HOLD)
        assert await spool.claim("example.org", 10, NOW + DAY) is None
        assert await spool.claim_overdue("example.org", 10, NOW + 9 * DAY) is None
        spool.doorbell.take_due()
        await order(spool, Event.RELEASE)
        assert spool.doorbell.take_due() == {normal("example.org"): NOW + 60}
        assert await spool.next_due("example.org", NOW) == NOW + 60
        assert await events(spool) == ["accepted", "deferred", "held", "released"]

    @pytest.mark.parametrize(("event", "after"), [(Event.HOLD, Status.HELD), (Event.CANCEL, Status.CANCELLED)])
    @pytest.mark.parametrize("ends", ["deferred", "doubted", "gave_up", "released", "not tried", "crash"])
    async def test_what_is_being_sent_is_stopped_when_the_attempt_ends_unsent(
        self, house: House, spool: Spool, event: Event, after: Status, ends: str
    ) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        (changed,) = await order(spool, event)
        assert "when the attempt ends unsent" in changed.note
        if ends == "crash":
            spool = await house.reopen()
        elif ends == "released":
            await spool.release(claim, NOW)
        elif ends == "not tried":
            await spool.settle(Settlement(claim, ()), NOW)
        else:
            settlement = outcome(claim, Event(ends), LATER, next_at=NOW + 1, notices=[Notice.DSN_FAILED])
            assert [one.status for one in await spool.settle(settlement, NOW)] == [after]
        (seen,) = (await view(spool)).recipients
        assert (seen.status, seen.doubts) == (after, int(ends == "doubted"))
        assert await spool.claim("example.org", 10, NOW + DAY) is None

    async def test_a_crash_in_the_dot_of_a_held_one_keeps_the_doubt(self, house: House, spool: Spool) -> None:
        await put(spool, message(1))
        await mark(spool, await claimed(spool))
        await order(spool, Event.HOLD)
        spool = await house.reopen()
        (seen,) = (await view(spool)).recipients
        assert (seen.status, seen.doubts) == (Status.HELD, 1)
        await order(spool, Event.RELEASE)
        assert await status(spool) is Status.IN_DOUBT

    async def test_what_is_sent_nevertheless_is_sent(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await order(spool, Event.CANCEL)
        await deliver(spool, claim)
        assert await status(spool) is Status.SENT

    @pytest.mark.parametrize(("event", "after"), [(Event.HOLD, Status.FAILED), (Event.CANCEL, Status.CANCELLED)])
    async def test_a_refusal_ends_what_was_to_be_held(self, spool: Spool, event: Event, after: Status) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await order(spool, event)
        await spool.settle(outcome(claim, Event.REFUSED, NO_USER, notices=[Notice.DSN_FAILED]), NOW)
        assert await status(spool) is after
        assert len(await spool.notices(Notice, 10, NOW)) == int(after is Status.FAILED)

    async def test_an_order_to_hold_can_be_taken_back(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await order(spool, Event.HOLD)
        await order(spool, Event.RELEASE)
        await spool.release(claim, NOW)
        assert await status(spool) is Status.PENDING

    async def test_what_could_be_told_to_nobody_needs_a_person(self, spool: Spool) -> None:
        await put(spool, message(1, kind=Kind.DSN, sender=""))
        await spool.settle(outcome(await claimed(spool), Event.REFUSED, NO_USER), NOW)
        await put(spool, message(2))
        marks = outcome(await claimed(spool), Event.REFUSED, NO_USER, notices=[Notice.DSN_FAILED])
        await spool.settle(marks, NOW)
        (mark_,) = await spool.notices([Notice.DSN_FAILED], 10, NOW)
        await spool.report([mark_.id], None, None, NOW)
        views, total = await spool.needing_person(10)
        assert ([one.queue_id for one in views], total) == ([ONE, queue_id(2)], 2)
        assert (await spool.overview(NOW)).untold == 2

    async def test_what_a_person_has_seen_or_retention_has_taken_is_untold_no_more(self, spool: Spool) -> None:
        for number in (1, 2):
            await put(spool, message(number, kind=Kind.DSN, sender=""))
            await spool.settle(outcome(await claimed(spool), Event.REFUSED, NO_USER), NOW)
        await spool.seen(ONE, unreported=False, now=NOW)
        assert (await spool.overview(NOW)).untold == 1
        assert [one.queue_id for one in (await spool.needing_person(10))[0]] == [queue_id(2)]
        with pytest.raises(SpoolRefusal):
            await spool.seen(ONE, unreported=True, now=NOW)
        await spool.purge(NOW + 1, NOW + 1, 10, NOW + 2)
        assert (await spool.overview(NOW)).untold == 0

    async def test_a_report_that_waits_is_listed_where_it_is_asked_for(self, spool: Spool) -> None:
        """Without a postmaster it waits for ever, and `mta dead` is where it can be seen (interface.md section 2)."""
        await put(spool, message(1))
        await spool.settle(outcome(await claimed(spool), Event.REFUSED, NO_USER, notices=[Notice.REPORT]), NOW)
        assert (await spool.needing_person(10))[1] == 0
        views, total = await spool.needing_person(10, unreported=True)
        assert ([one.queue_id for one in views], total) == ([ONE], 1)

    @pytest.mark.parametrize("ordered", [None, Event.HOLD, Event.CANCEL])
    async def test_a_give_up_with_a_doubt_keeps_it_whatever_was_ordered(self, spool: Spool, ordered: Event | None) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        await mark(spool, claim)
        if ordered:
            await order(spool, ordered)
        last = structs.replace(result(claim, Event.GAVE_UP, LATER), doubted=True)
        await spool.settle(Settlement(claim, (last,)), NOW)
        (seen,) = (await view(spool)).recipients
        expected = {None: Status.DEAD, Event.HOLD: Status.HELD, Event.CANCEL: Status.CANCELLED}[ordered]
        assert (seen.status, seen.doubts) == (expected, 1)

    async def test_of_a_message_a_verb_takes_those_it_applies_to(self, spool: Spool) -> None:
        """`mta retry REF` of a message that reached one recipient and was given up for another."""
        await put(spool, message(1, ["ann@example.org", "bob@example.org"]))
        claim = await claimed(spool)
        await mark(spool, claim)
        results = (result(claim, Event.DELIVERED), result(claim, Event.GAVE_UP, LATER, place=1))
        await spool.settle(Settlement(claim, results), NOW)
        changed = await spool.order(Event.RETRY, Selection((ONE,)), NOW + 1)
        assert [(one.address, one.after) for one in changed] == [("bob@example.org", Status.PENDING)]
        changed = await spool.order(Event.CANCEL, Selection((ONE,)), NOW + 2)
        assert [(one.address, one.after) for one in changed] == [("bob@example.org", Status.CANCELLED)]
        with pytest.raises(SpoolRefusal, match=ONE):
            await spool.order(Event.CANCEL, Selection((ONE,)), NOW + 3)

    async def test_all_or_none(self, spool: Spool) -> None:
        await put(spool, message(1))
        await put(spool, message(2, ["bob@example.net"]))
        await deliver(spool, await claimed(spool, "example.net"))
        with pytest.raises(SpoolRefusal, match=queue_id(2)):
            await spool.order(Event.HOLD, Selection((ONE, queue_id(2))), NOW)
        with pytest.raises(SpoolRefusal, match=queue_id(9)):
            await spool.order(Event.HOLD, Selection((ONE, queue_id(9))), NOW)
        assert await status(spool) is Status.PENDING
        assert await events(spool) == ["accepted"]

    async def test_one_recipient_of_a_message(self, spool: Spool) -> None:
        await put(spool, message(1, ["Ann@Example.ORG", "bob@example.net"]))
        await order(spool, Event.CANCEL, recipient="Ann@example.org")
        assert [one.status for one in (await view(spool)).recipients] == [Status.CANCELLED, Status.PENDING]
        with pytest.raises(SpoolRefusal, match=r"eve@example\.org"):
            await order(spool, Event.CANCEL, recipient="eve@example.org")

    async def test_what_was_asked_of_dsns_and_who_asked_is_kept(self, house: House, spool: Spool) -> None:
        recipient = NewRecipient("ann@example.org", "example.org", notify="SUCCESS,DELAY", orcpt="rfc822;ann+2B@old.example")
        new = replace(message(1), recipients=(recipient,), ret="HDRS", envid="QQ+3D314", utf8=True, submitter="shop")
        await put(spool, new)
        spool = await house.reopen()
        claim = await claimed(spool)
        assert (claim.ret, claim.envid, claim.utf8) == ("HDRS", "QQ+3D314", True)
        assert (claim.recipients[0].notify, claim.recipients[0].orcpt) == (recipient.notify, recipient.orcpt)
        seen = await view(spool)
        assert (seen.ret, seen.envid, seen.utf8, seen.submitter) == ("HDRS", "QQ+3D314", True, "shop")
        assert (seen.recipients[0].notify, seen.recipients[0].orcpt) == (recipient.notify, recipient.orcpt)
        await spool.settle(outcome(claim, Event.REFUSED, NO_USER, notices=[Notice.DSN_FAILED]), NOW)
        (due,) = await spool.notices(Notice, 10, NOW)
        assert (due.ret, due.envid, due.utf8) == ("HDRS", "QQ+3D314", True)
        assert (due.notify, due.orcpt) == (recipient.notify, recipient.orcpt)

    async def test_retry_of_a_destination_and_of_everything(self, spool: Spool) -> None:
        for number, domain in ((1, "a.example"), (2, "b.example"), (3, "b.example")):
            await put(spool, message(number, [f"u@{domain}"]))
            later = outcome(await claimed(spool, domain), Event.DEFERRED, LATER, next_at=NOW + DAY)
            await spool.settle(later, NOW)
        spool.doorbell.take_due()
        (changed,) = await spool.order(Event.RETRY, Selection(destination="b.example"), NOW + 1)
        assert (changed.address, changed.note) == ("b.example", "2 recipients due now")
        assert spool.doorbell.take_due() == {normal("b.example"): NOW + 1}
        assert [await spool.next_due(name, NOW) for name in ("a.example", "b.example")] == [NOW + DAY, NOW + 1]
        await spool.order(Event.RETRY, Selection(), NOW + 2)
        assert await spool.next_due("a.example", NOW) == NOW + 2

    async def test_what_would_wait_too_long_is_brought_forward(self, spool: Spool) -> None:
        """A doubt keeps its rest, what is held for a person waits for one, and no person's retry reaches a doubt."""
        await put(spool, message(1, ["u@a.example"]))
        await spool.settle(outcome(await claimed(spool, "a.example"), Event.DEFERRED, LATER, next_at=NOW + DAY), NOW)
        for number, domain, again in ((2, "b.example", NOW + DAY), (3, "c.example", None)):
            await put(spool, message(number, [f"u@{domain}"]))
            claim = await claimed(spool, domain)
            await mark(spool, claim)
            await spool.settle(outcome(claim, Event.DOUBTED, LATER, next_at=again), NOW)
        assert await spool.bring_forward(DAY, 600, NOW) == 0
        await spool.order(Event.RETRY, Selection(destination="b.example"), NOW)
        assert await spool.next_due("b.example", NOW) == NOW + DAY
        assert await spool.bring_forward(DAY - 10, 600, NOW) == 2
        due = [await spool.next_due(name, NOW) for name in ("a.example", "b.example", "c.example")]
        assert due == [NOW, NOW + 600, None]
        assert await spool.bring_forward(0, 600, NOW) == 0

    async def test_what_was_looked_at_before_its_release_by_a_wrong_clock_goes_at_its_release(self, spool: Spool) -> None:
        """The clock leapt, name service failed, which is no attempt, and the clock went back."""
        for number, domain in ((1, "a.example"), (2, "b.example")):
            await put(spool, message(number, [f"u@{domain}"], not_before=NOW + 3600))
        claim = await claimed(spool, "a.example", NOW + DAY)
        later = outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 2 * DAY, counted=False)
        await spool.settle(later, NOW + DAY)
        assert await spool.bring_forward(0, 600, NOW) == 1
        assert [await spool.next_due(name, NOW) for name in ("a.example", "b.example")] == [NOW + 3600] * 2
        await spool.order(Event.RETRY, Selection(), NOW)
        assert [await spool.next_due(name, NOW) for name in ("a.example", "b.example")] == [NOW + 3600] * 2

    async def test_only_retry_goes_without_naming_messages(self, spool: Spool) -> None:
        await put(spool, message(1))
        with pytest.raises(SpoolRefusal):
            await spool.order(Event.CANCEL, Selection(destination="example.org"), NOW)
        assert await status(spool) is Status.PENDING

    @pytest.mark.parametrize("name", ["example.org", "*"])
    async def test_a_standing_hold_survives_restarts_until_it_is_taken_back(
        self, house: House, spool: Spool, name: str
    ) -> None:
        await put(spool, message(1))
        await spool.standing_hold(name, True, NOW)
        await spool.standing_hold(name, True, NOW)
        await put(spool, message(2))  # submission goes on
        spool = await house.reopen()
        assert (await spool.overview(NOW)).held_destinations == (name,)
        assert await spool.claim("example.org", 10, NOW) is None
        assert await spool.claim_overdue("example.org", 10, NOW + 9 * DAY) is None
        assert await spool.next_due("example.org", NOW) is None
        spool.doorbell.take_due()
        await spool.standing_hold(name, False, NOW + 1)
        lanes = spool.doorbell.take_due()
        assert {destination for destination, _ in lanes} == {"example.org"}
        assert normal("example.org") in lanes
        assert spool.doorbell.deadlines.is_set()
        await claimed(spool)
        with pytest.raises(SpoolRefusal):
            await spool.standing_hold(name, False, NOW)


class Views:
    async def test_find_by_queue_id_and_message_id(self, spool: Spool) -> None:
        await put(spool, message(1))
        assert list(await spool.find(ONE)) == [ONE]
        assert list(await spool.find("<1@example.com>")) == [ONE]
        assert list(await spool.find("<2@example.com>")) == []
        assert await spool.show("nothing") is None

    async def test_queue_lists_the_unfinished_oldest_first_and_counts_all(self, spool: Spool) -> None:
        for number in range(1, 6):
            await put(spool, message(number))
        await deliver(spool, await claimed(spool))
        found, total = await spool.queue(Filter(limit=2))
        assert ([one.queue_id for one in found], total) == ([queue_id(2), queue_id(3)], 4)
        assert found[0].timeline == ()

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            (Filter(status=Status.PENDING), [2]),
            (Filter(status=Status.SENDING), [1]),
            (Filter(status=Status.HELD), [3]),
            (Filter(status=Status.IN_DOUBT), []),
            (Filter(status=Status.SENT), []),
            (Filter(domain="Example.NET"), [2, 3]),
            (Filter(domain="example.net", status=Status.HELD), [3]),
            (Filter(sender="shop@EXAMPLE.com"), [1, 3]),
            (Filter(sender=""), [2]),
            (Filter(mail_class=MailClass.BULK), [2]),
            (Filter(older_than=NOW - 10), [3]),
        ],
    )
    async def test_queue_filters(self, spool: Spool, wanted: Filter, expected: list[int]) -> None:
        await put(spool, message(1))
        await claimed(spool)
        await put(spool, message(2, ["u@example.net"], sender="", mail_class=MailClass.BULK))
        await put(spool, message(3, ["u@example.net"], at=NOW - 60))
        await order(spool, Event.HOLD, queue_id(3))
        found, total = await spool.queue(wanted)
        assert ([int(one.queue_id) for one in found], total) == (expected, len(expected))

    async def test_overview(self, spool: Spool) -> None:
        await put(spool, message(1, ["a@a.example", "b@b.example", "c@b.example"], at=NOW - 5))
        await put(spool, message(2, ["u@c.example"], mail_class=MailClass.URGENT))
        await put(spool, message(3, ["u@d.example"]))
        await order(spool, Event.HOLD, queue_id(3))
        await spool.settle(outcome(await claimed(spool, "b.example"), Event.DEFERRED, LATER, next_at=NOW + 9), NOW)
        await claimed(spool, "c.example")
        seen = await spool.overview(NOW)
        assert {name: n for name, n in seen.recipients.items() if n} == {
            Status.PENDING: 3, Status.SENDING: 1, Status.HELD: 1
        }  # fmt: skip
        assert [(one.pending, one.oldest_at) for one in seen.classes.values()] == [(1, NOW), (3, NOW - 5), (0, None)]
        assert [(one.destination, one.waiting, one.last_reply) for one in seen.largest] == [
            ("b.example", 2, "451 4.3.0 try later"), ("a.example", 1, ""), ("c.example", 1, "")
        ]  # fmt: skip

    async def test_needing_person_lists_the_dead_and_the_doubts_that_wait(self, spool: Spool) -> None:
        await doubt(spool, next_at=None)
        await die(spool, queue_id(2))
        await put(spool, message(3))
        await spool.quarantine(queue_id(3), "eaten by mice", NOW)
        found, total = await spool.needing_person(2)
        assert ([int(one.queue_id) for one in found], total) == ([1, 2], 3)

    async def test_quarantine_keeps_shows_and_never_tries(self, spool: Spool) -> None:
        await put(spool, message(1))
        await put(spool, message(2))
        await spool.quarantine(ONE, "eaten by mice", NOW)
        await spool.quarantine(ONE, "again", NOW)
        assert (await view(spool)).damaged == "eaten by mice"
        assert (await claimed(spool)).queue_id == queue_id(2)
        assert await spool.claim("example.org", 10, NOW + 9 * DAY) is None
        seen = await spool.overview(NOW)
        assert (seen.damaged, seen.recipients[Status.PENDING], seen.recipients[Status.SENDING]) == (1, 0, 1)
        with pytest.raises(SpoolRefusal, match="eaten by mice"):
            await order(spool, Event.RETRY)
        await order(spool, Event.CANCEL)
        assert (await spool.overview(NOW)).damaged == 0


class Upkeep:
    async def test_content_goes_first_then_the_message(self, spool: Spool) -> None:
        await put(spool, message(1))
        await deliver(spool, await claimed(spool), NOW + 10)
        assert (await spool.purge(NOW + 10, NOW + 10, 10, NOW)).contents == 0
        purged = await spool.purge(NOW + 11, NOW + 10, 10, NOW)
        assert (purged.contents, purged.messages) == (1, 0)
        with pytest.raises(SpoolError):
            await read(spool, ONE)
        assert await status(spool) is Status.SENT
        assert (await spool.purge(NOW + 11, NOW + 11, 10, NOW)).messages == 1
        assert await spool.show(ONE) is None
        assert (await spool.overview(NOW)).recipients[Status.SENT] == 0

    async def test_nothing_unfinished_is_forgotten(self, spool: Spool) -> None:
        await put(spool, message(1, ["a@example.org", "b@example.net"]))
        await deliver(spool, await claimed(spool))
        far = NOW + 99 * DAY
        assert (await spool.purge(far, far, 10, far)).messages == 0
        assert await read(spool, ONE) == CONTENT

    async def test_what_lives_again_is_not_forgotten(self, spool: Spool) -> None:
        await die(spool)
        await order(spool, Event.RETRY)
        far = NOW + 99 * DAY
        assert (await spool.purge(far, far, 10, far)).contents == 0

    async def test_nothing_is_forgotten_whose_sender_is_to_be_told(self, spool: Spool) -> None:
        await die(spool, notices=[Notice.DSN_FAILED])
        far = NOW + 99 * DAY
        assert (await spool.purge(far, far, 10, far)).messages == 0
        (due,) = await spool.notices(Notice, 10, NOW)
        await spool.report([due.id], None, None, NOW)
        assert (await spool.purge(far, far, 10, far)).messages == 1

    async def test_at_most_so_many_at_a_time(self, spool: Spool) -> None:
        for number in range(5):
            await put(spool, message(number))
            await deliver(spool, await claimed(spool))
        steps = [await spool.purge(NOW + 1, NOW + 1, 2, NOW) for _ in range(4)]
        assert [step.messages for step in steps] == [2, 2, 1, 0]

    async def test_after_close_every_verb_is_refused(self, spool: Spool) -> None:
        await put(spool, message(1))
        await spool.close()
        await spool.close()
        with pytest.raises(SpoolError):
            await put(spool, message(2))
        with pytest.raises(SpoolError):
            await spool.claim("example.org", 1, NOW)


class Contract(
    Submission, Claiming, Lanes, Overdue, Deadlines, Scheduled, Settling, Doubt, Reports, Persons, Views, Upkeep, Memories
):
    """All of it."""
