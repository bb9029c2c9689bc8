"""The lifecycle table: complete, closed, and what the docs say."""

from pathlib import Path

import pytest

from docs.make_lifecycle import page
from mta.model.lifecycle import (
    COMMITS,
    FINISHED,
    NEEDS_DOUBT,
    NO_EFFECT,
    RESTORING,
    STORED,
    TRANSITIONS,
    Event,
    IllegalTransition,
    Status,
    after,
)

PERSONS = {Event.RETRY, Event.HOLD, Event.CANCEL, Event.RESOLVE_SENT, Event.RESOLVE_RESEND}
PAIRS = [(status, event) for status in STORED for event in Event if event not in RESTORING]


def test_the_page_in_docs_is_made_from_the_table():
    assert (Path(__file__).parents[2] / "docs" / "lifecycle.md").read_text() == page()


@pytest.mark.parametrize(("status", "event"), PAIRS)
def test_every_pair_leads_where_the_table_says_or_is_refused(status: Status, event: Event):
    if (status, event) in NO_EFFECT:
        assert after(status, event) is status
    elif (status, event) in TRANSITIONS:
        assert after(status, event, doubts=1) is TRANSITIONS[status, event]
    else:
        with pytest.raises(IllegalTransition, match=str(event)):
            after(status, event, doubts=1)


@pytest.mark.parametrize(("status", "event"), sorted(NEEDS_DOUBT))
def test_what_was_never_in_doubt_is_not_resolved(status: Status, event: Event):
    with pytest.raises(IllegalTransition):
        after(status, event, doubts=0)


def test_nothing_of_the_daemons_leaves_a_finished_status():
    assert not [pair for pair in TRANSITIONS if pair[0] in FINISHED and pair[1] not in PERSONS]


def test_delivered_only_after_the_mark():
    """A recipient becomes `sent` by the daemon only from `in_doubt`: the mark comes before the dot."""
    assert [a for (a, event), b in TRANSITIONS.items() if event is Event.DELIVERED] == [Status.IN_DOUBT]


def test_every_status_can_be_reached_and_every_unfinished_one_can_end():
    reached, frontier = set(), [Status.PENDING]
    while frontier:
        status = frontier.pop()
        reached.add(status)
        frontier += [b for (a, _), b in TRANSITIONS.items() if a is status and b not in reached]
    assert reached == set(STORED)
    for status in set(STORED) - FINISHED:
        assert [b for (a, _), b in TRANSITIONS.items() if a is status and b in FINISHED]


def test_every_event_has_its_commit():
    assert set(COMMITS) == set(Event)
