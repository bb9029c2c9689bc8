"""What a command imports decides how soon it answers: by the modules, as a stopwatch would tell of the machine."""

import asyncio
import subprocess
import sys

import pytest

from mta.control.commands import COMMANDS
from mta.control.server import ControlServer
from tests.cli.test_main import Shell, daemon, shell
from tests.cli.test_sendmail import LETTER, Mailer, mailer, sendmail, world
from tests.control.conftest import Mailroom

__all__ = ["daemon", "mailer", "sendmail", "shell", "world"]

OTHERS = frozenset({
    "aiosmtpd", "aiosmtplib", "aiosqlite", "argon2", "asyncio", "cryptography", "dns", "pydantic", "rich", "sqlite3", "ssl",
    "uvloop",
})  # fmt: skip
OURS = frozenset({"app", "config.load", "config.model", "delivery", "listener", "policy", "scheduler", "smtp", "spool"})
DAEMON_S = OTHERS | {f"mta.{name}" for name in OURS}
SLOW = frozenset({"email", "idna", "mta.model.address", "mta.model.envelope", "msgspec"})
"""Of no use to those who ask a question without an address in it."""
CHILD = (
    "import sys; from mta.cli.main import main; sys.argv = ['mta', *sys.argv[1:]]; code = main();"
    "print(code, *sys.modules, file=sys.stderr)"
)


def needless(stderr: str, unwanted: frozenset[str]) -> set[str]:
    """What was imported of it, by a command that did its work."""
    code, *modules = stderr.split()
    assert code == "0"
    return unwanted & set(modules)


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("status", "--json"), ("queue",), ("show", "{id}"), ("hold", "{id}"), ("release", "{id}"),
        ("retry", "{id}"), ("cancel", "{id}"), ("dead",), ("suppression", "list"), ("sendmail", "-bp"),
        ("hold", "--help"), ("--help",),
    ],
)  # fmt: skip
async def test_who_asks_the_daemon_imports_nothing_of_it(
    words: tuple[str, ...], shell: Shell, daemon: ControlServer, mail: Mailroom
) -> None:
    queue_id = await mail.accept()
    command = [sys.executable, "-c", CHILD, *(word.format(id=queue_id) for word in words)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, cwd=shell.folder, timeout=30, check=False
    )
    assert done.stdout
    assert needless(done.stderr, DAEMON_S | SLOW) == set()


async def test_a_program_s_mail_waits_for_no_module_of_the_daemon(sendmail: Mailer) -> None:
    command = [sys.executable, "-c", CHILD, "sendmail", "ann@x.test"]
    done = await asyncio.to_thread(sendmail.run, *command, stdin=LETTER)
    assert needless(done.err, DAEMON_S - {"mta.policy"} | {"mta.policy.destinations"}) == set()
    await sendmail.arrived()


def test_a_shell_completes_every_command(shell: Shell) -> None:
    done = shell.run(_MTA_COMPLETE="bash_complete", COMP_WORDS="mta ", COMP_CWORD="1")
    offered = {line.partition(",")[2] for line in done.stdout.splitlines()}
    own = {"serve", "check", "doctor", "demo", "user", "dkim", "sendmail"}
    assert offered == own | {name.partition(" ")[0] for name in COMMANDS}
    done = shell.run(_MTA_COMPLETE="bash_complete", COMP_WORDS="mta queue --", COMP_CWORD="2")
    assert "plain,--older-than" in done.stdout.splitlines()
