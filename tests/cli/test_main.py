"""The command `mta` as its users meet it: a real process, a real socket (interface.md section 1)."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mta.control.commands import COMMANDS
from mta.control.desk import Desk
from mta.control.server import ControlServer
from tests.control.conftest import Mailroom

MTA = Path(sys.executable).with_name("mta")


class Shell:
    """Runs `mta` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "mta.toml"
        self.config.write_text(f'[control]\nsocket = "{folder}/c.sock"\n[spool]\nurl = "sqlite:{folder}/spool.db"\n')

    def run(self, *words: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        bare = {**kept, "HOME": "/home/ann", "PYTHONUTF8": "1"}
        return subprocess.run(
            [MTA, *words],
            capture_output=True,
            text=True,
            timeout=30,
            input=stdin,
            cwd=self.folder,
            env=bare | environ,
            check=False,
        )

    async def mta(self, *words: str) -> subprocess.CompletedProcess[str]:
        """While this loop answers at the socket."""
        return await asyncio.to_thread(self.run, *words)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
async def daemon(shell: Shell, desk: Desk) -> AsyncIterator[ControlServer]:
    server = ControlServer(shell.folder / "c.sock", desk, print)
    await server.start()
    yield server
    await server.close()


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The error: one line on standard error, and nothing else."""
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("mta: ")
    return done.stderr


# ---------------------------------------------------------------- with a daemon
async def test_a_command_is_answered_by_the_daemon(shell: Shell, daemon: ControlServer, mail: Mailroom) -> None:
    queue_id = await mail.accept(subject="grüße \x1b[31m")
    for words in (("queue", "--config", "mta.toml"), ("--config", "mta.toml", "queue"), ("queue", "--domain=example.org")):
        done = await shell.mta(*words)
        assert (done.returncode, done.stderr) == (0, "")
        assert queue_id in done.stdout
    shown = await shell.mta("show", queue_id)
    assert '"grüße \\x1b[31m"' in shown.stdout


async def test_json_is_the_document_of_the_socket(shell: Shell, daemon: ControlServer, mail: Mailroom) -> None:
    queue_id = await mail.accept()
    done = await shell.mta("show", queue_id, "--json", "--config", "mta.toml")
    assert json.loads(done.stdout)["queue_id"] == queue_id
    assert done.stdout.count("\n") == 1
    assert json.loads((await shell.mta("status", "--json")).stdout)["recipients"]["pending"] == 1


async def test_verbs_reach_their_messages(shell: Shell, daemon: ControlServer, mail: Mailroom) -> None:
    queue_id = await mail.accept("ann@example.org", "bob@example.org")
    done = await shell.mta("hold", queue_id, "--recipient", "bob@example.org")
    assert (done.returncode, done.stdout) == (0, f"{queue_id} bob@example.org: pending -> held\n")
    assert (await shell.mta("hold", "--all")).returncode == 0
    assert (await shell.mta("release", "--all")).returncode == 0
    assert (await shell.mta("cancel", "--", queue_id)).returncode == 0
    assert json.loads((await shell.mta("queue", "--sender", "", "--json")).stdout)["total"] == 0


async def test_the_daemon_s_errors_become_exit_codes(shell: Shell, daemon: ControlServer, mail: Mailroom) -> None:
    dead = await mail.dead("ann@example.org")
    for words, code, says in (
        (("show", "X"), 66, "no message X"),
        (("hold", dead), 65, "dead"),
        (("show", "<none@example.com>", "--json"), 66, "no message"),
        (("release", "--all"), 65, "no standing order"),
    ):
        done = await shell.mta(*words)
        assert done.returncode == code
        assert says in one_line(done)


async def test_a_reader_that_has_enough_is_no_error(shell: Shell, daemon: ControlServer, mail: Mailroom) -> None:
    for _ in range(100):
        await mail.accept(subject="x" * 900)
    pipe = subprocess.Popen(
        ["/bin/sh", "-c", f"{MTA} queue --json | head -c 1"],
        cwd=shell.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.to_thread(pipe.communicate)
    assert (out, err) == (b"{", b"")


@pytest.mark.parametrize("command", ["queue --json", "check", "--help", "sendmail --help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
async def test_an_output_that_cannot_be_written_is_74(
    shell: Shell, daemon: ControlServer, mail: Mailroom, command: str, unbuffered: str
) -> None:
    for _ in range(20):
        await mail.accept(subject="x" * 900)
    words = ["/bin/sh", "-c", f"PYTHONUNBUFFERED={unbuffered} {MTA} {command} > /dev/full"]
    done = await asyncio.to_thread(subprocess.run, words, cwd=shell.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 74
    assert one_line(done) == "mta: standard output can't be written: No space left on device\n"


async def test_a_terminal_without_unicode_is_served(shell: Shell, daemon: ControlServer, mail: Mailroom) -> None:
    queue_id = await mail.accept(subject="grüße")
    done = await asyncio.to_thread(shell.run, "show", queue_id, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "gr\\xfc\\xdfe" in done.stdout


# ---------------------------------------------------------------- without one
@pytest.mark.parametrize("name", [name for name, spec in COMMANDS.items() if spec.refs.value == "none"])
def test_a_daemon_that_is_not_there_is_69_with_a_hint(shell: Shell, name: str) -> None:
    line = one_line(done := shell.run(*name.split()))
    assert done.returncode == 69
    assert f"{shell.folder}/c.sock" in line
    assert "mta serve" in line


def test_B46_a_command_touches_no_file_of_the_spool(shell: Shell) -> None:
    (shell.folder / "spool.db").write_bytes(b"")
    before = {path.name: path.stat().st_mtime_ns for path in shell.folder.iterdir()}
    for words in (("status",), ("queue",), ("retry", "--all"), ("dead",), ("check",)):
        shell.run(*words)
    assert {path.name: path.stat().st_mtime_ns for path in shell.folder.iterdir()} == before


def test_a_stale_socket_is_69(shell: Shell) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(shell.folder / "c.sock"))
    assert (done := shell.run("status")).returncode == 69
    assert "refused" in one_line(done)


@pytest.mark.root
def test_a_socket_that_this_user_may_not_use_is_77(shell: Shell) -> None:
    shell.folder.chmod(0o700)
    code = (
        "import os, sys; from mta.cli.main import main; os.chdir('/'); os.setuid(65534);"
        f"os.environ['XDG_STATE_HOME'] = {str(shell.folder)!r}; sys.argv = ['mta', 'status']; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 77
    assert "not permitted" in one_line(done)


def test_a_daemon_that_breaks_off_is_69(shell: Shell) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(shell.folder / "c.sock"))
        listener.listen()

        def half_an_answer() -> None:
            client, _ = listener.accept()
            client.recv(1000)
            client.sendall(b'{"version": ')
            client.close()

        thread = threading.Thread(target=half_an_answer)
        thread.start()
        done = shell.run("status")
        thread.join()
    assert done.returncode == 69
    assert "broke off" in one_line(done)


# ---------------------------------------------------------------- slips of the hand
@pytest.mark.parametrize(
    "words",
    [
        ("stat",),
        ("show",),
        ("show", "A", "B"),
        ("queue", "--frob"),
        ("queue", "--older-than", "5"),
        ("queue", "--limit", "0"),
        ("retry",),
        ("retry", "X", "--all"),
        ("cancel",),
        ("resolve", "X"),
        ("hold", "a\nb"),
        ("check", "extra"),
        ("--frob",),
    ],
)
def test_bad_usage_is_64_and_needs_no_daemon(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell.run(*words)
    assert done.returncode == 64
    one_line(done)


def test_help_names_every_command(shell: Shell) -> None:
    done = shell.run("--help")
    assert done.returncode == 0
    for name in ("serve", "check", "demo", *COMMANDS):
        assert f"\n  {name.split()[0]} " in done.stdout
        assert shell.run(*name.split(), "--help").returncode == 0


def test_mta_alone_says_how_it_is_used(shell: Shell) -> None:
    done = shell.run()
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("Usage: mta")


# ---------------------------------------------------------------- check
def test_B52_check_tells_the_effective_values_and_what_to_beware_of(shell: Shell) -> None:
    done = shell.run("check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  class.normal.give_up_after              5 days\n" in done.stdout
    assert "warning: postmaster: not set" in done.stdout
    document = json.loads(shell.run("check", "--json").stdout)
    assert document["effective"]["spool.retention"] == "30 days"
    keys = [warning["key"] for warning in document["warnings"]]
    assert [it for it in keys if it != "tls.dane"] == ["postmaster", "hostname"]  # that is about this machine's resolver


def test_B52_every_mistake_is_a_line_with_file_line_and_key(shell: Shell) -> None:
    bad = "[spool]\nurll='x'\n[submission]\nallow=['0.0.0.0/0']\n"
    done = shell.run("check", "--config", "/dev/stdin", stdin=bad)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.splitlines() == [
        "mta: /dev/stdin:2: spool.urll: unknown key; did you mean spool.url?",
        'mta: /dev/stdin:4: submission.allow: "0.0.0.0/0" would be an open relay: expected your own networks',
    ]
    document = json.loads(shell.run("check", "--json", "--config", "/dev/stdin", stdin=bad).stdout)
    assert [(problem["line"], problem["key"]) for problem in document["problems"]] == [
        (2, "spool.urll"),
        (4, "submission.allow"),
    ]


def test_a_configuration_that_is_named_must_be_there(shell: Shell) -> None:
    for words in (
        ("check", "--config", "none.toml"),
        ("status", "--config", "none.toml"),
        ("--config", "none.toml", "check"),
    ):
        done = shell.run(*words)
        assert done.returncode == 78
        assert "none.toml: can't be read: No such file" in one_line(done)


def test_the_configuration_is_found_as_the_interface_says(shell: Shell) -> None:
    assert "configuration: mta.toml" in shell.run("check").stdout.replace(f"{shell.folder}/", "")
    other = shell.folder / "other.toml"
    other.write_text('hostname = "other.example.com"\n')
    assert "other.example.com" in shell.run("check", MTA_CONFIG=str(other)).stdout
