"""`mta dkim`: new keys, and the DNS records of those that the configuration names.

Rules: a key file is its owner's alone from its first moment on, and is never overwritten; nothing of a key but its public
part is shown. The daemon need not run.
"""

import json
import os
from pathlib import Path

import click

from mta.app.signing import system_keys
from mta.config.fields import full_domain
from mta.config.fields import selector as selector_name
from mta.config.load import load
from mta.control.errors import CommandError, Exit
from mta.dkim.keys import KeyType, new_key, read_key
from mta.model.text import safe_text

KEY_MODE = 0o600


def keygen(domain: str, selector: str | None, key_type: KeyType, out: Path | None) -> int:
    """Without `selector`, one that names the type, so that a domain can have both."""
    try:
        domain, selector = full_domain(domain), selector_name(selector or f"mta-{key_type}")
    except ValueError as error:
        raise CommandError(Exit.USAGE, safe_text(str(error))) from None
    path = (out or Path(f"{domain}.{selector}.pem")).absolute()
    pem = new_key(key_type)
    _write(path, pem)
    click.echo(f"The key is in {safe_text(str(path))}, for its owner to read alone: make that the daemon's user.\n")
    click.echo(f"Publish this record (a line of a zone file):\n\n{read_key(f'{domain}/{selector}', pem).zone_line}\n")
    click.echo("Then add this to the configuration; a daemon that runs learns of it by SIGHUP:\n")
    click.echo(f'[[dkim]]\ndomain = "{domain}"\nselector = "{selector}"\nkey = {json.dumps(str(path))}')
    return 0


def show(config: Path | None, as_json: bool) -> int:
    """Raises `ConfigError` for a key that can't be used."""
    keys = system_keys(load(config, os.environ)).keys
    if as_json:
        records = [{"name": key.owner, "algorithm": key.algorithm, "record": key.record} for key in keys]
        click.echo(json.dumps({"records": records}))
    else:
        click.echo("\n".join(key.zone_line for key in keys) or "there are no keys: nothing is signed")
    return 0


def _write(path: Path, pem: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, KEY_MODE)
        _fill(descriptor, path, pem)
    except FileExistsError:
        raise CommandError(Exit.DATA, f"{path} is there already: a key is not overwritten") from None
    except OSError as error:
        code = Exit.NOT_PERMITTED if isinstance(error, PermissionError) else Exit.CONFIG
        raise CommandError(code, f"{path} can't be written: {error.strerror}") from None


def _fill(descriptor: int, path: Path, pem: bytes) -> None:
    """Half a key would only be in the way of the next."""
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
