"""The users file: who may authenticate, and the hash of each one's password.

Rules: a line is `NAME:HASH`, a comment (`#`) or empty; what is none of these refuses the file, named by its line, and a
name stands once. A file that everybody may write is refused; one that everybody may read is warned of. No message says a
hash. The hash is argon2id's (RFC 9106), one that can be verified, of costs that a daemon can bear.
"""

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mta.config.document import Document
from mta.config.fields import BAD_NAME, is_user_name
from mta.config.files import read_file
from mta.config.model import Config
from mta.config.problems import ConfigError, Problem
from mta.policy.hashes import HIGHEST, cost, is_bearable


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
        text = read_file(path).decode("utf-8")
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
        written = line.strip()
        if not written or written.startswith("#"):
            continue
        name, _, hashed = written.partition(":")
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
    found = cost(hashed)
    if found is None:
        return f'expected an argon2id hash behind "{name}:"; without the line, `mta user add {name}` writes it'
    if not is_bearable(found):
        advice = f"without the line, `mta user add {name}` writes another"
        return f'the hash of "{name}" costs too much ({found}): at most {HIGHEST}; {advice}'
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
