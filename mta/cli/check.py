"""`mta check`: what the configuration says, in words; or what is wrong with it, each mistake in its line."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from mta.app.certificate import certificate_warnings
from mta.app.elsewhere import domains_elsewhere, system_addresses
from mta.app.relay_passwords import password_warnings
from mta.app.runtime import named_here
from mta.app.signing import key_warnings
from mta.config.checks import dane_warnings, warnings
from mta.config.describe import effective
from mta.config.load import load
from mta.config.problems import ConfigError, Problem
from mta.config.users import read_users


def check(path: Path | None, as_json: bool) -> int:
    """0; raises `ConfigError` for a configuration that can't be used, with `as_json` after telling it as a document."""
    source = str(path) if path else "the built-in defaults"
    try:
        config = load(path, os.environ)
        named_here(config)
        users = read_users(config)
        warned = [*warnings(config), *certificate_warnings(config, os.environ), *users.warnings]
        warned += key_warnings(config, os.environ)
        warned += password_warnings(config, os.environ)
    except ConfigError as error:
        if as_json:
            _print_json(source, (), (), error.problems)
        raise
    if not config.dns.nameservers:
        warned += dane_warnings(config, system_addresses())
    values = list(effective(config))
    warned += domains_elsewhere(config)
    if as_json:
        _print_json(source, values, warned, ())
    else:
        _print_text(source, values, warned)
    return 0


def _print_text(source: str, values: Iterable[tuple[str, str]], warned: Iterable[Problem]) -> None:
    click.echo(f"configuration: {source}")
    for key, words in values:
        click.echo(f"  {key:39} {words}")
    for problem in warned:
        click.echo(f"warning: {problem}")


def _print_json(
    source: str, values: Iterable[tuple[str, str]], warned: Iterable[Problem], mistakes: Iterable[Problem]
) -> None:
    document: dict[str, Any] = {
        "file": source,
        "effective": dict(values),
        "warnings": [_document(problem) for problem in warned],
        "problems": [_document(problem) for problem in mistakes],
    }
    click.echo(json.dumps(document, ensure_ascii=False))


def _document(problem: Problem) -> dict[str, Any]:
    return {"key": problem.key or None, "line": problem.line or None, "message": problem.message}
