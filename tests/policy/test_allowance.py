"""Token buckets that are taken off the books in blocks."""

from hypothesis import given
from hypothesis import strategies as st

from mta.policy.allowance import Allowance, full_allowance, recalled
from mta.policy.allowances import Allowances
from mta.policy.rates import Rate

SMALL, ANY = st.integers(1, 5), st.integers(1, 1000)
RATES = st.builds(Rate, SMALL, st.floats(0.1, 60), SMALL) | st.builds(Rate, ANY, st.floats(0.1, 3600), ANY)
STEPS = st.lists(st.tuples(st.sampled_from(["use", "fetch", "fail", "crash", "wait"]), st.floats(0, 100)), max_size=80)


@given(RATES, STEPS)
def test_whatever_happens_no_more_is_used_than_a_bucket_would_have_given(rate: Rate, steps: list) -> None:
    """Also over crashes, where the books (`kept`) are all that is left."""
    now, one, kept, used = 0.0, full_allowance(rate, 0.0), (repr(float(rate.burst)), 0.0), list[float]()
    for act, by in steps:
        now += by if act == "wait" else 0.0
        if act == "use" and one.ready > 0:
            one.use(now)
            used.append(now)
        elif act in ("fetch", "fail") and one.wants() and one.next_at(now) <= now:
            text = repr(one.ask(now))
            if act == "fetch":
                kept = text, now
                one.grant()
            else:
                one.withdraw()
        elif act == "crash":
            one = recalled(kept[0], now - kept[1], rate, now)
        assert one.level >= 0 and one.level + one.ready + one.asked <= rate.burst + 1e-6
    for n, start in enumerate(used):
        for m, end in enumerate(used[n:], 1):
            assert m <= rate.burst + (end - start) * rate.amount / rate.period + 1e-6


def test_what_is_used_of_a_full_bucket_was_not_there_for_long() -> None:
    """It is refilled from the instant of its use on, though nobody looked at it for hours."""
    known = full_allowance(Rate(30, 600, 3), 0.0)
    sent = 0
    for _ in range(10):
        if known.wants() and known.next_at(36000.0) <= 36000.0:
            known.ask(36000.0 if sent else 0.0)
            known.grant()
        if known.ready > 0:
            known.use(36000.0)
            sent += 1
    assert sent == 3


def test_a_token_that_comes_back_late_is_not_one_more() -> None:
    """A bucket for one: while an attempt lasts that sends nothing, the next token comes."""
    known = full_allowance(Rate(1, 10, 1), 0.0)
    known.ask(0.0)
    known.grant()
    known.use(0.0)
    known.ask(10.0)
    known.grant()
    known.used(0)
    assert known.ready == 1


def test_a_block_is_a_tenth_of_the_burst_and_single_tokens_come_by_the_second() -> None:
    assert [Allowance(Rate(100, 60, burst), 0, 0).block for burst in (1, 9, 100, 1000)] == [1, 1, 10, 100]
    assert [Allowance(Rate(*it), 0, 0).lump for it in ((100, 60, 100), (50, 1, 1000), (50, 1, 10), (1, 3600, 100))] == [
        2, 50, 1, 1,
    ]  # fmt: skip


def test_the_next_token_comes_when_the_rate_says() -> None:
    one = Allowance(Rate(1, 10, 1), 0.0, 100.0)
    assert one.next_at(103.0) == 110.0
    assert one.next_at(110.0) == 110.0


def test_a_clock_that_was_set_back_adds_nothing_and_takes_nothing() -> None:
    assert recalled("3.0", -1e9, Rate(10, 60, 10), 0.0).level == 3.0
    assert recalled("3.0", 1e9, Rate(10, 60, 10), 0.0).level == 10.0


def test_another_rate_keeps_what_is_there_up_to_its_burst() -> None:
    one = full_allowance(Rate(100, 60, 100), 0.0)
    one.change(Rate(10, 60, 10), 0.0)
    assert one.level == 10


def test_a_stricter_rate_takes_back_what_was_fetched_under_the_other() -> None:
    one = full_allowance(Rate(1000, 60, 1000), 0.0)
    one.ask(0.0)
    one.grant()
    one.change(Rate(5, 60, 5), 0.0)
    assert one.ready + one.level == 5


def test_asking_again_and_again_for_a_message_leaves_nothing_behind() -> None:
    """An instant that is computed anew is the same."""
    known = Allowances()
    allowance = known.of("a.test", Rate(7, 3600, 1), 0.0)
    assert allowance is not None
    allowance.level = 0.0
    for n in range(1000):
        assert not known.leaves("a.test", n / 7, wanted=True)
    assert len(known.refills) == 1
    assert known.refilled(3600 / 7 + 0.01) == ["a.test"]
