"""Queue ids."""

from hypothesis import given
from hypothesis import strategies as st

from mta.model.queue_id import RANDOM_BITS, is_queue_id, queue_id

times = st.integers(0, 2**43 - 1)
chances = st.integers(0, 2**RANDOM_BITS - 1)


@given(times, chances, times, chances)
def test_ids_are_ordered_by_time_and_differ_by_chance(at: int, chance: int, other: int, another: int) -> None:
    one, two = queue_id(at, chance), queue_id(other, another)
    assert is_queue_id(one)
    assert ((at, chance) < (other, another)) == (one < two)
    assert (one == two) == ((at, chance) == (other, another))


def test_the_alphabet_has_no_letters_that_are_taken_for_others() -> None:
    assert queue_id(2**43 - 1, 2**RANDOM_BITS - 1) == "Z" * 16
    assert queue_id(0, 1) == "0" * 15 + "1"
    for text in ("", "0" * 15, "0" * 17, "o" * 16, "I" * 16, "abcdefghjkmnpqrs"):
        assert not is_queue_id(text)
