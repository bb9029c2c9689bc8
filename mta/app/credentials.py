"""Where a secret is: a file, or `credential:NAME`, a file in $CREDENTIALS_DIRECTORY (systemd.exec(5), LoadCredential=)."""

from collections.abc import Mapping
from pathlib import Path

from mta.config.fields import CREDENTIAL
from mta.config.problems import ConfigError, Problem


def is_credential(given: str) -> bool:
    return given.startswith(f"{CREDENTIAL}:")


def secret_path(given: str, environ: Mapping[str, str], table: str) -> Path:
    """`given` in `table` of the configuration. Raises `ConfigError` for a credential where there are none."""
    if not is_credential(given):
        return Path(given)
    name = given.partition(":")[2]
    folder = environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        advice = f"there are no credentials here: expected to be run by systemd with LoadCredential={name}:FILE"
        raise ConfigError(given, [Problem(table, advice)])
    return Path(folder) / name
