"""`mta user`: the users file as its keeper meets it."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mta.cli.user import change
from mta.config.users import parse_users
from mta.control.errors import CommandError
from mta.passwords import fits
from tests.cli.test_main import MTA, Shell, shell

__all__ = ["shell"]


@pytest.fixture
def users(shell: Shell) -> Path:
    shell.config.write_text(f'{shell.config.read_text()}[submission]\nusers_file = "users"\n')
    return shell.folder / "users"


def test_add_list_change_and_remove(shell: Shell, users: Path) -> None:
    added = shell.run("user", "add", "shop", stdin="tr0ub4dor\nmore\n")
    assert (added.returncode, added.stderr) == (0, "")
    assert "shop was added" in added.stdout and "SIGHUP" in added.stdout
    assert users.stat().st_mode & 0o777 == 0o600
    assert fits("tr0ub4dor", parse_users(users.read_text(), "")["shop"])
    assert shell.run("user", "add", "ann@example.com", stdin="x y\r\n").returncode == 0
    listed = shell.run("user", "list")
    assert listed.stdout == "ann@example.com\nshop\n"
    assert json.loads(shell.run("user", "list", "--json").stdout) == {"users": ["ann@example.com", "shop"]}
    assert "new password" in shell.run("user", "add", "shop", stdin="other\n").stdout
    hashes = parse_users(users.read_text(), "")
    assert fits("other", hashes["shop"]) and fits("x y", hashes["ann@example.com"])
    assert shell.run("user", "remove", "shop").returncode == 0
    assert shell.run("user", "list").stdout == "ann@example.com\n"
    assert [it.name for it in shell.folder.iterdir() if "users" in it.name] == ["users"]


def test_what_else_stands_in_the_file_stays_and_so_does_its_mode(shell: Shell, users: Path) -> None:
    real = shell.folder / "elsewhere"
    real.write_text("# ours\n")
    real.chmod(0o640)
    users.symlink_to(real)
    assert shell.run("user", "add", "shop", stdin="x\n").returncode == 0
    assert users.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_text().startswith("# ours\nshop:$argon2id$")


@pytest.mark.parametrize(
    ("words", "stdin", "code", "says"),
    [
        (("add", "a b"), "x\n", 64, "expected a name of 1 to 64"),
        (("add", "x:y"), "x\n", 64, "expected a name"),
        (("add", "x" * 65), "x\n", 64, "expected a name"),
        (("add", "shop"), "\n", 65, "expected a password"),
        (("add", "shop"), "", 65, "expected a password"),
        (("add", "shop"), "x\0y\n", 65, "expected a password"),
        (("add", "shop"), "x" * 1025, 65, "expected a password"),
        (("remove", "shop"), "", 65, 'no user "shop"'),
        (("add",), "", 64, "NAME"),
    ],
)
def test_what_can_t_be_done_is_said_in_one_line(
    shell: Shell, users: Path, words: tuple[str, ...], stdin: str, code: int, says: str
) -> None:
    found = shell.run("user", *words, stdin=stdin)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (code, "", 1)
    assert says in found.stderr
    assert not users.exists()


def test_a_file_with_a_bad_line_is_left_alone(shell: Shell, users: Path) -> None:
    users.write_text("shop:secret\n")
    found = shell.run("user", "add", "ann", stdin="x\n")
    assert (found.returncode, users.read_text()) == (78, "shop:secret\n")
    assert f"{users}:1: " in found.stderr and "secret" not in found.stderr


def test_without_the_key_it_is_asked_for(shell: Shell) -> None:
    found = shell.run("user", "list")
    assert found.returncode == 78
    assert "submission.users_file" in found.stderr


def test_two_at_once_are_not_mixed_up(shell: Shell, users: Path) -> None:
    (shell.folder / ".users.new").write_text("of another")
    found = shell.run("user", "add", "shop", stdin="x\n")
    assert found.returncode == 75 and ".users.new" in found.stderr
    assert (shell.folder / ".users.new").read_text() == "of another"
    assert not users.exists()


def test_who_is_added_or_removed_while_another_types_a_password_stays_so(shell: Shell, users: Path) -> None:
    """What is changed is the file that is there when the password is known."""
    assert shell.run("user", "add", "old", stdin="x\n").returncode == 0
    with on_a_terminal(shell) as (process, master):
        answer(master, "Password for shop")
        assert shell.run("user", "add", "ann", stdin="x\n").returncode == 0
        assert shell.run("user", "remove", "old").returncode == 0
        answer(master, "Repeat")
        assert process.wait(20) == 0
    assert shell.run("user", "list").stdout == "ann\nshop\n"
    assert shell.run("user", "remove", "old").returncode == 65


def test_a_change_reads_the_file_after_it_has_locked_it(users: Path) -> None:
    """Whoever comes between is turned away, and what it holds is left alone; a failure leaves nothing behind."""
    users.write_text("")
    lock = users.with_name(".users.new")

    def meddled(text: str, _users: Mapping[str, str]) -> str:
        with pytest.raises(CommandError, match=r"\.users\.new is there"):
            change(users, lambda text, _users: text)
        assert lock.exists()
        return f"{text}# ours\n"

    change(users, meddled)
    assert users.read_text() == "# ours\n" and not lock.exists()
    with pytest.raises(RuntimeError):
        change(users, lambda text, _users: _fail())
    assert users.read_text() == "# ours\n" and not lock.exists()


def test_a_lock_is_nobody_s_any_more_once_the_file_is_replaced(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one's may stand in its place at once."""
    users.write_text("")
    lock, replace = users.with_name(".users.new"), os.replace

    def and_the_next_begins(new: Path, path: Path) -> None:
        replace(new, path)
        lock.write_text("the next one's")

    monkeypatch.setattr(os, "replace", and_the_next_begins)
    change(users, lambda text, _users: "# ours\n")
    assert lock.read_text() == "the next one's"


