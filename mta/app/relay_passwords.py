"""The passwords of the relays that the `[[route]]` tables name, from their files.

Rules: one that is missing, or can't be one, is a `ConfigError` that names the file; no message says a password. A file is
UTF-8 text of one line, whose end is none of the password.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mta.app.credentials import hidden, open_to_others, secret_path
from mta.config.files import read_file
from mta.config.model import Config
from mta.config.problems import ConfigError, Problem

_KEY = "route.password"


@dataclass(frozen=True, slots=True)
class RelayPasswords:
    """`by_route` has one for each `[[route]]`, in their order, "" where none is named."""

    by_route: tuple[str, ...] = field(default=(), repr=False)
    warnings: tuple[Problem, ...] = ()


def read_relay_passwords(config: Config, environ: Mapping[str, str]) -> RelayPasswords:
    """As they are now. Raises `ConfigError`."""
    paths = [secret_path(it.password, _KEY, environ) if it.password else None for it in config.route]
    by_route = tuple(_password(path) if path is not None else "" for path in paths)
    return RelayPasswords(by_route, tuple(_warnings(dict.fromkeys(filter(None, paths)))))


def password_warnings(config: Config, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """For whoever checks a configuration: credentials are there for the service alone. Raises `ConfigError`."""
    if unseen := hidden((it.password for it in config.route), environ):
        advice = f"{' and '.join(dict.fromkeys(unseen))} can only be looked at by the service, not here"
        return (Problem(_KEY, advice),)
    return read_relay_passwords(config, environ).warnings


def system_relay_passwords(config: Config) -> RelayPasswords:
    """With this process's environment. Raises `ConfigError`."""
    return read_relay_passwords(config, os.environ)


def _password(path: Path) -> str:
    try:
        text = read_file(path).decode("utf-8")
    except OSError as error:
        raise _refusal(path, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _refusal(path, "expected UTF-8 text") from None
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise _refusal(path, "is empty: expected the password")
    if any(it in password for it in "\r\n\0"):
        raise _refusal(path, "expected the password alone, in one line")
    return password


def _refusal(path: Path, text: str) -> ConfigError:
    return ConfigError(str(path), [Problem(_KEY, text)])


def _warnings(paths: Mapping[Path, None]) -> Iterator[Problem]:
    for path in paths:
        yield from open_to_others(path, _KEY)
