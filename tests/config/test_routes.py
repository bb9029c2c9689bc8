"""What `[[route]]` tables say together."""

from pathlib import Path

import pytest

from mta.config.checks import warnings
from mta.config.describe import effective
from mta.config.load import load
from mta.config.model import Config
from mta.config.problems import ConfigError
from mta.config.routes import in_words
from mta.policy.destinations import Relay

ENVIRON = {"HOME": "/home/ann"}


def read(folder: Path, text: str) -> Config:
    path = folder / "mta.toml"
    path.write_text(f'hostname = "mail.example.com"\npostmaster = "p@example.net"\n{text}')
    return load(path, ENVIRON)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[route]]\nmatch = "*"\nvia = "smtp://shop@r.test"', '"smtp://r.test:587" has a user: expected password'),
        ('[[route]]\nmatch = "*"\nvia = ["mx", "smtps://shop@relay.example.net"]', "in the route number 1"),
        ('[[route]]\nmatch = "*"\nsource = ["192.0.2.5", "192.0.2.6"]', "two addresses of one family"),
        ('[[route]]\nmatch = "a.test"\n[[route]]\nmatch = "*"\nvia = "smtp://127.0.0.1:2525"', "mail would come back"),
        ('[[route]]\nmatch = "*"\nvia = "smtp://localhost:2525"', "mail would come back"),
    ],
)
def test_what_can_not_be_meant_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.key == "route" and words in problem.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[route]]\nmatch = "*"\nvia = "smtp://relay.example.net"\npassword = "p"', "nobody logs in"),
        ('[[route]]\nmatch = "*"\nvia = "smtp://r.test"\n[[route]]\nmatch = "a.test"', "number 2 never holds"),
    ],
)
def test_what_is_hardly_meant_is_warned_of(tmp_path: Path, text: str, words: str) -> None:
    (problem,) = warnings(read(tmp_path, text))
    assert problem.key == "route" and words in problem.message


def test_a_good_route_is_taken_without_a_word(tmp_path: Path) -> None:
    text = '[[route]]\nmatch = ["*"]\nvia = ["smtp://shop@r.test", "mx"]\npassword = "p"\nsource = ["192.0.2.5", "::5"]'
    assert not [*warnings(read(tmp_path, text))]


def test_a_password_in_a_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, '[[route]]\nmatch = "*"\nvia = "smtp://shop:hunter2@r.test"')
    (line,) = caught.value.lines()
    assert "expected no password in a URL" in line and "hunter2" not in line


def test_routes_are_told_in_words() -> None:
    vias = (Relay("r.test", 587, "shop", password="secret"), Relay("r.test", 465, implicit_tls=True), Relay("::1", 25), None)
    words = in_words(vias)
    assert words == (
        "smtp://r.test:587, logged in there as shop (inside TLS, with a certificate for r.test), "
        "else smtps://r.test:465 (inside TLS), else smtp://[::1]:25 (inside TLS if it has it), "
        "else the servers of its domain (mx)"
    )


def test_a_route_without_source_addresses_is_described(tmp_path: Path) -> None:
    shown = dict(effective(read(tmp_path, '[[route]]\nmatch = "*"\nsource = []')))
    assert "as the system chooses" in shown.values()
