"""The unit is what systemd takes, and gives the daemon no more than it needs."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
WORST_EXPOSURE = 2.0
pytestmark = pytest.mark.systemd


@pytest.fixture(scope="module")
def analyze() -> str:
    command = shutil.which("systemd-analyze")
    assert command, "systemd-analyze is missing (Debian: systemd)"
    return command


def test_the_service_is_hardened(analyze: str) -> None:
    done = subprocess.run(
        [analyze, "security", "--offline=yes", "--no-pager", UNITS / "mta.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for mta\.service: ([0-9.]+)", done.stdout)
    assert found, done.stderr
    assert float(found.group(1)) < WORST_EXPOSURE


def test_the_units_have_no_mistake(analyze: str, tmp_path: Path) -> None:
    for unit in UNITS.iterdir():  # the program is looked for, and is not installed there
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/mta/bin/mta", "/bin/true"))
    done = subprocess.run([analyze, "verify", *sorted(tmp_path.iterdir())], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_low_ports_are_its_one_capability() -> None:
    text = (UNITS / "mta.service").read_text()
    assert re.findall(r"(?m)^(?:AmbientCapabilities|CapabilityBoundingSet)=(.*)$", text) == ["CAP_NET_BIND_SERVICE"] * 2
