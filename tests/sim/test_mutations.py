"""The simulation misses each protection that is switched off: without this, that it finds nothing would say nothing."""

import pytest

from tests.sim.faults import generate
from tests.sim.mutations import MUTATIONS, Mutation
from tests.sim.scenario import Scenario
from tests.sim.world import Run, play

SEEDS = 300
DAYS = 1.0
FEW = 20
"""Messages: enough where a crash has to come at one instant."""
MORE = {
    "session discard after a timeout": 160,
    "lanes of urgent mail": 80,
    "fairness between destinations": 300,
    "learning of limits": 200,
    "memory of limits": 300,
    "reload of limits": 200,
    "shares of lower classes": 200,
}
"""Late replies need a queue, turns and limits a crowd: with fewer it takes more seeds, and longer."""


def play_without(mutation: Mutation, scenario: Scenario) -> Run:
    with mutation.off():
        return play(scenario)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_protection_that_is_switched_off_is_missed(name: str) -> None:
    mutation = MUTATIONS[name]
    for seed in range(SEEDS):
        scenario = generate(seed, DAYS, MORE.get(name, FEW))
        violation = play_without(mutation, scenario).violation
        if violation is not None:
            break
    else:
        pytest.fail(f"{SEEDS} seeds, and nobody misses it")
    print(f"{name}: seed {seed}: {violation}")
    assert violation.name in mutation.promises, f"seed {seed}: {violation}"
    assert play(scenario).violation is None, f"seed {seed} breaks a promise by itself"


def test_there_are_twenty_one() -> None:
    assert len(MUTATIONS) == 21


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_protection_is_back_afterwards(name: str) -> None:
    scenario = generate(0, DAYS, 5)
    before = play(scenario)
    with MUTATIONS[name].off():
        pass
    assert play(scenario).trace == before.trace
