"""The DKIM keys of the `[[dkim]]` tables, from their files to what signs.

Rules: a key that can't be used is a `ConfigError` that names its file; no text says anything of the key itself.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mta.app.credentials import hidden, open_to_others, secret_path
from mta.config.files import read_file
from mta.config.model import Config, Dkim
from mta.config.problems import ConfigError, Problem
from mta.dkim.keys import BadKey, Key, read_key

_TABLE = "dkim"


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """In the order of the tables; `warnings` is what deserves one."""

    keys: tuple[Key, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read_keys(config: Config, environ: Mapping[str, str]) -> SigningKeys:
    """Those that the tables name, as they are now. Raises `ConfigError`, for the first that is no good."""
    keys, warnings = [], list[Problem]()
    for table in config.dkim:
        path = secret_path(table.key, _TABLE, environ)
        keys.append(_read(table, path))
        warnings += open_to_others(path, f"{_TABLE}.key")
    return SigningKeys(tuple(keys), tuple(warnings))


def key_warnings(config: Config, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """For whoever checks a configuration: credentials are there for the service alone. Raises `ConfigError`."""
    unseen = hidden((table.key for table in config.dkim), environ)
    seen = tuple(table for table in config.dkim if table.key not in unseen)
    warnings = read_keys(config.model_copy(update={"dkim": seen}), environ).warnings
    if not unseen:
        return warnings
    return (*warnings, Problem(_TABLE, f"{' and '.join(unseen)} can only be looked at by the service, not here"))


def system_keys(config: Config) -> SigningKeys:
    """With this process's environment. Raises `ConfigError`."""
    return read_keys(config, os.environ)


def _read(table: Dkim, path: Path) -> Key:
    try:
        return read_key(f"{table.domain}/{table.selector}", read_file(path))
    except OSError as error:
        problem = Problem(f"{_TABLE}.key", f"can't be read: {error.strerror}")
    except BadKey as error:
        problem = Problem(f"{_TABLE}.key", str(error))
    raise ConfigError(str(path), [problem])
