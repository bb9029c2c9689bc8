"""`mta user`: the users file, seen by the person who keeps it.

Rules: the file is replaced as a whole or not at all, and keeps its mode and its owner; a new one is its owner's alone. The
one that will replace it is made first and is the lock: what is changed is read behind it, and nobody holds it while a
password is typed. No password is shown, nor a hash. The daemon reads the file at its start and on SIGHUP, so it need not
run.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

import click

from mta.config.document import read_document
from mta.config.fields import BAD_NAME, is_user_name
from mta.config.files import read_file
from mta.config.users import parse_users, users_file, with_user, without_user
from mta.control.errors import CommandError, Exit
from mta.model.text import safe_text
from mta.passwords import PASSWORD_LIMIT, hash_password

NEW_FILE_MODE = 0o600
_TELL = "a daemon that runs learns of it by SIGHUP"


def add(config: Path | None, name: str) -> int:
    """Asks for the password, or reads it; one who is there already gets the new one."""
    if not is_user_name(name):
        raise CommandError(Exit.USAGE, f'{BAD_NAME}, not "{name}"')
    path = _path(config)
    _read(path)  # a file that can't be changed is told of before a password is asked for
    hashed = hash_password(_password(name))
    users = change(path, lambda text, _: with_user(text, name, hashed))
    click.echo(f"{name} {'has a new password' if name in users else 'was added'}: {_TELL}")
    return 0


def remove(config: Path | None, name: str) -> int:
    path = _path(config)

    def without(text: str, users: Mapping[str, str]) -> str:
        if name not in users:
            raise CommandError(Exit.DATA, f'there is no user "{name}" in {path}')
        return without_user(text, name)

    change(path, without)
    click.echo(f"{name} was removed: {_TELL}")
    return 0


def list_users(config: Path | None, as_json: bool) -> int:
    names = sorted(_read(_path(config))[1])
    click.echo(json.dumps({"users": names}) if as_json else "\n".join(names) or "there are no users")
    return 0


# ---------------------------------------------------------------- the password
def _password(name: str) -> str:
    if sys.stdin.isatty():
        given: str = click.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        given = _first_line()
    if not given or "\0" in given or len(given) > PASSWORD_LIMIT:
        raise CommandError(Exit.DATA, f"expected a password of 1 to {PASSWORD_LIMIT} characters")
    return given


def _first_line() -> str:
    try:
        return sys.stdin.buffer.readline().decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise CommandError(Exit.DATA, "expected the password in UTF-8") from None


# ---------------------------------------------------------------- the file
def _path(config: Path | None) -> Path:
    """Where the file is, not where a link to it is."""
    path = users_file(read_document(config))
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise CommandError(_code(error), f"{path} can't be read: {_reason(error)}") from None


def _read(path: Path) -> tuple[str, Mapping[str, str]]:
    """Its text, and who stands in it; a file that is not there is empty."""
    try:
        text = read_file(path).decode("utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(_code(error), f"{path} can't be read: {_reason(error)}") from None
    return text, parse_users(text, str(path))


def change(path: Path, new_text: Callable[[str, Mapping[str, str]], str]) -> Mapping[str, str]:
    """Replaces the file's text by what `new_text` makes of it and of the users; those, as they were. What that raises leaves
    the file as it is. Raises `CommandError`, also while another does this."""
    new = path.with_name(f".{path.name}.new")
    try:
        with _created(new, path) as file:
            text, users = _read(path)
            _fill(file, new_text(text, users), path)
        _sync_folder(path.parent)
    except OSError as error:
        raise CommandError(_code(error), f"{path} can't be written: {_reason(error)}") from None
    return users


@contextlib.contextmanager
def _created(new: Path, path: Path) -> Iterator[TextIO]:
    """`new`, which nobody else can have meanwhile; in the end it replaces `path`, or is gone."""
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, NEW_FILE_MODE)
    except FileExistsError:
        advice = "another `mta user` is at work, or was cut off; then remove it"
        raise CommandError(Exit.TRY_LATER, f"{new} is there: {advice}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
        os.replace(new, path)  # from here on one of this name is another's
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _fill(file: TextIO, text: str, old: Path) -> None:
    """Durable before anybody can take it for the file."""
    descriptor = file.fileno()
    if old.exists():
        found = old.stat()
        if (found.st_uid, found.st_gid) != (os.fstat(descriptor).st_uid, os.fstat(descriptor).st_gid):
            os.fchown(descriptor, found.st_uid, found.st_gid)
        os.fchmod(descriptor, found.st_mode & 0o777)
    file.write(text)
    file.flush()
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _code(error: Exception) -> Exit:
    return Exit.NOT_PERMITTED if isinstance(error, PermissionError) else Exit.CONFIG


def _reason(error: Exception) -> str:
    return safe_text(error.strerror or "") if isinstance(error, OSError) else "expected UTF-8 text"
