"""What refusals teach."""

import pytest

from mta.policy.ceilings import DAY, LIMIT, RAISED_AFTER, Ceilings


def learned(others: int = 3, now: float = 100.0) -> Ceilings:
    one = Ceilings()
    one.refused("a.test", others, "421 too many")
    assert one.got_through("a.test", now, wanted=True)
    return one


def sessions(one: Ceilings) -> int | None:
    ceiling = one.of("a.test")
    return ceiling.sessions if ceiling else None


def test_a_refusal_beside_others_teaches_when_one_of_them_gets_through() -> None:
    one = Ceilings()
    one.refused("a.test", 4, "421 too many")
    one.refused("a.test", 3, "421 too many")
    assert sessions(one) is None
    assert one.got_through("a.test", 100.0, wanted=False)
    assert sessions(one) == 3
    assert [(name, it.sessions) for name, it in one.take_changes().items() if it] == [("a.test", 3)]
    assert not one.changed


def test_where_nobody_gets_through_nothing_is_learned() -> None:
    one = Ceilings()
    one.refused("a.test", 4, "421 not now")
    one.was_down("a.test")
    assert not one.got_through("a.test", 100.0, wanted=True) and sessions(one) is None


def test_it_only_comes_down_by_refusals() -> None:
    one = learned(3)
    one.refused("a.test", 7, "421 too many")
    one.got_through("a.test", 101.0, wanted=True)
    assert sessions(one) == 3


def test_it_is_raised_by_one_an_hour_where_more_are_wanted_and_ends_after_a_day() -> None:
    one = learned()
    assert not one.got_through("a.test", 100.0 + RAISED_AFTER - 1, wanted=True)
    assert not one.got_through("a.test", 100.0 + RAISED_AFTER, wanted=False)
    assert one.got_through("a.test", 100.0 + RAISED_AFTER, wanted=True) and sessions(one) == 4
    assert not one.got_through("a.test", 101.0 + RAISED_AFTER, wanted=True)
    assert one.forget_old(100.0 + DAY - 1) == [] and one.forget_old(100.0 + DAY) == ["a.test"]
    assert sessions(one) is None


def test_what_is_kept_is_known_again_and_what_is_not_ours_is_refused() -> None:
    (kept,) = learned().take_changes().values()
    assert kept is not None
    one = Ceilings()
    one.recalled("a.test", kept.to_text(), 5.0, 50.0)
    assert sessions(one) == 3
    for text in ("", "3", "[]", '{"sessions": 0}', '{"sessions": "3"}', "{}"):
        with pytest.raises(ValueError):
            one.recalled("b.test", text, 5.0, 50.0)


def test_how_many_are_known_is_bounded() -> None:
    one = Ceilings()
    for number in range(LIMIT + 1):
        one.refused(f"d{number}.test", 1, "421")
        one.got_through(f"d{number}.test", 0.0, wanted=True)
    assert one.of("d0.test") is None and one.of(f"d{LIMIT}.test") is not None
