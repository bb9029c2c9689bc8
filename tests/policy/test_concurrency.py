"""How many sessions, and when none."""

import random

import pytest

from mta.model.envelope import MailClass
from mta.policy.concurrency import WELL, Bounds, Standing, Window, after_trouble, fresh, narrower, probed, wider

URGENT, NORMAL, BULK = MailClass
USUAL = Bounds()


def grown(window: Window, times: int, bounds: Bounds = USUAL, *, wanted: bool = True) -> int:
    for _ in range(times):
        window = wider(window, bounds, wanted=wanted)
    return window.allowed


def test_it_begins_with_a_few_or_with_what_is_configured_but_not_above_the_cap() -> None:
    assert [fresh(Bounds(most=most)).allowed for most in (1, 2, 5, 20)] == [1, 2, 5, 5]
    assert [fresh(Bounds(first, 20)).allowed for first in (1, 7, 20, 100)] == [1, 7, 20, 20]


def test_until_the_first_trouble_it_doubles_with_each_round_up_to_the_cap() -> None:
    """RTY-05. A round is a success of each session: 5 make it 10, and 10 more make it 20."""
    assert [grown(fresh(USUAL), times) for times in (1, 5, 15, 16, 1000)] == [6, 10, 20, 20, 20]


def test_after_trouble_it_has_one_more_when_as_many_as_there_are_have_succeeded() -> None:
    """RTY-05: also long after it, and when it was at the cap."""
    careful = narrower(Window(10))
    assert [grown(careful, times) for times in (8, 9, 18, 19)] == [9, 10, 10, 11]
    assert grown(narrower(Window(20)), 18) == 19


def test_below_a_ceiling_that_was_learned_it_grows_with_care_from_the_beginning() -> None:
    learned = Bounds(most=12, learned=True)
    assert [grown(fresh(learned), times, learned) for times in (4, 5, 10, 11, 10_000)] == [5, 6, 6, 7, 12]


@pytest.mark.parametrize("bears", range(5, 20))
def test_a_server_is_overstepped_by_as_many_again_at_most_and_finds_its_number_at_once(bears: int) -> None:
    """It refuses as soon as it has too many; what began in the round before is on its way then."""
    window = fresh(USUAL)
    while window.allowed <= bears:
        window = Window(grown(window, window.allowed))
    assert window.allowed - bears <= min(bears, 10)
    for _ in range(window.allowed - bears):
        window = narrower(window)
    assert window.allowed == bears
    assert grown(window, bears) == bears + 1, "the next time by one"


def test_up_to_what_it_began_with_every_success_counts_one_also_after_trouble() -> None:
    assert grown(narrower(Window(2)), 4) == 5
    assert grown(narrower(Window(2)), 7, Bounds(first=8)) == 8


def test_it_does_not_grow_beyond_the_first_few_without_mail_that_waits() -> None:
    assert grown(Window(1), 100, wanted=False) == 5
    assert grown(Window(9), 100, wanted=False) == 9


def test_a_failure_costs_one_and_what_was_gathered_for_another() -> None:
    nearly = wider(narrower(Window(11)), USUAL, wanted=True)
    assert nearly.credit and not narrower(nearly).credit
    assert (narrower(nearly).allowed, narrower(Window(1)).allowed) == (9, 1)


@pytest.mark.parametrize("part", [0.2, 0.1])
def test_it_settles_where_a_cohort_has_one_failure(part: float) -> None:
    chance, window, sizes = random.Random(7), fresh(USUAL), []
    for _ in range(20_000):
        window = narrower(window) if chance.random() < part else wider(window, Bounds(most=200), wanted=True)
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
