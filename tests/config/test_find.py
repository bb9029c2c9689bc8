"""Which file is read, and the one key that a command reads of it."""

from pathlib import Path

import pytest

from mta.config.find import control_socket, find_config
from mta.config.load import load
from mta.config.problems import ConfigError


def test_the_first_that_exists_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, here, named = tmp_path / "etc.toml", tmp_path / "mta.toml", tmp_path / "named.toml"
    monkeypatch.setattr("mta.config.find.SYSTEM_FILE", system)
    environ = {"MTA_CONFIG": str(named)}
    assert find_config(environ, tmp_path) is None
    for path in (system, here, named):
        path.touch()
        assert find_config(environ, tmp_path) == path
    assert find_config({}, tmp_path) == here


@pytest.mark.parametrize(
    "text", ["", "[control]\n", '[control]\nsocket = "c.sock"\n', '[control]\nsocket = "/run/mta/c.sock"\n']
)
def test_the_command_line_and_the_daemon_agree_on_the_socket(tmp_path: Path, text: str) -> None:
    path, environ = tmp_path / "mta.toml", {"XDG_STATE_HOME": "/state"}
    path.write_text(text)
    assert control_socket(path, environ) == load(path, environ).control.socket
    assert control_socket(None, environ) == load(None, environ).control.socket


def test_a_mistake_elsewhere_does_not_hide_the_daemon(tmp_path: Path) -> None:
    path = tmp_path / "mta.toml"
    path.write_text('hostnam = "x"\n[control]\nsocket = "/run/c.sock"\n')
    assert control_socket(path, {}) == Path("/run/c.sock")


@pytest.mark.parametrize(
    ("text", "says"), [("control = 5\n", "control: expected a table"), ("[control]\nsocket = 5\n", ":2: control.socket: ")]
)
def test_a_mistake_in_the_socket_itself_is_told(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mta.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        control_socket(path, {})
