"""`mta dkim`: a key that is made is one that the daemon takes, and what DNS needs is what verifiers read."""

import errno
import json
import re
import tomllib
from pathlib import Path

import pytest

from mta.cli.dkim import keygen
from mta.control.errors import CommandError
from mta.dkim.keys import read_key
from tests.cli.test_main import Shell, one_line, shell

__all__ = ["shell"]


@pytest.mark.parametrize(("key_type", "selector"), [("rsa", "mta-rsa"), ("ed25519", "mta-ed25519")])
def test_what_it_prints_can_be_pasted(shell: Shell, key_type: str, selector: str) -> None:
    out = shell.folder / "made.pem"
    made = shell.run("dkim", "keygen", "Example.com", "--type", key_type, "--out", str(out))
    assert (made.returncode, made.stderr) == (0, "")
    assert out.stat().st_mode & 0o777 == 0o600
    record, table = re.search(r"\n(\S+ IN TXT [^\n]+)\n.*\n(\[\[dkim\]\].*)", made.stdout, re.DOTALL).groups()
    assert record == read_key(f"example.com/{selector}", out.read_bytes()).zone_line
    (given,) = tomllib.loads(table)["dkim"]
    assert given == {"domain": "example.com", "selector": selector, "key": str(out)}
    shell.config.write_text(f"{table}\n{shell.config.read_text()}")
    assert shell.run("check").returncode == 0
    assert shell.run("dkim", "show").stdout == f"{record}\n"
    (shown,) = json.loads(shell.run("dkim", "show", "--json").stdout)["records"]
    assert shown["name"] == f"{selector}._domainkey.example.com" and shown["record"].startswith(f"v=DKIM1; k={key_type}; p=")


def test_without_a_file_it_is_named_after_the_key(shell: Shell) -> None:
    assert shell.run("dkim", "keygen", "example.com", "--selector", "S1").returncode == 0
    assert (Path(shell.folder) / "example.com.s1.pem").exists()


def test_a_key_is_never_overwritten(shell: Shell) -> None:
    out = shell.folder / "made.pem"
    out.write_text("precious")
    done = shell.run("dkim", "keygen", "example.com", "--out", str(out))
    assert (done.returncode, done.stdout) == (65, "")
    assert "not overwritten" in one_line(done) and out.read_text() == "precious"


@pytest.mark.parametrize("words", [["exa mple"], ["example.com", "--selector", "a b"], ["example.com", "--type", "dsa"], []])
def test_a_mistake_is_one_of_usage(shell: Shell, words: list[str]) -> None:
    done = shell.run("dkim", "keygen", *words)
    assert done.returncode == 64
    assert one_line(done)


def test_where_it_cant_be_written_it_is_said(shell: Shell) -> None:
    done = shell.run("dkim", "keygen", "example.com", "--out", str(shell.folder / "none" / "made.pem"))
    assert done.returncode == 78
    assert "can't be written: No such file or directory" in one_line(done)


def test_a_name_that_no_record_can_stand_under_gets_no_key(shell: Shell) -> None:
    made = shell.run("dkim", "keygen", "intranet")
    assert made.returncode == 64 and "expected a full domain name" in made.stderr
    assert [*shell.folder.glob("*.pem")] == []


def test_without_keys_show_says_so(shell: Shell) -> None:
    assert shell.run("dkim", "show").stdout == "there are no keys: nothing is signed\n"


def test_a_full_disk_leaves_no_half_a_key_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    out = tmp_path / "made.pem"
    with pytest.raises(CommandError, match="No space left"):
        keygen("example.com", None, "ed25519", out)
    assert not out.exists()
