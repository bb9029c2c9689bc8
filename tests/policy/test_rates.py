"""Token buckets, with a clock that is given."""

from hypothesis import given
from hypothesis import strategies as st

from mta.policy.rates import Buckets, Rate

RATE = Rate(amount=60, period=60.0, burst=5)


def test_a_burst_goes_at_once_and_then_one_a_second() -> None:
    buckets = Buckets(10)
    assert [buckets.take("a", RATE, 0.0) for _ in range(6)] == [True] * 5 + [False]
    assert [buckets.take("a", RATE, at) for at in (0.5, 1.0, 1.5, 2.0)] == [False, True, False, True]
    assert [buckets.take("a", RATE, 1000.0) for _ in range(6)] == [True] * 5 + [False], "no more than the burst is saved up"


def test_each_key_has_its_own() -> None:
    buckets = Buckets(10)
    assert not all(buckets.take("a", RATE, 0.0) for _ in range(6))
    assert buckets.take("b", RATE, 0.0)


def test_a_clock_that_is_set_back_stops_nobody() -> None:
    buckets = Buckets(10)
    for _ in range(5):
        buckets.take("a", RATE, 10_000.0)
    assert not buckets.take("a", RATE, 100.0)
    assert buckets.take("a", RATE, 101.0)


def test_what_is_given_back_can_be_taken_again_and_is_no_more_than_that() -> None:
    buckets = Buckets(10)
    assert all(buckets.take("a", RATE, 0.0) for _ in range(5))
    buckets.give_back("a", RATE, 0.0)
    assert [buckets.take("a", RATE, 0.0) for _ in range(2)] == [True, False]
    for _ in range(9):
        buckets.give_back("a", RATE, 0.0)
    assert len(buckets) == 0, "a full bucket is forgotten"
    assert [buckets.take("a", RATE, 0.0) for _ in range(6)] == [True] * 5 + [False]


@given(st.lists(st.integers(0, 50)))
def test_memory_is_bounded_and_the_oldest_are_forgotten(keys: list[int]) -> None:
    buckets = Buckets(3)
    for key in keys:
        buckets.take(key, RATE, 0.0)
    recent = list(dict.fromkeys(reversed(keys)))[:3]
    assert len(buckets) == len(recent)
    assert all(buckets.level(key, RATE, 0.0) < 5 for key in recent)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60))
def test_never_more_than_the_burst_and_what_has_flowed_in(times: list[float]) -> None:
    buckets = Buckets(1)
    taken = [at for at in sorted(times) if buckets.take("a", RATE, at)]
    for begin in range(len(taken)):
        for end in range(begin, len(taken)):
            assert end - begin + 1 <= 5 + (taken[end] - taken[begin]) + 1e-6


def test_it_reads_as_it_was_written() -> None:
    assert str(Rate(100, 60.0, 7)) == "100/1m"
