"""Hashes as text: which can be verified (tests/test_passwords.py asks argon2), and which costs most."""

import pytest

from mta.policy.hashes import HIGHEST, Cost, cost, costliest, is_bearable


def made(costs: str) -> str:
    return f"$argon2id$v=19${costs}$c2FsdHNhbHQ$aGFzaA"


def test_a_cost_reads_as_it_is_written() -> None:
    assert cost(made("m=65536,t=3,p=4")) == Cost(65536, 3, 4)
    assert str(Cost(65536, 3, 4)) == "m=65536,t=3,p=4"


@pytest.mark.parametrize("costs", ["m=65537,t=1,p=1", "m=512,t=21,p=1", "m=512,t=1,p=17"])
def test_each_limit_is_one_of_its_own(costs: str) -> None:
    found = cost(made(costs))
    assert found is not None and not is_bearable(found)
    assert is_bearable(HIGHEST)


@pytest.mark.parametrize(
    ("dearer", "cheaper"),
    [
        ("m=8192,t=1,p=1", "m=4096,t=1,p=1"),
        ("m=4096,t=3,p=1", "m=8192,t=1,p=1"),
        ("m=8192,t=3,p=1", "m=8192,t=3,p=4"),
    ],
)
def test_work_counts_and_then_how_few_lanes_share_it(dearer: str, cheaper: str) -> None:
    assert costliest([made(cheaper), made(dearer)]) == costliest([made(dearer), made(cheaper)]) == made(dearer)
