"""Values of the configuration that are files, and what is text at all.

Rules: those of `config.fields`. Apart from it since each command reads such a value and no other: nothing is imported here
that takes its time.
"""

import re
from pathlib import Path

CREDENTIAL = "credential"
_CREDENTIAL_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}\Z")
_MODE = re.compile(r"0?[0-7]{3}\Z")
SOCKET_PATH_LIMIT = 100
"""Octets; the system's limit is 107, and a sibling's name is needed while the socket is made."""


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected text in quotes")
    return value


def spool_path(value: object, base: Path) -> Path:
    """The file in `sqlite:/abs/path` or `sqlite:relative`."""
    scheme, _, rest = text(value).partition(":")
    if scheme in ("postgresql", "postgres"):
        raise ValueError(f'{scheme}: is not built in yet; expected "sqlite:/var/lib/mta/spool.db"')
    if scheme != "sqlite" or not rest or rest.startswith("//") or rest.endswith("/") or "\0" in rest:
        raise ValueError('expected "sqlite:" and a file, such as "sqlite:/var/lib/mta/spool.db"')
    return base / rest


def secret_file(value: object, base: Path) -> str:
    """A file, or `"credential:NAME"`, which the service manager has put where the environment says."""
    given = text(value)
    kind, colon, name = given.partition(":")
    if colon and kind == CREDENTIAL:
        if not _CREDENTIAL_NAME.match(name):
            raise ValueError('expected the name of a credential, such as "credential:mail.key"')
        return given
    if not given or given.endswith("/") or "\0" in given:
        raise ValueError('expected a file such as "/etc/mta/mail.pem", or "credential:mail.pem"')
    return str(base / given)


def file_mode(value: object) -> int:
    given = text(value)
    if not _MODE.match(given):
        raise ValueError('expected a mode such as "0660"')
    return int(given, 8)


def file_path(value: object, base: Path) -> Path:
    given = text(value)
    if not given or given.endswith("/") or "\0" in given:
        raise ValueError('expected a file such as "/etc/mta/users"')
    return base / given


def socket_path(value: object, base: Path) -> Path:
    given = text(value)
    if not given or given.endswith("/") or "\0" in given:
        raise ValueError('expected a path such as "/run/mta/control.sock"')
    path = base / given
    if len(bytes(path)) > SOCKET_PATH_LIMIT:
        raise ValueError(f"expected a path of at most {SOCKET_PATH_LIMIT} octets, with all its folders")
    return path
