"""From a failing scenario to a small one in a file that plays again; the command's exit codes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sim import invariants
from tests.sim.__main__ import main
from tests.sim.history import History
from tests.sim.invariants import Violation
from tests.sim.many import Played
from tests.sim.scenario import (
    Crash,
    DomainPlan,
    Email,
    Noise,
    Order,
    Outage,
    Reload,
    Restart,
    Scenario,
    Settings,
    decode,
    encode,
)
from tests.sim.shrink import shrink
from tests.sim.test_determinism import command, small

CRASH = Crash(40.0, "commit", 1, 5.0, False)
FAULTS = (
    Noise(0.0, 50.0, 0.1, False),
    Outage(2.0, 20.0, "mx.d0.example", "refused"),
    Restart(30.0, 1.0),
    CRASH,
    Reload(41.0, Settings(max_sessions=2)),
    Order(45.0, "status"),
    Order(46.0, "queue"),
)


def big() -> Scenario:
    scenario = small()
    host = scenario.domains[0].hosts[0]
    host = msgspec.structs.replace(host, name="mx.d1.example", address="198.51.100.2")
    other = DomainPlan("d1.example", (host,), "odd", 0.0, 50.0)
    emails = tuple(Email(n, 39.9 + n / 50, "app@d0.example", ((0, f"d{n % 2}.example"),)) for n in range(6))
    return msgspec.structs.replace(scenario, emails=emails, faults=FAULTS, domains=(*scenario.domains, other))


@pytest.fixture
def promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more: nothing ever crashes."""
    real = invariants.at_the_end

    def at_the_end(path: Path, ledger: Any, scenario: Scenario, history: History, now: float) -> Iterator[Violation]:
        yield from real(path, ledger, scenario, history, now)
        if any(isinstance(it, Crash) for it in scenario.faults):
            yield Violation("nothing ever crashes", "it did")

    monkeypatch.setattr(invariants, "at_the_end", at_the_end)


def unhealthy() -> Scenario:
    """A host is down beyond the end: not everything drains."""
    return msgspec.structs.replace(small(days=0.01), faults=(Outage(0.0, 5000.0, "mx.d0.example", "refused"),))


@pytest.mark.usefixtures("promise")
def test_what_is_not_needed_goes() -> None:
    told: list[Scenario] = []
    found = shrink(big(), told.append)
    assert found.faults == (CRASH,)
    assert found.emails == ()
    assert [it.character for it in found.domains] == ["honest", "honest"]
    assert found == told[-1]


@pytest.mark.usefixtures("promise")
def test_what_breaks_another_promise_is_no_smaller_one() -> None:
    scenario = msgspec.structs.replace(unhealthy(), faults=(*unhealthy().faults, CRASH))
    found = shrink(scenario)
    assert len(found.faults) == len(found.emails) == 1
    assert isinstance(found.faults[0], Outage)


def test_what_breaks_no_promise_can_not_be_shrunk() -> None:
    with pytest.raises(ValueError, match="breaks no promise"):
        shrink(small())


@pytest.mark.usefixtures("promise")
def test_the_file_that_is_kept_plays_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, file = tmp_path / "given.json", tmp_path / "kept.json"
    given.write_bytes(encode(big()))
    assert main(["--replay", str(given), "--shrink", str(file)]) == 1
    assert decode(file.read_bytes()).faults == (CRASH,)
    capsys.readouterr()
    assert main(["--replay", str(file)]) == 1
    assert "VIOLATION nothing ever crashes" in capsys.readouterr().out


def test_a_file_that_breaks_no_promise_exits_with_0(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_bytes(encode(small()))
    done = command("--replay", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "VIOLATION" not in done.stdout


def test_a_file_that_breaks_one_exits_with_1_and_shows_the_end_of_its_trace(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_bytes(encode(unhealthy()))
    done = command("--replay", str(file))
    assert done.returncode == 1
    assert "VIOLATION when all is well again, everything drains" in done.stdout


def test_many_seeds_say_how_long_they_took() -> None:
    done = command("--seeds", "2", "--days", "1", "--messages", "0", "--jobs", "1")
    assert done.returncode == 0
    assert "2 seeds of 1 days with 0 messages in " in done.stdout


def test_one_seed_of_many_that_breaks_a_promise_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def some(seeds: range, *_: object) -> Iterator[Played]:
        yield from (Played(seed, "a promise: broken" if seed == 8 else "", "") for seed in seeds)

    monkeypatch.setattr("tests.sim.__main__.play_many", some)
    assert main(["--seeds", "3", "--first", "7"]) == 1
    assert "seed 8: a promise: broken" in capsys.readouterr().out
    assert main(["--seeds", "1"]) == 0


def test_help_and_wrong_words() -> None:
    told = command("--help")
    assert told.returncode == 0
    assert "--replay FILE" in told.stdout
    assert command().returncode == command("--seed", "x").returncode == 2
