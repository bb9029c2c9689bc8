"""What every spool promises of lanes, deadlines and schedules; part of `tests.spool.contract`."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from mta.model.envelope import ByMode, DeliverBy, Kind, MailClass, Notice
from mta.model.lifecycle import Event, Status
from mta.model.reply import finding
from mta.spool.base import Claim, Filter, MessageView, Selection, Spool
from tests.spool.house import House
from tests.spool.making import (
    DAY,
    LATER,
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
)

HERE = "example.org"
FAILS = DeliverBy(NOW + 60, ByMode.HANDOVER)
TELLS = DeliverBy(NOW + 60, ByMode.NOTIFY)
OVER = NOW + 61
TOO_LATE = finding("5.4.7", "not delivered in time")


def within(seconds: float, mode: ByMode = ByMode.RETURN) -> DeliverBy:
    return DeliverBy(NOW + seconds, mode)


async def shown(spool: Spool, number: int = 1) -> MessageView:
    found = await spool.show(queue_id(number))
    assert found is not None
    return found


async def expired(spool: Spool, now: float = OVER) -> Claim:
    claim = await spool.claim_expired(100, now)
    assert claim is not None
    return claim


async def scheduled(spool: Spool, now: float = NOW) -> list[int]:
    found, total = await spool.queue(Filter(scheduled_after=now))
    assert total == len(found)
    return [int(one.queue_id) for one in found]


async def by_class(spool: Spool, now: float) -> Sequence[tuple[str, Mapping[MailClass, float]]]:
    return list(await spool.destinations("", 10, now))


class Lanes:
    async def test_only_the_classes_asked_for_are_claimed_the_first_of_them_first(self, spool: Spool) -> None:
        for number, mail_class in enumerate(MailClass, 1):
            await put(spool, message(number, mail_class=mail_class))
        assert await spool.claim(HERE, 10, NOW, []) is None
        turns = ([MailClass.BULK, MailClass.URGENT], [MailClass.NORMAL, MailClass.BULK], [MailClass.NORMAL])
        claims = [await spool.claim(HERE, 10, NOW, classes) for classes in turns]
        assert [claim and int(claim.queue_id) for claim in claims] == [3, 2, None]

    async def test_a_claim_tells_when_the_next_of_its_class_is_due(self, spool: Spool) -> None:
        for number, after in enumerate((0, 5, 9), 1):
            await put(spool, message(number), now=NOW + after)
        await put(spool, message(4, mail_class=MailClass.URGENT), now=NOW + 1)
        await put(spool, message(5, ["u@example.net"]), now=NOW + 1)
        claims = [await spool.claim(HERE, 10, NOW + 20, [MailClass.NORMAL]) for _ in range(3)]
        assert [claim and claim.following for claim in claims] == [NOW + 5, NOW + 9, None]

    async def test_the_rest_of_a_split_message_follows_its_first_claim(self, spool: Spool) -> None:
        await put(spool, message(1, [f"u{n}@example.org" for n in range(5)]))
        assert [(await claimed(spool, limit=2)).following for _ in range(3)] == [NOW, NOW, None]

    async def test_what_follows_is_not_what_others_have_claimed(self, spool: Spool) -> None:
        for number in range(1, 4):
            await put(spool, message(number), now=NOW - 10 + number)
        first, second = await claimed(spool), await claimed(spool)
        await spool.release(first, NOW)
        again = await claimed(spool)
        assert (again.queue_id, again.following) == (first.queue_id, NOW - 7)
        assert second.following == NOW - 7

    async def test_what_follows_may_be_due_later(self, spool: Spool) -> None:
        await put(spool, message(1), now=NOW + 30)
        await put(spool, message(2))
        assert (await claimed(spool)).following == NOW + 30

    async def test_a_claim_tells_when_it_was_due(self, spool: Spool) -> None:
        await put(spool, message(1), now=NOW - 7)
        assert [one.next_at for one in (await claimed(spool)).recipients] == [NOW - 7]

    async def test_the_bell_rings_for_a_lane(self, spool: Spool) -> None:
        for number, mail_class in enumerate(MailClass, 1):
            await put(spool, message(number, mail_class=mail_class), now=NOW + number)
        assert spool.doorbell.take_due() == {(HERE, one): NOW + number for number, one in enumerate(MailClass, 1)}
        claim = await spool.claim(HERE, 10, NOW + 9, [MailClass.BULK])
        assert claim is not None
        await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 60), NOW + 9)
        assert spool.doorbell.take_due() == {(HERE, MailClass.BULK): NOW + 60}

    async def test_a_retry_rings_for_the_lanes_it_made_due(self, spool: Spool) -> None:
        for number, mail_class in enumerate((MailClass.URGENT, MailClass.BULK), 1):
            await put(spool, message(number, mail_class=mail_class))
            await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + DAY), NOW)
        await put(spool, message(3))
        spool.doorbell.take_due()
        await spool.order(Event.RETRY, Selection(destination=HERE), NOW + 1)
        assert spool.doorbell.take_due() == {(HERE, MailClass.URGENT): NOW + 1, (HERE, MailClass.BULK): NOW + 1}

    async def test_when_a_class_is_due_next(self, spool: Spool) -> None:
        await put(spool, message(1, mail_class=MailClass.BULK), now=NOW + 1)
        await put(spool, message(2, mail_class=MailClass.URGENT), now=NOW + 2)
        await put(spool, message(3, ["u@example.net"]), now=NOW + 3)
        asked = ([MailClass.BULK], [MailClass.URGENT], [MailClass.NORMAL], list(MailClass))
        assert [await spool.next_due(HERE, NOW, classes) for classes in asked] == [NOW + 1, NOW + 2, None, NOW + 1]
        assert await by_class(spool, NOW) == [
            ("example.net", {MailClass.NORMAL: NOW + 3}),
            (HERE, {MailClass.URGENT: NOW + 2, MailClass.BULK: NOW + 1}),
        ]

    async def test_a_standing_order_taken_back_rings_for_every_lane(self, spool: Spool) -> None:
        await put(spool, message(1, mail_class=MailClass.BULK))
        await put(spool, message(2, mail_class=MailClass.URGENT))
        await spool.standing_hold("*", True, NOW)
        spool.doorbell.take_due()
        await spool.standing_hold("*", False, NOW + 1)
        assert spool.doorbell.take_due() == {(HERE, MailClass.URGENT): NOW + 1, (HERE, MailClass.BULK): NOW + 1}


class Deadlines:
    async def test_what_was_asked_for_is_kept(self, house: House, spool: Spool) -> None:
        by = DeliverBy(NOW + 60.5, ByMode.RETURN, trace=True)
        new = replace(message(1, by=by, not_before=NOW + 9), priority=-4, hold_request="for;9")
        await put(spool, new)
        spool = await house.reopen()
        claim = await claimed(spool, now=NOW + 9)
        assert (claim.priority, claim.deliver_by, claim.not_before) == (-4, by, NOW + 9)
        seen = await shown(spool)
        assert (seen.priority, seen.deliver_by, seen.not_before) == (-4, by, NOW + 9)
        await spool.settle(outcome(claim, Event.REFUSED, TOO_LATE, notices=[Notice.DSN_FAILED]), OVER)
        (due,) = await spool.notices(Notice, 10, OVER)
        assert (due.priority, due.deliver_by, due.hold_request) == (-4, by, "for;9")

    async def test_without_any_there_is_none(self, spool: Spool) -> None:
        await put(spool, message(1))
        claim = await claimed(spool)
        assert (claim.priority, claim.deliver_by, claim.not_before) == (0, None, None)
        assert await spool.next_deadline() is None
        assert await spool.claim_expired(10, NOW + 99 * DAY) is None
        assert not spool.doorbell.deadlines.is_set()

    @pytest.mark.parametrize("mode", [ByMode.HANDOVER, ByMode.RETURN])
    async def test_b35_nothing_is_claimed_after_its_deadline(self, spool: Spool, mode: ByMode) -> None:
        await put(spool, message(1, by=within(60, mode)))
        await put(spool, message(2), now=NOW + 30)
        assert await spool.next_due(HERE, NOW + 59.9) == NOW
        assert await spool.next_due(HERE, NOW + 60) == NOW + 30
        assert await by_class(spool, NOW + 60) == [(HERE, {MailClass.NORMAL: NOW + 30})]
        claim = await claimed(spool, now=NOW + 60)
        assert (claim.queue_id, claim.following) == (queue_id(2), None)
        assert await spool.claim_overdue(HERE, 10, NOW + 9 * DAY) is None
        await deliver(spool, claim)
        assert await by_class(spool, NOW + 60) == []
        assert await spool.next_due(HERE, NOW + 60) is None

    async def test_b34_a_clock_that_goes_back_makes_it_claimable_again(self, spool: Spool) -> None:
        await put(spool, message(1, by=FAILS))
        assert await spool.claim(HERE, 10, NOW + 3600) is None
        assert (await claimed(spool, now=NOW + 59)).following is None

    async def test_what_has_passed_is_found_wherever_it_rests(self, spool: Spool) -> None:
        await put(spool, message(1, ["a@example.org", "b@example.net", "c@example.org"], by=FAILS))
        await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + DAY), NOW)
        assert await spool.claim_expired(10, NOW + 59.9) is None
        found = [await expired(spool, NOW + 60) for _ in range(2)]
        addresses = {claim.destination: [one.address for one in claim.recipients] for claim in found}
        assert addresses == {HERE: ["a@example.org", "c@example.org"], "example.net": ["b@example.net"]}
        assert {(claim.queue_id, claim.deliver_by) for claim in found} == {(queue_id(1), FAILS)}
        assert await spool.claim_expired(10, NOW + 60) is None

    async def test_a_limit_splits_them(self, spool: Spool) -> None:
        await put(spool, message(1, [f"u{n}@example.org" for n in range(3)], by=FAILS))
        parts = [await spool.claim_expired(2, OVER) for _ in range(3)]
        assert [part and len(part.recipients) for part in parts] == [2, 1, None]

    async def test_what_fails_goes_before_what_is_late_the_oldest_deadline_first(self, spool: Spool) -> None:
        orders = [within(9, ByMode.NOTIFY), within(40), within(30, ByMode.HANDOVER), within(8, ByMode.NOTIFY), within(99)]
        for number, by in enumerate(orders, 1):
            await put(spool, message(number, [f"u@{number}.example"], by=by))
        assert await spool.next_deadline() == NOW + 8
        assert [int((await expired(spool, OVER)).queue_id) for _ in range(4)] == [3, 2, 4, 1]
        assert await spool.claim_expired(10, OVER) is None
        assert await spool.next_deadline() == NOW + 99

    async def test_an_end_by_deadline_is_a_failure_that_is_told(self, spool: Spool) -> None:
        await put(spool, message(1, by=FAILS))
        await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + DAY), NOW)
        ends = outcome(await expired(spool), Event.REFUSED, TOO_LATE, counted=False, notices=[Notice.DSN_FAILED], host="")
        (settled,) = await spool.settle(ends, OVER)
        assert (settled.status, settled.attempts) == (Status.FAILED, 1)
        assert [one.notice for one in await spool.notices(Notice, 10, OVER)] == [Notice.DSN_FAILED]
        assert await spool.next_deadline() is None
        await put(spool, message(2))
        (seen,) = (await spool.overview(OVER)).largest
        assert seen.last_reply == str(LATER), "the destination's own word"

    async def test_what_was_only_to_be_told_goes_on(self, house: House, spool: Spool) -> None:
        await put(spool, message(1, by=TELLS, warn_after=3600))
        claim = await expired(spool)
        assert [one.warned for one in claim.recipients] == [False]
        due = claim.recipients[0].next_at
        late = outcome(claim, Event.DEFERRED, LATER, next_at=due, counted=False, notices=[Notice.DSN_LATE])
        await spool.settle(late, OVER)
        spool = await house.reopen()
        assert await spool.claim_expired(10, OVER) is None
        assert await spool.next_deadline() is None
        assert await spool.claim_overdue(HERE, 10, NOW + 3601) is None, "one warning is enough"
        claim = await claimed(spool, now=OVER)
        assert [(one.attempts, one.warned) for one in claim.recipients] == [(0, True)]
        await deliver(spool, claim, OVER)

    async def test_a_late_one_is_claimed_although_nobody_was_told_yet(self, spool: Spool) -> None:
        await put(spool, message(1, by=TELLS))
        assert await spool.next_due(HERE, OVER) == NOW
        assert (await claimed(spool, now=OVER)).deliver_by == TELLS

    async def test_nobody_is_told_of_what_has_no_sender(self, spool: Spool) -> None:
        await put(spool, message(1, sender="", by=TELLS))
        assert await spool.next_deadline() is None
        assert await spool.claim_expired(10, OVER) is None
        await put(spool, message(2, sender="", by=FAILS))
        assert (await expired(spool)).queue_id == queue_id(2)

    @pytest.mark.parametrize("by", [FAILS, TELLS])
    async def test_what_is_being_sent_is_not_ended(self, spool: Spool, by: DeliverBy) -> None:
        await put(spool, message(1, by=by))
        assert await spool.next_deadline() == NOW + 60
        claim = await claimed(spool)
        assert await spool.claim_expired(10, OVER) is None
        assert await spool.next_deadline() is None
        spool.doorbell.deadlines.clear()
        await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 600), OVER)
        assert spool.doorbell.deadlines.is_set()
        assert await spool.next_deadline() == NOW + 60
        await spool.release(await expired(spool), OVER)
        await expired(spool)

    @pytest.mark.parametrize("notify", ["NEVER", "SUCCESS"])
    async def test_dby_08_dsn_06_a_word_that_nobody_wants_is_not_due(self, spool: Spool, notify: str) -> None:
        await put(spool, message(1, by=TELLS, notify=notify))
        assert await spool.next_deadline() is None
        assert await spool.claim_expired(10, OVER) is None
        await put(spool, message(2, by=FAILS, notify=notify))
        await expired(spool)

    async def test_the_bell_of_deadlines_rings_with_a_new_one_and_with_a_claim_that_comes_back(self, spool: Spool) -> None:
        bell = spool.doorbell.deadlines
        await put(spool, message(1, by=FAILS))
        assert bell.is_set()
        claim = await claimed(spool)
        bell.clear()
        await spool.release(claim, NOW)
        assert bell.is_set()

    async def test_what_a_person_holds_waits_and_fails_after_its_release(self, spool: Spool) -> None:
        await put(spool, message(1, by=FAILS))
        await spool.order(Event.HOLD, Selection((queue_id(1),)), NOW)
        assert await spool.claim_expired(10, OVER) is None
        assert await spool.next_deadline() is None
        spool.doorbell.deadlines.clear()
        await spool.order(Event.RELEASE, Selection((queue_id(1),)), OVER)
        assert spool.doorbell.deadlines.is_set()
        assert await spool.claim(HERE, 10, OVER) is None
        await expired(spool)

    @pytest.mark.parametrize("name", [HERE, "*"])
    async def test_a_standing_order_holds_over_a_deadline(self, spool: Spool, name: str) -> None:
        await put(spool, message(1, by=FAILS))
        await put(spool, message(2, ["u@example.net"], by=within(70)))
        await spool.standing_hold(name, True, NOW)
        assert await spool.next_deadline() == (None if name == "*" else NOW + 70)
        assert await spool.claim_expired(10, OVER) is None
        spool.doorbell.deadlines.clear()
        await spool.standing_hold(name, False, OVER)
        assert spool.doorbell.deadlines.is_set()
        assert (await expired(spool)).queue_id == queue_id(1)

    @pytest.mark.parametrize("rest", [None, 600])
    async def test_a_doubt_ends_with_its_deadline_unless_a_person_decides(self, spool: Spool, rest: float | None) -> None:
        await put(spool, message(1, by=FAILS))
        claim = await claimed(spool)
        await mark(spool, claim)
        next_at = None if rest is None else NOW + rest
        await spool.settle(outcome(claim, Event.DOUBTED, LATER, next_at=next_at), NOW)
        found = await spool.claim_expired(10, OVER)
        assert (found and found.recipients[0].status) == (None if rest is None else Status.IN_DOUBT)
        assert await spool.next_deadline() is None
        if rest is None:
            await spool.order(Event.RESOLVE_RESEND, Selection((queue_id(1),)), OVER)
            assert (await expired(spool)).queue_id == queue_id(1)

    async def test_what_is_finished_has_no_deadline(self, spool: Spool) -> None:
        await put(spool, message(1, by=FAILS))
        await deliver(spool, await claimed(spool))
        await put(spool, message(2, by=FAILS))
        await spool.order(Event.CANCEL, Selection((queue_id(2),)), NOW)
        assert await spool.next_deadline() is None
        assert await spool.claim_expired(10, OVER) is None

    @pytest.mark.parametrize(("notice", "action"), [(Notice.DSN_LATE, "delayed"), (Notice.DSN_RELAYED, "relayed")])
    async def test_the_timeline_has_what_the_sender_was_told(self, spool: Spool, notice: Notice, action: str) -> None:
        await put(spool, message(1, by=TELLS))
        claim = await claimed(spool)
        await mark(spool, claim)
        await spool.settle(outcome(claim, Event.DELIVERED, OK, notices=[notice]), NOW)
        assert (await spool.purge(OVER, OVER, 10, OVER)).messages == 0, "the sender is still to be told"
        (due,) = await spool.notices(Notice, 10, NOW)
        content = spool.buffer()
        content.write(b"told")
        await spool.report([due.id], message(2, ["shop@example.com"], sender="", kind=Kind.DSN), content, NOW)
        assert (await shown(spool)).timeline[-1].detail["action"] == action


class Scheduled:
    async def test_nothing_is_tried_before_its_release(self, house: House, spool: Spool) -> None:
        await put(spool, message(1, not_before=NOW + 60))
        assert spool.doorbell.take_due() == {normal(HERE): NOW + 60}
        spool = await house.reopen()
        assert await spool.claim(HERE, 10, NOW + 59.9) is None
        assert await spool.next_due(HERE, NOW) == NOW + 60
        assert await by_class(spool, NOW) == [(HERE, {MailClass.NORMAL: NOW + 60})]
        assert (await shown(spool)).recipients[0].next_attempt_at == NOW + 60
        assert (await claimed(spool, now=NOW + 60)).not_before == NOW + 60

    @pytest.mark.parametrize("selection", [Selection(destination=HERE), Selection()])
    async def test_a_retry_of_many_leaves_it_alone(self, spool: Spool, selection: Selection) -> None:
        await put(spool, message(1, not_before=NOW + 60))
        await put(spool, message(2))
        await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + 90), NOW)
        (changed,) = await spool.order(Event.RETRY, selection, NOW + 1)
        assert changed.note == "1 recipients due now"
        assert (await claimed(spool, now=NOW + 1)).queue_id == queue_id(2)
        assert await spool.claim(HERE, 10, NOW + 59) is None
        assert len(await spool.order(Event.RETRY, selection, NOW + 60)) == 0, "due since its release"

    async def test_a_retry_after_a_step_back_of_the_clock_finds_what_was_released(self, spool: Spool) -> None:
        """B34: it was accepted, and tried, while the clock was two days ahead."""
        await put(spool, message(1, at=NOW + 2 * DAY, not_before=NOW + 2 * DAY + 60))
        claim = await claimed(spool, now=NOW + 2 * DAY + 60)
        await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 2 * DAY + 120), NOW + 2 * DAY + 60)
        await spool.order(Event.RETRY, Selection(), NOW)
        assert (await claimed(spool, now=NOW)).queue_id == queue_id(1)

    async def test_a_retry_by_name_releases_it(self, spool: Spool) -> None:
        await put(spool, message(1, not_before=NOW + 60))
        await spool.order(Event.RETRY, Selection((queue_id(1),)), NOW + 1)
        claim = await claimed(spool, now=NOW + 1)
        assert await scheduled(spool, NOW + 1) == []
        await spool.settle(outcome(claim, Event.DEFERRED, LATER, next_at=NOW + 30), NOW + 1)
        assert await scheduled(spool, NOW + 1) == [], "it was tried: what it waits for now is its next attempt"

    async def test_held_and_released_it_waits_for_its_instant(self, spool: Spool) -> None:
        await put(spool, message(1, not_before=NOW + 60))
        await spool.order(Event.HOLD, Selection((queue_id(1),)), NOW)
        assert await scheduled(spool) == []
        await spool.order(Event.RELEASE, Selection((queue_id(1),)), NOW + 1)
        assert await scheduled(spool) == [1]
        assert await spool.claim(HERE, 10, NOW + 59) is None
        await claimed(spool, now=NOW + 60)

    async def test_it_can_be_listed_and_cancelled(self, spool: Spool) -> None:
        await put(spool, message(1, not_before=NOW + 60))
        await put(spool, message(2))
        await put(spool, message(3, ["u@example.net"], not_before=NOW + 90))
        await put(spool, message(4))
        await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + DAY), NOW)
        await put(spool, message(5))
        await spool.settle(outcome(await claimed(spool), Event.DEFERRED, LATER, next_at=NOW + DAY, counted=False), NOW)
        assert await scheduled(spool) == [1, 3]
        assert await scheduled(spool, NOW + 60) == [3]
        found, _ = await spool.queue(Filter(scheduled_after=NOW, domain=HERE, status=Status.PENDING))
        assert [int(one.queue_id) for one in found] == [1]
        await spool.order(Event.CANCEL, Selection((queue_id(1),)), NOW)
        assert await scheduled(spool) == [3]
        assert await spool.claim_overdue(HERE, 10, NOW + 60) is None
        assert list(await spool.notices(Notice, 10, NOW)) == []

    async def test_it_has_no_age_before_its_release(self, spool: Spool) -> None:
        await put(spool, message(1, at=NOW - DAY, not_before=NOW + 60))
        ages = [(await spool.overview(now)).classes[MailClass.NORMAL] for now in (NOW, NOW + 60)]
        assert [(one.pending, one.oldest_at) for one in ages] == [(1, None), (1, NOW + 60)]
        await put(spool, message(2, at=NOW - 5))
        assert (await spool.overview(NOW + 60)).classes[MailClass.NORMAL].oldest_at == NOW - 5

    async def test_given_up_and_tried_again_it_lives_as_long_as_from_its_release(self, spool: Spool) -> None:
        await put(spool, message(1, not_before=NOW + 60 * DAY))
        released = NOW + 60 * DAY
        claim = await claimed(spool, now=released)
        await spool.settle(outcome(claim, Event.GAVE_UP, LATER), released + 5 * DAY)
        await spool.order(Event.RETRY, Selection((queue_id(1),)), released + 6 * DAY)
        assert (await shown(spool)).expires_at == released + 11 * DAY
