"""Where the configuration is, and what holds without one: paths from the environment that is handed in.

Quick on purpose: a command that only asks the daemon imports this and not the models, and works with a configuration
that has a mistake elsewhere.
"""

from collections.abc import Mapping
from pathlib import Path

from mta.config.document import Document, Key, dotted, read_document
from mta.config.paths import socket_path
from mta.config.problems import ConfigError, Problem

SYSTEM_FILE = Path("/etc/mta/mta.toml")


def find_config(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The first that exists of `$MTA_CONFIG`, `mta.toml` in `cwd`, and the system's; None: the built-in defaults hold."""
    named = environ.get("MTA_CONFIG")
    candidates = [Path(named)] if named else []
    candidates += [cwd / "mta.toml", SYSTEM_FILE]
    return next((path for path in candidates if _exists(path)), None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def state_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/mta`, else `~/.local/state/mta`; a relative `$XDG_STATE_HOME` counts for nothing, as the XDG base
    directory specification demands."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path(environ.get("HOME") or Path("~").expanduser()) / ".local" / "state"
    return state / "mta"


def control_socket(path: Path | None, environ: Mapping[str, str]) -> Path:
    """`[control] socket` of the file at `path`, and nothing else of it. Raises `ConfigError`."""
    document = read_document(path)
    control = document.tables.get("control", {})
    if not isinstance(control, dict):
        raise _mistake(document, ("control",), "expected a table")
    if "socket" not in control:
        return state_folder(environ) / "control.sock"
    try:
        return socket_path(control["socket"], document.base)
    except ValueError as error:
        raise _mistake(document, ("control", "socket"), str(error)) from None


def _mistake(document: Document, key: Key, message: str) -> ConfigError:
    return ConfigError(document.source, [Problem(dotted(key), message, document.line(key))])
