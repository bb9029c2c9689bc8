"""The same scenario has the same trace, octet by octet, wherever it is played."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mta.listener.protocol import SubmissionSession
from tests.sim.faults import generate
from tests.sim.many import play_many
from tests.sim.scenario import Crash, DomainPlan, Email, HostPlan, Restart, Scenario, Settings, decode, encode
from tests.sim.world import play

SEED, DAYS, MESSAGES = 5, 1.0, 20
ROOT = Path(__file__).parents[2]
_DIGEST = re.compile(r"trace (\w+)")


def small(days: float = 0.05) -> Scenario:
    """One email, nothing goes wrong."""
    host = HostPlan("mx.d0.example", "198.51.100.1", 10, ("PIPELINING",), "none")
    emails = (Email(0, 1.0, "app@d0.example", ((0, "d0.example"),)),)
    return Scenario(1, days, 60.0, Settings(), (DomainPlan("d0.example", (host,)),), emails, ())


def command(*words: str, hashes: str = "random") -> "subprocess.CompletedProcess[str]":
    """`python -m tests.sim`, started with another order of sets."""
    environment = {**os.environ, "PYTHONHASHSEED": hashes}
    return subprocess.run(
        [sys.executable, "-m", "tests.sim", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def printed(*words: str, hashes: str) -> str:
    done = command(*words, hashes=hashes)
    found = _DIGEST.search(done.stdout)
    assert found is not None, done.stderr
    return found[1]


@pytest.mark.parametrize("seed", [SEED, 11])
def test_twice_in_one_process(seed: int) -> None:
    runs = [play(generate(seed, DAYS, MESSAGES)) for _ in range(2)]
    assert runs[0].trace == runs[1].trace
    assert len(runs[0].trace) > 50


def test_in_other_processes_with_other_orders_of_sets() -> None:
    words = ("--seed", f"{SEED}", "--days", f"{DAYS:g}", "--messages", f"{MESSAGES}")
    first = printed(*words, hashes="1")
    assert printed(*words, hashes="2") == first
    assert [it.digest for it in play_many([SEED], DAYS, MESSAGES, jobs=1)] == [first]


def test_addresses_in_memory_play_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would order a set of sessions: of those, for instance, that a restart ends."""
    emails = tuple(Email(n, 1.0, "app@d0.example", ((0, "d0.example"),), manner="slow", size=2000) for n in range(12))
    faults = (Crash(9.9, "send", 6, 5.0, False), Restart(10.0, 5.0))
    scenario = msgspec.structs.replace(small(), settings=Settings(stop_timeout=0.0), emails=emails, faults=faults)
    digests = set()
    for salt in range(4):
        monkeypatch.setattr(SubmissionSession, "__hash__", lambda it, salt=salt: hash((id(it), salt)))
        run = play(scenario)
        digests.add(run.digest)
        assert sum("refused 421" in line for line in run.trace) == 5
    assert len(digests) == 1


def test_another_seed_is_another_course() -> None:
    assert len({play(generate(seed, DAYS, 5)).digest for seed in range(4)}) == 4


def test_a_scenario_is_a_function_of_its_seed() -> None:
    assert generate(SEED, DAYS, MESSAGES) == generate(SEED, DAYS, MESSAGES)
    assert generate(SEED, DAYS, MESSAGES) != generate(SEED + 1, DAYS, MESSAGES)


def test_a_scenario_that_was_kept_plays_as_it_did() -> None:
    scenario = generate(SEED, DAYS, MESSAGES)
    again = decode(encode(scenario))
    assert again == scenario
    assert play(again).digest == play(scenario).digest
