"""`mta`: arguments in, and what a person sees.

Rules: a command that asks the daemon talks to its socket and opens no file of the spool, whoever runs it; an error is
one line on standard error with an exit code of sysexits.h; no traceback, whatever happens. What a command does not need
is not imported: `mta status` is for loops and shells.
"""

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

import click

from mta import __version__
from mta.cli.asking import daemon_commands
from mta.cli.output import Output, OutputLost, give_output_up
from mta.cli.settings import config_option, config_path, json_option
from mta.config.problems import ConfigError
from mta.control.errors import CommandError, Exit
from mta.model.text import safe_text


class Commands(click.Group):
    """Listed in the order they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="To begin: `mta demo`, then `mta serve`.",
)
@click.version_option(__version__, prog_name="mta", message="%(prog)s %(version)s")
@config_option
@click.pass_context
def cli(ctx: click.Context) -> int:
    """An SMTP-native delivery agent: hand a message over on localhost once; it leaves once, in time, and can be followed."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
    return Exit.USAGE  # click takes the command's own, where there is one


@cli.command()
@config_option
@click.pass_context
def serve(ctx: click.Context) -> int:
    """Runs the daemon in the foreground. SIGTERM stops it in order, SIGHUP re-reads the configuration."""
    return _entry("mta.app", "run")(config_path(ctx))


@cli.command()
@config_option
@json_option
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> int:
    """Reads the configuration and says what it means."""
    return _entry("mta.cli.check", "check")(config_path(ctx), as_json)


@cli.command()
@click.argument("domain", default="")
@config_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, domain: str, as_json: bool) -> int:
    """Looks at what decides whether others take our mail, and says what to do. DOMAIN is one that you send to."""
    return _entry("mta.cli.doctor", "doctor")(config_path(ctx), domain, as_json)


@cli.command()
@config_option
def demo() -> int:
    """Shows all of it at work in a pretend internet, in under a minute."""
    return _entry("mta.cli.demo", "demo")()


@cli.group(cls=Commands)
@config_option
def user() -> None:
    """Keeps the users file: who may log in to submit mail."""


@user.command("add")
@click.argument("name")
@config_option
@click.pass_context
def add_user(ctx: click.Context, name: str) -> int:
    """Adds a user, or gives one a new password: asked for on a terminal, else a line of standard input."""
    return _entry("mta.cli.user", "add")(config_path(ctx), name)


@user.command("remove")
@click.argument("name")
@config_option
@click.pass_context
def remove_user(ctx: click.Context, name: str) -> int:
    """Removes a user."""
    return _entry("mta.cli.user", "remove")(config_path(ctx), name)


@user.command("list")
@config_option
@json_option
@click.pass_context
def list_users(ctx: click.Context, as_json: bool) -> int:
    """Lists their names."""
    return _entry("mta.cli.user", "list_users")(config_path(ctx), as_json)


@cli.group(cls=Commands)
@config_option
def dkim() -> None:
    """Makes keys that sign mail, and shows the DNS records of those there are."""


@dkim.command("keygen")
@click.argument("domain")
@click.option("--selector", metavar="S", help="Its name in DNS; else mta-rsa or mta-ed25519.")
@click.option("--type", "key_type", type=click.Choice(["rsa", "ed25519"]), default="rsa", show_default=True,
              help="Every receiver verifies rsa; ed25519 is to be used besides.")  # fmt: skip
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Where the key goes; else DOMAIN.S.pem here.")
@config_option
def dkim_keygen(domain: str, selector: str | None, key_type: str, out: Path | None) -> int:
    """Makes a key; prints the DNS record and the table of the configuration that belong to it."""
    return _entry("mta.cli.dkim", "keygen")(domain, selector, key_type, out)


@dkim.command("show")
@config_option
@json_option
@click.pass_context
def dkim_show(ctx: click.Context, as_json: bool) -> int:
    """Prints the DNS records that the configured keys need."""
    return _entry("mta.cli.dkim", "show")(config_path(ctx), as_json)


for command in daemon_commands():
    cli.add_command(command)


class Verbatim(click.Command):
    """Its arguments are not click's to read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = args
        return args


@cli.command(cls=Verbatim, add_help_option=False)
@click.pass_context
def sendmail(ctx: click.Context) -> int:
    """The sendmail(8) interface, for programs that call it."""
    return _entry("mta.cli.sendmail", "sendmail")(ctx.args, ctx.find_root().obj, linked=_link() is not None)


LINKS = {"sendmail": ("sendmail",), "mailq": ("sendmail", "-bp")}
"""What the names mean that this program may have by link."""


def _link() -> str | None:
    name = Path(sys.argv[0]).name
    return name if name in LINKS else None


def _words() -> list[str]:
    link = _link()
    return [*(LINKS[link] if link else ()), *sys.argv[1:]]


def main() -> int:
    """The exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout = Output(sys.stdout)
    try:
        code = cli.main(_words(), prog_name="mta", standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except click.UsageError as error:
        return _failed(Exit.USAGE, [f"{error.format_message()} (see {_help_of(error)})"])
    except OutputLost as error:
        give_output_up()
        return _failed(error.code, [error.message])
    except CommandError as error:
        return _failed(error.code, [error.message])
    except ConfigError as error:
        return _failed(Exit.CONFIG, error.lines())
    except BrokenPipeError:  # `mta queue | head`: whoever reads has enough
        give_output_up()
        return 0
    except (KeyboardInterrupt, click.Abort):
        return 130
    except Exception as error:
        return _failed(Exit.INTERNAL, [f"internal error: {type(error).__name__}: {error}"])


def _failed(code: int, lines: Iterable[str]) -> int:
    for line in lines:
        print(f"mta: {safe_text(line)}", file=sys.stderr)
    return int(code)


def _help_of(error: click.UsageError) -> str:
    return f"{error.ctx.command_path if error.ctx else 'mta'} --help"


def _entry(module: str, name: str) -> Callable[..., int]:
    """A command's work, imported when it is wanted."""
    entry: Callable[..., int] = getattr(import_module(module), name)
    return entry
