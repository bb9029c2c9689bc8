"""The passwords of relays: their files, their faults, and a reload."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mta.app import settings
from mta.app.relay_passwords import password_warnings, read_relay_passwords
from mta.config.load import load
from mta.config.model import Config
from mta.config.problems import ConfigError

Routed = Callable[..., Config]
PASSWORD = "corréct horse"


@pytest.fixture
def routed(tmp_path: Path) -> Routed:
    def configuration(*passwords: str) -> Config:
        path = tmp_path / "mta.toml"
        tables = [
            f'[[route]]\nmatch = "d{n}.test"\nvia = ["smtp://shop@relay{n}.test", "smtp://other{n}.test", "mx"]\n'
            f'password = "{it}"\n'
            for n, it in enumerate(passwords)
        ]
        path.write_text("".join([*tables, '[[route]]\nmatch = "last.test"\n']))
        return load(path, {"HOME": "/home/ann"})

    return configuration


def secret(folder: Path, content: bytes, name: str = "secret") -> Path:
    path = folder / name
    path.touch(0o600)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_password_is_the_line_in_its_file(routed: Routed, tmp_path: Path, end: bytes) -> None:
    secret(tmp_path, PASSWORD.encode() + end)
    found = read_relay_passwords(routed("secret"), {})
    assert found.by_route == (PASSWORD, "") and found.warnings == ()
    assert PASSWORD not in repr(found)


def test_a_credential_is_in_the_services_folder(routed: Routed, tmp_path: Path) -> None:
    secret(tmp_path, b" with blanks ", "relay")
    config = routed("credential:relay")
    assert read_relay_passwords(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).by_route[0] == " with blanks "
    with pytest.raises(ConfigError, match="LoadCredential=relay:FILE"):
        read_relay_passwords(config, {})
    (warned,) = password_warnings(config, {})
    assert "credential:relay can only be looked at by the service" in warned.message


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), (b"", "is empty"), (b"\n", "is empty"), (b"a\nb", "in one line"), (b"a\0b", "in one line"),
     (b"\xff", "UTF-8")],
)  # fmt: skip
def test_what_is_no_password_is_named_by_its_file(routed: Routed, tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        secret(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        read_relay_passwords(routed("secret"), {})
    (line,) = caught.value.lines()
    assert line.startswith(f"{tmp_path}/secret: route.password: ") and words in line


def test_a_file_that_everybody_can_read_is_warned_of_once(routed: Routed, tmp_path: Path) -> None:
    secret(tmp_path, b"x").chmod(0o644)
    (warned,) = read_relay_passwords(routed("secret", "secret"), {}).warnings
    assert f"{tmp_path}/secret can be read by everybody" in str(warned)


def test_each_relay_with_a_user_has_the_password_of_its_route(routed: Routed, tmp_path: Path) -> None:
    secret(tmp_path, b"one", "1")
    secret(tmp_path, b"two", "2")
    config = routed("1", "2")
    found = settings.destinations(config, read_relay_passwords(config, {}).by_route)
    passwords = [[via and via.password for via in route.vias] for route in found.routes]
    assert passwords == [["one", "", None], ["two", "", None], [None]]
