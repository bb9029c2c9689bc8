"""The DKIM keys of the `[[dkim]]` tables, from their files to what signs.

Rules: a key that can't be used is a `ConfigError` that names its file; no text says anything of the key itself.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mta.app.credentials import is_credential, secret_path
from mta.config.model import Config, Dkim
from mta.config.problems import ConfigError, Problem
from mta.dkim.keys import BadKey, Key, read_key

_TABLE = "dkim"
_OTHERS_READ = 0o004


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """In the order of the tables; `warnings` is what deserves one."""

    keys: tuple[Key, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read_keys(config: Config, environ: Mapping[str, str]) -> SigningKeys:
    """Those that the tables name, as they are now. Raises `ConfigError`, for the first that is no good."""
    keys, warnings = [], list[Problem]()
    for table in config.dkim:
        path = secret_path(table.key, environ, _TABLE)
        key, mode = _read(table, path)
        keys.append(key)
        if mode & _OTHERS_READ:
            warnings.append(Problem(f"{_TABLE}.key", f"{path} can be read by everybody on this machine: chmod o-r"))
    return SigningKeys(tuple(keys), tuple(warnings))


def key_warnings(config: Config, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """For whoever checks a configuration: credentials are there for the service alone. Raises `ConfigError`."""
    hidden = [table.key for table in config.dkim if is_credential(table.key)]
    if hidden and not environ.get("CREDENTIALS_DIRECTORY"):
        seen = tuple(table for table in config.dkim if not is_credential(table.key))
        warnings = read_keys(config.model_copy(update={"dkim": seen}), environ).warnings
        return (*warnings, Problem(_TABLE, f"{' and '.join(hidden)} can only be looked at by the service, not here"))
    return read_keys(config, environ).warnings


def system_keys(config: Config) -> SigningKeys:
    """With this process's environment. Raises `ConfigError`."""
    return read_keys(config, os.environ)


def _read(table: Dkim, path: Path) -> tuple[Key, int]:
    """The key, and the mode of its file."""
    try:
        return read_key(f"{table.domain}/{table.selector}", path.read_bytes()), path.stat().st_mode
    except OSError as error:
        problem = Problem(f"{_TABLE}.key", f"can't be read: {error.strerror}")
    except BadKey as error:
        problem = Problem(f"{_TABLE}.key", str(error))
    raise ConfigError(str(path), [problem])
