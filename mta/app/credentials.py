"""Where secrets are: files that the configuration names. `credential:NAME` is one in $CREDENTIALS_DIRECTORY
(systemd.exec(5), LoadCredential=), which the service alone can see."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mta.config.paths import CREDENTIAL
from mta.config.problems import ConfigError, Problem

_FOLDER = "CREDENTIALS_DIRECTORY"
_OTHERS_READ = 0o004


def secret_path(given: str, key: str, environ: Mapping[str, str]) -> Path:
    """The file that is meant at `key` of the configuration. Raises `ConfigError`: there are no credentials here."""
    kind, _, name = given.partition(":")
    if kind != CREDENTIAL:
        return Path(given)
    folder = environ.get(_FOLDER)
    if not folder:
        advice = f"there are no credentials here: expected to be run by systemd with LoadCredential={name}:FILE"
        raise ConfigError(given, [Problem(key, advice)])
    return Path(folder) / name


def hidden(given: Iterable[str | None], environ: Mapping[str, str]) -> list[str]:
    """Those that only the service can look at, where this is not the service."""
    return [it for it in given if it and it.startswith(f"{CREDENTIAL}:") and not environ.get(_FOLDER)]


def open_to_others(path: Path, key: str) -> Iterator[Problem]:
    if path.stat().st_mode & _OTHERS_READ:
        yield Problem(key, f"{path} can be read by everybody on this machine: chmod o-r")
