"""The simulation misses each protection that is switched off: without this, that it finds nothing would say nothing."""

import pytest

from tests.sim.faults import generate
from tests.sim.mutations import MUTATIONS, Mutation
from tests.sim.scenario import Scenario
from tests.sim.world import Run, play

SEEDS = 300
DAYS = 1.0
FEW, MANY, CROWD = 20, 80, 200
"""Messages. Few are enough where a crash has to come at one instant; turns and late replies need a queue, limits a crowd."""
MESSAGES = {
    "fairness between destinations": MANY,
    "session discard after a timeout": MANY,
    "lanes of urgent mail": MANY,
    "learning of limits": CROWD,
    "memory of limits": CROWD,
}


def play_without(mutation: Mutation, scenario: Scenario) -> Run:
    with mutation.off():
        return play(scenario)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_protection_that_is_switched_off_is_missed(name: str) -> None:
    mutation = MUTATIONS[name]
    for seed in range(SEEDS):
        scenario = generate(seed, DAYS, MESSAGES.get(name, FEW))
        violation = play_without(mutation, scenario).violation
        if violation is not None:
            break
    else:
        pytest.fail(f"{SEEDS} seeds, and nobody misses it")
    print(f"{name}: seed {seed}: {violation}")
    assert violation.name in mutation.promises, f"seed {seed}: {violation}"
    assert play(scenario).violation is None, f"seed {seed} breaks a promise by itself"


def test_there_are_fifteen() -> None:
    assert len(MUTATIONS) == 15


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_protection_is_back_afterwards(name: str) -> None:
    scenario = generate(0, DAYS, 5)
    before = play(scenario)
    with MUTATIONS[name].off():
        pass
    assert play(scenario).trace == before.trace
