"""A named pipe where a file is meant: no command waits for whoever may write into it."""

import os

import pytest

from mta.dkim.keys import new_key
from tests.cli.test_main import Shell, shell

__all__ = ["shell"]

TABLES = {
    "a DKIM key": '[[dkim]]\ndomain = "example.com"\nselector = "s"\nkey = "pipe"',
    "a password": '[[route]]\nmatch = "*"\nvia = "smtp://shop@relay.test"\npassword = "pipe"',
    "a certificate": '[submission.tls]\ncertificate = "pipe"\nkey = "key"',
    "a certificate's key": '[submission.tls]\ncertificate = "certificate"\nkey = "pipe"',
    "users": '[submission]\nusers_file = "pipe"',
}


@pytest.mark.parametrize("what", TABLES)
def test_a_pipe_is_refused_at_once(shell: Shell, what: str) -> None:
    os.mkfifo(shell.folder / "pipe", 0o600)
    (shell.folder / "key").write_bytes(new_key("rsa"))
    (shell.folder / "certificate").write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    shell.config.write_text(f"{shell.config.read_text()}{TABLES[what]}\n")
    checked = shell.run("check", "--config", str(shell.config))
    assert checked.returncode == 78
    assert f"{shell.folder}/pipe: " in checked.stderr and "can't be read: it is no regular file" in checked.stderr


def test_the_users_of_a_pipe_are_not_waited_for(shell: Shell) -> None:
    os.mkfifo(shell.folder / "pipe", 0o600)
    shell.config.write_text(f"{shell.config.read_text()}{TABLES['users']}\n")
    assert "it is no regular file" in shell.run("user", "list", "--config", str(shell.config)).stderr
