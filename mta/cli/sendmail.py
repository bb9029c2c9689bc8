"""`mta sendmail`, and `sendmail` and `mailq` by link. Each mode imports its own, since programs call this for each mail."""

import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from mta.config.find import SYSTEM_FILE, control_socket, find_config
from mta.config.problems import ConfigError
from mta.model.text import safe_text
from mta.sendmail.arguments import USAGE, Invocation, Mode, parse
from mta.sendmail.errors import NoDoor, NotTaken, bad_data


def sendmail(words: Sequence[str], config: str | None, *, linked: bool) -> int:
    """The exit code. `config` is what stands before the command's name; `linked`: called as sendmail. Raises
    `ConfigError`, `CommandError`."""
    try:
        asked = parse(words)
        path = _config(asked.config or config, linked=linked)
        try:
            _run(asked, path)
        except (NoDoor, ConfigError):
            _check(path)
            raise
    except NotTaken as error:
        for line in error.lines:
            print(f"sendmail: {safe_text(line)}", file=sys.stderr)
        return int(error.code)
    return 0


def _run(asked: Invocation, config: Path | None) -> None:
    match asked.mode:
        case Mode.DELIVER:
            from mta.sendmail.doors import find_doors
            from mta.sendmail.handover import hand_over

            hand_over(asked, _input().buffer, _login(), find_doors(config))
        case Mode.SMTP:
            from mta.sendmail.doors import find_doors
            from mta.sendmail.relay import relay

            relay(find_doors(config), _input().fileno(), sys.stdout.fileno())
        case Mode.QUEUE:
            from mta.control.client import ask
            from mta.control.render import render

            sys.stdout.write(render("queue", ask(control_socket(config, os.environ), ["queue"])))
        case Mode.HELP:
            sys.stdout.write(USAGE)
        case Mode.RUN_QUEUE:
            pass  # the daemon does


def _check(config: Path | None) -> None:
    """Raises `ConfigError` with all that is wrong, as `mta check` tells it: then that is why there is no door."""
    from mta.config.load import load

    load(config, os.environ)


def _input() -> TextIO:
    if sys.stdin is None:
        raise bad_data("there is no standard input")
    return sys.stdin


def _config(given: str | None, *, linked: bool) -> Path | None:
    """Called by link, anybody's `mta.toml` in the folder where a program happens to run decides nothing."""
    if given:
        return Path(given)
    return find_config(os.environ, SYSTEM_FILE.parent if linked else Path.cwd())


def _login() -> str:
    """The name of the user who runs this; a user without one has the number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"