def _fail() -> str:
    raise RuntimeError


def test_on_a_terminal_the_password_is_asked_for_twice_and_not_shown(shell: Shell, users: Path) -> None:
    with on_a_terminal(shell) as (process, master):
        seen = answer(master, "Password for shop") + answer(master, "Repeat")
        while "was added" not in seen:
            seen += os.read(master, 1000).decode()
        assert process.wait(20) == 0
    assert "tr0ub4dor" not in seen
    assert fits("tr0ub4dor", parse_users(users.read_text(), "")["shop"])


@contextmanager
def on_a_terminal(shell: Shell) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`mta user add shop`, and the other end of its terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [MTA, "user", "add", "shop"], stdin=slave, stdout=slave, stderr=slave, cwd=shell.folder, start_new_session=True,
        preexec_fn=_takes_the_terminal, env={"PATH": os.environ["PATH"], "HOME": "/home/ann", **_path()},
    )  # fmt: skip
    os.close(slave)
    try:
        yield process, master
    finally:
        os.close(master)
        process.kill()
        process.wait()


def answer(master: int, question: str) -> str:
    """Types the password behind `question`; what was shown until then."""
    seen = ""
    while question not in seen:
        seen += os.read(master, 1000).decode()
    os.write(master, b"tr0ub4dor\n")
    return seen


def _takes_the_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _path() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


# ---------------------------------------------------------------- the configuration that names it
def test_check_and_serve_refuse_a_bad_users_file(shell: Shell, users: Path) -> None:
    users.write_text("# ours\nshop:secret\n")
    users.chmod(0o600)
    for verb in ("check", "serve"):
        found = shell.run(verb)
        assert (found.returncode, found.stdout) == (78, "")
        assert f"mta: {users}:2: " in found.stderr and "secret" not in found.stderr


def test_check_warns_of_a_file_that_everybody_may_read_and_shows_no_hash(shell: Shell, users: Path) -> None:
    shell.run("user", "add", "shop", stdin="x\n")
    users.chmod(0o644)
    found = shell.run("check")
    assert found.returncode == 0
    assert "everybody may read" in found.stdout and "argon2" not in found.stdout
