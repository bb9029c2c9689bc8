"""The users file: who may authenticate, and the hash of each one's password.

Rules: a line is `NAME:HASH`, a comment (`#`) or empty; what is none of these refuses the file, named by its line, and a
name stands once. A file that everybody may write is refused; one that everybody may read is warned of. No message says a
hash. The hash is argon2id's, in the form of its reference implementation (RFC 9106), of costs that a daemon can bear.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mta.config.document import Document
from mta.config.fields import BAD_NAME, is_user_name
from mta.config.model import Config
from mta.config.problems import ConfigError, Problem

_HASH = re.compile(r"\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,3}),p=[0-9]{1,2}\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+\Z")
MEMORY_LIMIT = 256 * 1024
"""KiB that the verification of one password may take."""
ROUNDS_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Users:
    """`hashes` has the password's hash of each name; `warnings` what deserves one."""

    hashes: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[Problem, ...] = ()


NOBODY = Users()


def read_users(config: Config) -> Users:
    """Those of the configuration. Raises `ConfigError`, whose source is the users file."""
    path = config.submission.users_file
    if path is None:
        return NOBODY
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(str(path), [Problem("", "is not there; `mta user add NAME` makes it")]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "expected UTF-8 text"
        raise ConfigError(str(path), [Problem("", f"can't be read: {reason}")]) from None
    if mode & stat.S_IWOTH:
        raise ConfigError(str(path), [Problem("", "everybody may write it: `chmod 640` it")])
    hashes = parse_users(text, str(path))
    return Users(hashes, tuple(_warnings(path, mode, hashes)))


def _warnings(path: Path, mode: int, hashes: Mapping[str, str]) -> Iterator[Problem]:
    if not hashes:
        yield Problem("submission.users_file", f"{path} has no users: nobody can log in; `mta user add NAME` adds one")
    if mode & stat.S_IROTH:
        yield Problem("submission.users_file", f"everybody may read {path}: `chmod 640` it")


def parse_users(text: str, source: str) -> Mapping[str, str]:
    """The hash of each name. Raises `ConfigError`."""
    hashes: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        name, _, hashed = line.strip().partition(":")
        if not (name or hashed) or name.startswith("#"):
            continue
        if problem := _problem(name, hashed, hashes):
            problems.append(Problem("", problem, number))
        hashes[name] = hashed
    if problems:
        raise ConfigError(source, problems)
    return hashes


def _problem(name: str, hashed: str, before: Mapping[str, str]) -> str:
    if not is_user_name(name):
        return f"{BAD_NAME}, and a colon behind it"
    if name in before:
        return f'"{name}" is given twice'
    found = _HASH.match(hashed)
    if found is None:
        return f'expected an argon2id hash behind "{name}:"; `mta user add {name}` writes it'
    if int(found[1]) > MEMORY_LIMIT or int(found[2]) > ROUNDS_LIMIT:
        return f'the hash of "{name}" costs too much: at most m={MEMORY_LIMIT},t={ROUNDS_LIMIT}'
    return ""


def without_user(text: str, name: str) -> str:
    """The file's text without this one's line; everything else of it stays."""
    return "".join(line for line in _lines(text) if line.strip().partition(":")[0] != name)


def with_user(text: str, name: str, hashed: str) -> str:
    """With this one's line, in the place where there was one."""
    lines = _lines(text)
    new = f"{name}:{hashed}\n"
    at = [number for number, line in enumerate(lines) if line.strip().partition(":")[0] == name]
    if at:
        lines[at[0]] = new
    else:
        lines.append(new)
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """Each ended."""
    return [f"{line}\n" for line in text.splitlines()]


def users_file(document: Document) -> Path:
    """`submission.users_file` of a configuration, and nothing else of it. Raises `ConfigError`."""
    submission = document.tables.get("submission", {})
    given = submission.get("users_file") if isinstance(submission, dict) else None
    if not isinstance(given, str) or not given:
        advice = 'not set: it says where the users are kept, such as "/etc/mta/users"'
        raise ConfigError(document.source, [Problem("submission.users_file", advice)])
    return document.base / given
