"""The commands that the daemon answers: made from `control.commands`, so that the socket and the command line agree."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mta.cli.settings import config_option, config_path, json_option
from mta.config.find import control_socket
from mta.control.client import ask
from mta.control.commands import COMMANDS, Command, Option, Refs, Spec, parse_command, words_of
from mta.control.errors import CommandError
from mta.control.render import render, shown_as

GROUPS = {"suppression": "Addresses that nothing is sent to: `[suppression] keep` says for how long, or a person does."}
LEVELS = {"ok": 0, "warning": 1, "critical": 2}
"""The exit codes of `status --check`, as monitoring plugins have them."""


def daemon_commands() -> Iterator[click.Command]:
    groups: dict[str, click.Group] = {}
    for spec in COMMANDS.values():
        first, _, second = spec.name.partition(" ")
        if not second:
            yield _command(spec)
        elif first in groups:
            groups[first].add_command(_command(spec))
        else:
            groups[first] = group = click.Group(first, commands=[_command(spec)], help=GROUPS[first])
            yield config_option(group)


def _command(spec: Spec) -> click.Command:
    params: list[click.Parameter] = [_option(option) for option in spec.options]
    if spec.refs is not Refs.NONE:
        alone = spec.refs in (Refs.ONE, Refs.FILE, Refs.ADDRESS)
        params.append(click.Argument(["refs"], nargs=1 if alone else -1, metavar=_metavar(spec.refs)))
    bare = click.Command(spec.name.rpartition(" ")[2], params=params, callback=_callback(spec), help=spec.help)
    return config_option(json_option(bare))


def _option(option: Option) -> click.Option:
    names = [f"--{option.name}", option.name.replace("-", "_")]
    if option.read:
        return click.Option(names, metavar=option.metavar, help=option.help)
    return click.Option(names, is_flag=True, help=option.help)


def _metavar(refs: Refs) -> str:
    names = {Refs.ONE: "REF", Refs.SOME: "REF...", Refs.OR_SCOPE: "[REF...]", Refs.FILE: "FILE", Refs.ADDRESS: "ADDRESS"}
    return names[refs]


def _callback(spec: Spec) -> Any:
    @click.pass_context
    def run(ctx: click.Context, /, as_json: bool, refs: str | tuple[str, ...] = (), **values: str | bool | None) -> int:
        given = (refs,) if isinstance(refs, str) else refs
        if spec.refs is Refs.FILE:
            given = tuple(os.path.abspath(name) for name in given)
        words = words_of(Command(spec.name, given, _given(values)))
        command = parse_command(words)  # a slip of the hand is told without the daemon
        is_check = "check" in command.options
        asked = _asked_for_health if is_check else ask
        document = asked(control_socket(config_path(ctx), os.environ), words, spec.patience)
        sys.stdout.write(_dumped(document) if as_json else render(shown_as(command), document))
        return LEVELS[document["health"]["level"]] if is_check else 0

    return run


def _asked_for_health(path: Path, words: Sequence[str], timeout: float) -> dict[str, Any]:
    """That the daemon says nothing is an answer too."""
    try:
        return ask(path, words, timeout)
    except CommandError as error:
        return {"health": {"level": "critical", "reasons": [error.message]}}


def _given(values: Mapping[str, str | bool | None]) -> dict[str, str]:
    """The options that were given, as `control.commands` has them: a flag's value is ""."""
    texts = {name: "" if value is True else value for name, value in values.items()}
    return {name.replace("_", "-"): text for name, text in texts.items() if isinstance(text, str)}


def _dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
