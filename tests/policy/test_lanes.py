"""Reserves, shares and turns, and what they come to under load that never ends."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mta.model.envelope import MailClass
from mta.policy.lanes import NO_TURNS, LaneRules, Order, after_turn, order, owed_sessions, reserve

URGENT, NORMAL, BULK = MailClass
ALL = (True, True, True)
RULES = LaneRules()


@pytest.mark.parametrize(
    ("cap", "reserved", "owed"),
    [(1, 0, 1), (2, 0, 2), (3, 1, 1), (4, 1, 1), (5, 1, 1), (10, 2, 2), (20, 4, 4), (21, 5, 5), (50, 10, 10)],
)
def test_the_defaults_of_each_cap(cap: int, reserved: int, owed: int) -> None:
    assert (reserve(RULES, cap), owed_sessions(RULES, cap)) == (reserved, owed)


@given(some.integers(3, 200), some.floats(0, 0.9), some.floats(0, 0.5))
def test_two_sessions_are_never_reserved_and_the_reserve_is_never_less_than_asked(cap: int, part: float, share: float):
    rules = LaneRules(part, share)
    assert 0 <= reserve(rules, cap) <= cap - 2
    assert reserve(rules, cap) >= min(part * cap - 1e-6, cap - 2)
    assert owed_sessions(rules, cap) >= share * cap - 1e-6


rules_of = some.builds(LaneRules, some.floats(0, 0.9), some.floats(0, 0.5))
counts = some.tuples(*[some.integers(0, 30)] * 3)
flags = some.tuples(*[some.booleans()] * 3)
owed_turns = some.tuples(some.just(0.0), some.floats(0, 2), some.floats(0, 2))


@given(rules_of, some.integers(1, 40), counts, flags, owed_turns)
def test_who_may_start(rules, cap, running, waiting, turns) -> None:
    got = order(rules, cap, running, waiting, turns)
    assert set(got.classes) <= {it for it in MailClass if waiting[it]}
    assert len(set(got.classes)) == len(got.classes)
    if sum(running) >= cap:
        assert got == Order()
        return
    assert (URGENT in got.classes) == waiting[URGENT]
    ordinary = running[NORMAL] + running[BULK]
    assert (ordinary < cap - reserve(rules, cap)) or not {NORMAL, BULK} & set(got.classes)
    assert got.classes[: len(got.owed)] == got.owed
    others = got.classes[len(got.owed) :]
    assert list(others) == sorted(others), "the highest class first"
    assert URGENT not in got.owed


@given(rules_of, some.integers(1, 40), counts, flags, owed_turns)
def test_a_free_session_is_never_left_idle_below_the_reserve(rules, cap, running, waiting, turns) -> None:
    if any(waiting) and sum(running) < cap and running[NORMAL] + running[BULK] < cap - reserve(rules, cap):
        assert order(rules, cap, running, waiting, turns).classes


def served(rules: LaneRules, cap: int, turns: int, waiting: tuple[bool, ...] = ALL, seed: int = 1) -> Counter[MailClass]:
    """How many turns each class gets of `turns`, where all that wait do so for ever and turns end in any order."""
    chance, owed, running, count = random.Random(seed), NO_TURNS, [0, 0, 0], Counter[MailClass]()
    for _ in range(turns):
        while classes := order(rules, cap, running, waiting, owed).classes:
            it = classes[0]
            owed = after_turn(rules, owed, it, waiting)
            running[it] += 1
            count[it] += 1
        ends = chance.choice([it for it in MailClass for _ in range(running[it])])
        running[ends] -= 1
    return count


@pytest.mark.parametrize("cap", [1, 2, 3, 4, 5, 10, 20])
@pytest.mark.parametrize("waiting", [ALL, (True, False, True)])
def test_b31_bulk_progresses_by_its_share_under_endless_urgent_load(cap: int, waiting: tuple[bool, ...]) -> None:
    count = served(RULES, cap, 5000, waiting)
    assert count[BULK] >= 0.095 * count.total(), count
    assert not waiting[NORMAL] or count[NORMAL] >= 0.085 * count.total(), count
    assert count[URGENT] >= 0.2 * count.total(), count


@settings(max_examples=50, deadline=None)
@given(some.integers(1, 25), rules_of)
def test_bulk_has_its_share_or_half_of_what_is_not_reserved_by_any_rules(cap: int, rules: LaneRules) -> None:
    count = served(rules, cap, 600)
    share = rules.bulk_share if cap < 3 else min(rules.bulk_share, (cap - reserve(rules, cap)) // 2 / cap)
    assert count[BULK] >= share * count.total() * 0.8 - 5, count
    assert cap >= 3 or count[URGENT] >= 0.2 * count.total(), count


def test_one_turn_of_ten_is_bulk_s_where_there_is_one_session() -> None:
    assert served(RULES, 1, 1000, (True, False, True)) == {URGENT: 901, BULK: 99}


def test_half_for_bulk_leaves_urgent_mail_its_turns() -> None:
    count = served(LaneRules(bulk_share=0.5), 1, 1000)
    assert count[BULK] >= 499 and count[URGENT] >= 200, count


def test_what_does_not_wait_saves_nothing_up() -> None:
    turns = NO_TURNS
    for _ in range(50):
        turns = after_turn(RULES, turns, URGENT, (True, False, False))
    assert turns == NO_TURNS
    assert after_turn(RULES, (0.0, 0.9, 0.9), URGENT, (True, True, False)) == (0.0, 1.0, 0.0)


def test_who_runs_least_is_first_among_those_that_are_owed() -> None:
    rules = LaneRules(bulk_share=0.2)
    assert order(rules, 20, (5, 2, 1), ALL, (0, 1, 1)).owed == (BULK, NORMAL)
    assert order(rules, 20, (5, 1, 1), ALL, (0, 1, 1)).owed == (NORMAL, BULK)
    assert order(rules, 20, (5, 8, 1), ALL, (0, 1, 0.9)).owed == (), "it has twice its part, or has not earned a turn yet"


def test_a_debt_that_could_not_be_paid_does_not_grow_for_ever() -> None:
    turns = NO_TURNS
    for _ in range(1000):
        turns = after_turn(RULES, turns, URGENT, ALL)
    assert turns == (0.0, 2.0, 2.0)
