"""The options that every command has, before or after its name."""

import os
from pathlib import Path

import click

from mta.config.find import find_config


def _remember(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """The one given last, nearest to the command, holds."""
    if value is not None:
        ctx.find_root().obj = value


config_option = click.option(
    "--config",
    metavar="FILE",
    callback=_remember,
    expose_value=False,
    help="The configuration; else $MTA_CONFIG, ./mta.toml or /etc/mta/mta.toml.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Prints one JSON document.")


def config_path(ctx: click.Context) -> Path | None:
    """The configuration's file, None where the built-in defaults hold."""
    given: str | None = ctx.find_root().obj
    return Path(given) if given else find_config(os.environ, Path.cwd())
