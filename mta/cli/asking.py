"""The commands that the daemon answers: made from `control.commands`, so that the socket and the command line agree."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from mta.cli.settings import config_option, config_path, json_option
from mta.config.find import control_socket
from mta.control.client import ask
from mta.control.commands import COMMANDS, Command, Option, Refs, Spec, parse_command, words_of
from mta.control.render import render


def daemon_commands() -> Iterator[click.Command]:
    return (_command(spec) for spec in COMMANDS.values())


def _command(spec: Spec) -> click.Command:
    params: list[click.Parameter] = [_option(option) for option in spec.options]
    if spec.refs is not Refs.NONE:
        params.append(click.Argument(["refs"], nargs=1 if spec.refs is Refs.ONE else -1, metavar=_metavar(spec.refs)))
    bare = click.Command(spec.name, params=params, callback=_callback(spec), help=spec.help)
    return config_option(json_option(bare))


def _option(option: Option) -> click.Option:
    names = [f"--{option.name}", option.name.replace("-", "_")]
    if option.read:
        return click.Option(names, metavar=option.metavar, help=option.help)
    return click.Option(names, is_flag=True, help=option.help)


def _metavar(refs: Refs) -> str:
    return {Refs.ONE: "REF", Refs.SOME: "REF...", Refs.OR_SCOPE: "[REF...]"}[refs]


def _callback(spec: Spec) -> Any:
    @click.pass_context
    def run(ctx: click.Context, /, as_json: bool, refs: str | tuple[str, ...] = (), **values: str | bool | None) -> None:
        given = (refs,) if isinstance(refs, str) else refs
        words = words_of(Command(spec.name, given, _given(values)))
        parse_command(words)  # a slip of the hand is told without the daemon
        document = ask(control_socket(config_path(ctx), os.environ), words)
        sys.stdout.write(_dumped(document) if as_json else render(spec.name, document))

    return run


def _given(values: Mapping[str, str | bool | None]) -> dict[str, str]:
    """The options that were given, as `control.commands` has them: a flag's value is ""."""
    texts = {name: "" if value is True else value for name, value in values.items()}
    return {name.replace("_", "-"): text for name, text in texts.items() if isinstance(text, str)}


def _dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
