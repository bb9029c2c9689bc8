"""The earliest of many instants."""

from hypothesis import given
from hypothesis import strategies as some

from mta.policy.instants import STALE_LIMIT, Instants


@given(some.lists(some.tuples(some.sampled_from("abc"), some.integers(0, 50))), some.integers(0, 50))
def test_each_name_comes_once_at_its_earliest_instant(added: list[tuple[str, int]], now: int) -> None:
    instants = Instants[str]()
    for name, at in added:
        instants.add(name, at)
    earliest = {name: min(at for other, at in added if other == name) for name, _ in added}
    assert instants.earliest == min(earliest.values(), default=None)
    due = list(instants.past(now))
    assert sorted(due) == sorted(name for name, at in earliest.items() if at <= now)
    assert [earliest[name] for name in due] == sorted(earliest[name] for name in due)
    assert {name for name in "abc" if name in instants} == {name for name, at in earliest.items() if at > now}


def test_what_has_come_may_be_awaited_again_and_later() -> None:
    instants = Instants[str]()
    instants.add("a", 5)
    assert list(instants.past(5)) == ["a"]
    instants.add("a", 9)
    assert (instants.earliest, list(instants.past(8))) == (9, [])


def test_what_was_replaced_is_forgotten() -> None:
    instants = Instants[str]()
    for at in range(5 * STALE_LIMIT, 0, -1):
        instants.add("a", at)
    assert len(instants) <= STALE_LIMIT + 2
    assert list(instants.past(1)) == ["a"]
