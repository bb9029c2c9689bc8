"""Who is told what (interface.md section 4), as a table."""

import pytest

from mta.model.envelope import Kind, Notice
from mta.model.lifecycle import Event
from mta.policy.notices import DSN_NOTICES, notices_for

F, D, H, R, A = Notice.DSN_FAILED, Notice.DSN_DELAYED, Notice.DSN_DOUBT, Notice.REPORT, Notice.ALERT
EVENTS: list[tuple[Event, bool, bool, set[Notice], set[Notice]]] = [
    # event, held doubt, warning due, to the sender, to the postmaster
    (Event.DELIVERED, False, False, set(), set()),
    (Event.DELIVERED, False, True, set(), set()),
    (Event.REFUSED, False, False, {F}, {R}),
    (Event.REFUSED, False, True, {F}, {R}),
    (Event.GAVE_UP, False, False, {F}, {A}),
    (Event.GAVE_UP, False, True, {F}, {A}),
    (Event.DEFERRED, False, False, set(), set()),
    (Event.DEFERRED, False, True, {D}, set()),
    (Event.DOUBTED, False, False, set(), set()),
    (Event.DOUBTED, False, True, {D}, set()),
    (Event.DOUBTED, True, False, {H}, {A}),
    (Event.DOUBTED, True, True, {H}, {A}),
]


@pytest.mark.parametrize(("event", "held", "warn", "sender", "postmaster"), EVENTS)
def test_a_mail(event: Event, held: bool, warn: bool, sender: set[Notice], postmaster: set[Notice]):
    assert set(notices_for(Kind.MAIL, "a@example.com", event, held, warn)) == sender | postmaster


@pytest.mark.parametrize("kind", [Kind.MAIL, Kind.DSN])
@pytest.mark.parametrize(("event", "held", "warn", "sender", "postmaster"), EVENTS)
def test_b09_the_null_path_gets_no_dsn(
    kind: Kind, event: Event, held: bool, warn: bool, sender: set[Notice], postmaster: set[Notice]
):
    """B09, DSN-07: at any age and for any failure; the postmaster hears of it all the same."""
    assert set(notices_for(kind, "", event, held, warn)) == postmaster


@pytest.mark.parametrize("kind", [Kind.REPORT, Kind.ALERT])
@pytest.mark.parametrize(("event", "held", "warn", "sender", "postmaster"), EVENTS)
def test_b09_no_report_breeds_a_report(
    kind: Kind, event: Event, held: bool, warn: bool, sender: set[Notice], postmaster: set[Notice]
):
    assert notices_for(kind, "", event, held, warn) == ()


@pytest.mark.parametrize(("event", "held"), [(Event.GAVE_UP, False), (Event.DOUBTED, True)])
def test_each_way_to_call_a_person_has_a_mark_of_its_own(event: Event, held: bool):
    ways = (Notice.ALERT, Notice.ALERT_COMMAND, Notice.ALERT_WEBHOOK)
    assert notices_for(Kind.DSN, "", event, held, warn=False, alerts=ways) == ways
    assert notices_for(Kind.ALERT, "", event, held, warn=False, alerts=ways) == ()


def test_every_notice_to_a_sender_is_a_dsn():
    of_deadlines = {Notice.DSN_LATE, Notice.DSN_RELAYED}
    assert {notice for row in EVENTS for notice in row[3]} | of_deadlines == set(DSN_NOTICES)


@pytest.mark.parametrize(
    ("event", "what", "notice"),
    [(Event.DELIVERED, {"relayed": True}, Notice.DSN_RELAYED), (Event.DEFERRED, {"late": True}, Notice.DSN_LATE)],
)
def test_a_word_about_a_deadline_is_for_the_sender_of_a_mail_alone(event: Event, what: dict[str, bool], notice: Notice):
    """DBY-08, DBY-09, DBY-10; and never to the null path."""
    assert notices_for(Kind.MAIL, "a@example.com", event, False, False, **what) == (notice,)
    assert notices_for(Kind.MAIL, "", event, False, False, **what) == ()
    for kind in (Kind.DSN, Kind.REPORT, Kind.ALERT):
        assert notices_for(kind, "a@example.com", event, False, False, **what) == ()


@pytest.mark.parametrize("notify", ["", "NEVER", "SUCCESS", "FAILURE", "DELAY", "SUCCESS,FAILURE,DELAY"])
@pytest.mark.parametrize(("event", "held", "warn", "sender", "postmaster"), EVENTS)
def test_dsn_06_notify_decides_what_the_sender_is_told_and_nothing_else(
    event: Event, held: bool, warn: bool, sender: set[Notice], postmaster: set[Notice], notify: str
):
    wanted = {F: "FAILURE", D: "DELAY", H: "DELAY"}
    expected = {notice for notice in sender if not notify or wanted[notice] in notify}
    assert set(notices_for(Kind.MAIL, "a@example.com", event, held, warn, notify=notify)) == expected | postmaster


@pytest.mark.parametrize(
    ("notify", "late", "relayed"),
    [("", True, True), ("NEVER", False, False), ("SUCCESS", False, True), ("FAILURE", False, True), ("DELAY", True, True)],
)
def test_dby_08_dby_10_dsn_06_words_of_deadlines(notify: str, late: bool, relayed: bool):
    """Late is a delay; what is handed over is told of to all but NEVER."""
    told = notices_for(Kind.MAIL, "a@example.com", Event.DEFERRED, False, False, late=True, notify=notify)
    assert told == ((Notice.DSN_LATE,) if late else ())
    told = notices_for(Kind.MAIL, "a@example.com", Event.DELIVERED, False, False, relayed=True, notify=notify)
    assert told == ((Notice.DSN_RELAYED,) if relayed else ())


@pytest.mark.parametrize("event", [Event.REFUSED, Event.GAVE_UP, Event.DEFERRED])
def test_what_was_not_delivered_was_not_relayed(event: Event):
    told = notices_for(Kind.MAIL, "a@example.com", event, False, False, relayed=True)
    assert Notice.DSN_RELAYED not in told
