"""How many sessions, and when none."""

import random

import pytest

from mta.model.envelope import MailClass
from mta.policy.concurrency import WELL, Standing, Window, after_trouble, fresh, narrower, probed, wider

URGENT, NORMAL, BULK = MailClass


def grown(window: Window, cap: int, times: int, *, wanted: bool = True) -> int:
    for _ in range(times):
        window = wider(window, cap, wanted=wanted)
    return window.allowed


def test_it_begins_with_a_few_and_has_one_more_when_as_many_as_there_are_have_succeeded() -> None:
    """RTY-05."""
    assert [fresh(cap).allowed for cap in (1, 2, 5, 20)] == [1, 2, 5, 5]
    assert [grown(fresh(20), 20, times) for times in (4, 5, 10, 11, 17, 18)] == [5, 6, 6, 7, 7, 8]
    assert grown(fresh(20), 20, sum(range(5, 20))) == 20 == grown(fresh(20), 20, 10_000)


def test_it_does_not_grow_beyond_the_first_few_without_mail_that_waits() -> None:
    assert grown(Window(1), 20, 100, wanted=False) == 5
    assert grown(Window(9), 20, 100, wanted=False) == 9


def test_a_failure_costs_one_and_what_was_gathered_for_another() -> None:
    nearly = wider(wider(Window(10), 20, wanted=True), 20, wanted=True)
    assert narrower(nearly) == Window(9)
    assert narrower(Window(1)) == Window(1)


@pytest.mark.parametrize("part", [0.2, 0.1])
def test_it_settles_where_a_cohort_has_one_failure(part: float) -> None:
    chance, window, sizes = random.Random(7), fresh(200), []
    for _ in range(20_000):
        window = narrower(window) if chance.random() < part else wider(window, 200, wanted=True)
        sizes.append(window.allowed)
    assert 0.3 / part < sum(sizes) / len(sizes) < 2 / part


# ---------------------------------------------------------------- rests
def test_a_lonely_session_s_failure_is_everybody_s_and_rests_longer_for_others_than_for_urgent_mail() -> None:
    standing = after_trouble(WELL, 1, 100.0, 60.0)
    assert standing.failures == 1
    assert [standing.rests(100.9, it) for it in MailClass] == [True, True, True]
    assert [standing.rests(101.0, it) for it in MailClass] == [False, True, True]
    assert not standing.rests(160.0, BULK)


def test_it_rests_when_as_many_have_failed_as_there_are_sessions_and_none_got_through() -> None:
    standing = WELL
    for number in range(4):
        standing = after_trouble(standing, 4, 100.0, 60.0)
        assert standing.rests(100.0) is (number == 3)
    assert after_trouble(after_trouble(WELL, 20, 100.0, 60.0), 19, 100.0, 60.0).failures == 0


def test_urgent_probes_in_a_rest_do_not_lengthen_it_and_rest_themselves() -> None:
    standing = after_trouble(WELL, 1, 100.0, 60.0)
    standing = after_trouble(standing, 1, 101.0, 60.0)
    assert (standing.failures, standing.rests_until, standing.urgent_until) == (1, 160.0, 102.0)
    assert after_trouble(standing, 1, 160.0, 120.0) == Standing(2, 0.0, 280.0, 161.0)


def test_a_short_rest_is_short_for_all() -> None:
    assert after_trouble(WELL, 1, 100.0, 0.5).urgent_until == 100.5


def test_a_person_s_wish_ends_a_rest_and_keeps_the_count() -> None:
    troubled = after_trouble(after_trouble(WELL, 1, 100.0, 60.0), 1, 200.0, 120.0)
    assert probed(troubled) == Standing(failures=2)
