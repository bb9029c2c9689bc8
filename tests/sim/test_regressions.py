"""What once broke a promise keeps it now."""

from pathlib import Path

import msgspec
import pytest

from tests.sim.scenario import Outage, decode, encode
from tests.sim.test_determinism import small
from tests.sim.world import play

FOLDER = Path(__file__).with_name("regressions")


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def check(file: Path) -> None:
    run = play(decode(file.read_bytes()))
    assert run.violation is None, "\n".join(run.trace[-60:])


if files := kept(FOLDER):  # a test without parameters would count as one that was left out

    @pytest.mark.parametrize("file", files, ids=[it.stem for it in files])
    def test_a_scenario_that_broke_a_promise(file: Path) -> None:
        check(file)


def test_the_folder_is_read_and_each_file_of_it_is_played(tmp_path: Path) -> None:
    assert FOLDER.joinpath("README.md").exists()
    scenario = small(days=0.01)
    bad = msgspec.structs.replace(scenario, faults=(Outage(0.0, 2000.0, scenario.domains[0].hosts[0].name, "dark"),))
    for name, octets in {"a": encode(scenario), "b": b"{}", "c": encode(bad)}.items():
        tmp_path.joinpath(f"{name}.json").write_bytes(octets)
    good, broken, violating = kept(tmp_path)
    check(good)
    with pytest.raises(msgspec.ValidationError):
        check(broken)
    with pytest.raises(AssertionError, match="everything drains"):
        check(violating)
