"""`mta serve`: the configuration, the event loop, signals, the service manager, exit codes (sysexits.h)."""

import asyncio
import gc
import logging
import os
import secrets
import signal
import sys
from functools import partial
from pathlib import Path

import uvloop

from mta.app.daemon import Daemon, StartError
from mta.app.runtime import SystemClock, named_here, system_runtime
from mta.app.settings import hostname
from mta.app.systemd import Notifier, inherited_sockets
from mta.config.load import load, named
from mta.config.model import Config
from mta.config.problems import ConfigError
from mta.config.users import Users, read_users
from mta.control.errors import Exit
from mta.model.events import Trouble
from mta.model.text import safe_text
from mta.observe.library import LibraryLog
from mta.observe.log import LogLines, json_object, key_values
from mta.observe.sink import DescriptorSink
from mta.spool.base import SpoolBusy, SpoolDamaged, SpoolError, SpoolFull
from mta.spool.process.client import SpoolProcess
from mta.unix_socket import SocketTaken

START_LOOK = 0.1
"""Seconds after which a SIGHUP that came during the start is looked at again."""
COLLECTIONS = 5_000, 10, 10
"""`gc.set_threshold`: a message leaves no cycles behind, and the default (700) looks through what hundreds of sessions hold
again and again: a tenth of the CPU time of mail to many destinations."""
SPOOL_MASK = 0o077
"""What the daemon makes is its own; the control socket's mode is set apart."""


def run(path: Path | None) -> int:
    """The daemon in the foreground, until SIGTERM or SIGINT. The exit code; raises `ConfigError`."""
    config = named_here(load(path, os.environ))
    os.umask(SPOOL_MASK)
    gc.set_threshold(*COLLECTIONS)
    process = SpoolProcess(uvloop.new_event_loop)
    users = read_users(config)  # secrets that the spool has no use for
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config, path, users, process))


async def _serve(config: Config, path: Path | None, users: Users, process: SpoolProcess) -> int:
    sink = DescriptorSink(sys.stderr.fileno())
    debug = config.log.level == "debug"
    layout = json_object if config.log.format == "json" else key_values
    log = LogLines(sink, SystemClock().now, layout, debug=debug)
    notifier = Notifier(os.environ)
    daemon = Daemon(config, system_runtime(config, process), log, notifier, users)
    handler = LibraryLog(daemon.observe, asyncio.get_running_loop(), partial(secrets.token_hex, 4), debug=debug)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _handle_signals(daemon, path, notifier)
    try:
        await daemon.serve(partial(_ready, daemon, notifier), inherited_sockets(os.environ))
        log(Trouble("info", "stopped"))
    except (StartError, SocketTaken, SpoolError, OSError) as error:
        return _failed(error)
    finally:
        sink.flush()
    return 0


def _ready(daemon: Daemon, notifier: Notifier) -> None:
    where = ", ".join(map(str, daemon.listener.doors))
    daemon.observe(Trouble("info", "ready", f"listening at {where}; spool {daemon.config.spool.path}"))
    gc.freeze()  # code and configuration stay: half of what a full collection would look through, and of its pause
    notifier.notify("READY=1", f"STATUS=listening at {where}")


def _handle_signals(daemon: Daemon, path: Path | None, notifier: Notifier) -> None:
    loop = asyncio.get_running_loop()

    def stop(asked: signal.Signals) -> None:
        daemon.log(Trouble("info", "stopping", asked.name))  # also before there are metrics
        notifier.notify("STOPPING=1")
        daemon.request_stop()

    def reload() -> None:
        if not daemon.runs:
            loop.call_later(START_LOOK, reload)
            return
        notifier.notify("RELOADING=1")
        _reload(daemon, path)
        notifier.notify("READY=1")

    loop.add_signal_handler(signal.SIGTERM, stop, signal.SIGTERM)
    loop.add_signal_handler(signal.SIGINT, stop, signal.SIGINT)
    loop.add_signal_handler(signal.SIGHUP, reload)


def _reload(daemon: Daemon, path: Path | None) -> None:
    """A file that is no good changes nothing."""
    try:
        config = load(path, os.environ)
        users = read_users(config)
        daemon.reload(config if config.hostname else named(config, hostname(daemon.config)), users)
    except ConfigError as error:
        daemon.observe(Trouble("error", "the configuration is as it was: the new one is wrong", "; ".join(error.lines())))
    else:
        where = str(path) if path else "there is no file: the built-in defaults"
        daemon.observe(Trouble("info", "the configuration was read again", where))
        for problem in users.warnings:
            daemon.observe(Trouble("warning", str(problem)))


def _failed(error: Exception) -> int:
    print(f"mta: {safe_text(str(error))}", file=sys.stderr)
    if isinstance(error, SpoolDamaged):
        return Exit.DATA
    if isinstance(error, SpoolBusy | SpoolFull | SocketTaken | OSError):
        return Exit.TRY_LATER
    return Exit.INTERNAL
