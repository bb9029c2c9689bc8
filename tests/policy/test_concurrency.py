"""How many sessions, and when none."""

from mta.model.envelope import MailClass
from mta.policy.concurrency import Standing, after_progress, after_trouble, fresh, probed

URGENT, NORMAL, BULK = MailClass


def test_it_begins_with_a_few_and_doubles_up_to_the_cap() -> None:
    """RTY-05."""
    assert [fresh(cap).allowed for cap in (1, 2, 5, 20)] == [1, 2, 5, 5]
    standing, allowed = fresh(20), []
    for _ in range(4):
        standing = after_progress(standing, 20)
        allowed.append(standing.allowed)
    assert allowed == [10, 20, 20, 20]
    assert after_progress(Standing(20), 10).allowed == 20, "a smaller cap is the caller's to apply"


def test_a_failure_rests_longer_for_others_than_for_urgent_mail() -> None:
    standing = after_trouble(Standing(10), 100.0, 60.0)
    assert (standing.allowed, standing.failures) == (1, 1)
    assert [standing.rests(100.9, it) for it in MailClass] == [True, True, True]
    assert [standing.rests(101.0, it) for it in MailClass] == [False, True, True]
    assert not standing.rests(160.0, BULK)


def test_urgent_probes_in_a_rest_do_not_lengthen_it_and_rest_themselves() -> None:
    standing = after_trouble(Standing(10), 100.0, 60.0)
    standing = after_trouble(standing, 101.0, 60.0)
    assert (standing.failures, standing.rests_until, standing.urgent_until) == (1, 160.0, 102.0)
    assert after_trouble(standing, 160.0, 120.0) == Standing(1, 2, 280.0, 161.0)


def test_a_short_rest_is_short_for_all() -> None:
    assert after_trouble(Standing(10), 100.0, 0.5).urgent_until == 100.5


def test_progress_ends_every_rest_and_a_person_s_wish_keeps_the_count() -> None:
    troubled = after_trouble(after_trouble(Standing(10), 100.0, 60.0), 200.0, 120.0)
    assert after_progress(troubled, 10) == Standing(2)
    assert probed(troubled) == Standing(1, failures=2)
