"""`mta status --check` as a monitoring system runs it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mta.control.desk import Desk
from mta.control.health import HealthRules, Limits
from tests.cli.test_main import Shell, daemon, shell
from tests.control.conftest import Mailroom, exchange

__all__ = ["daemon", "shell"]


@pytest.fixture
def desk(desk: Desk) -> Desk:
    return replace(desk, health=lambda: HealthRules(critical=Limits(pending=2)))


@pytest.mark.usefixtures("daemon")
async def test_one_line_and_an_exit_code_for_each_level(shell: Shell, mail: Mailroom) -> None:
    fine = await shell.mta("status", "--check")
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "OK: nothing waits too long, nothing needs a person\n", "")
    await mail.dead("ann@example.org")
    warned = await shell.mta("status", "--check")
    assert (warned.returncode, warned.stdout) == (1, "WARNING: 1 recipient given up (mta dead)\n")
    await mail.accept("a@example.org", "b@example.org")
    critical = await shell.mta("status", "--check")
    assert critical.returncode == 2
    assert critical.stdout == "CRITICAL: 2 recipients waiting (limit 2); 1 recipient given up (mta dead)\n"


@pytest.mark.usefixtures("daemon")
async def test_json_has_the_same_and_status_alone_is_no_check(shell: Shell, mail: Mailroom) -> None:
    await mail.dead("ann@example.org")
    found = await shell.mta("status", "--check", "--json")
    health = {"level": "warning", "reasons": ["1 recipient given up (mta dead)"]}
    assert (found.returncode, json.loads(found.stdout)["health"]) == (1, health)
    plain = await shell.mta("status", "--json")
    assert (plain.returncode, json.loads(plain.stdout)["health"]) == (0, health)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_daemon_that_does_not_answer_is_critical(shell: Shell, words: tuple[str, ...]) -> None:
    found = shell.run("status", "--check", *words)
    assert (found.returncode, found.stderr, found.stdout.count("\n")) == (2, "", 1)
    assert "can't be reached" in found.stdout
    assert words or found.stdout.startswith("CRITICAL: ")


@pytest.mark.usefixtures("daemon")
async def test_the_socket_answers_the_same_line(shell: Shell) -> None:
    line = await exchange(Path(shell.folder / "c.sock"), b"status --check\n")
    assert line == "OK: nothing waits too long, nothing needs a person\n"
