"""The real daemon as a child process, `mta serve`, and what is heard of it: its log, its control socket, its SMTP.

Rules: it is waited for by what it says in its log, with a deadline, never by the clock alone; it is ended with the demo,
whatever ends that.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mta.control.client import ask
from mta.demo.internet import Internet, reserve

HOSTNAME = "mail.shop.example"
SENDER = "orders@shop.example"
POSTMASTER = "postmaster@shop.example"
STOP_TIMEOUT = 10.0
"""Seconds for the daemon's end in order; the demo's mail may be lost."""
LINE_LIMIT = 2**20
_SERVE = "import sys; from mta.cli.main import main; sys.exit(main())"
_CONFIG = """\
hostname = "{hostname}"
postmaster = "{postmaster}"
[spool]
url = "sqlite:spool.db"
[control]
socket = "control.sock"
[submission]
listen = ["127.0.0.1:{submission_port}"]
[dns]
nameservers = ["{name_server}"]
[delivery]
port = {mail_port}
allow_private_addresses = true
max_sessions_per_destination = 4
in_doubt_delay = "3s"
[reports]
interval = "1s"
[alerts]
interval = "1s"
[class.normal]
first_retry = "2s"
jitter = 0.0
give_up_after = "6s"
warn_after = "0s"
[log]
format = "json"
"""

Fact = dict[str, Any]
"""A line of the daemon's log."""


class StoryError(Exception):
    """The story did not come true; the text says what did not."""


class Daemon:
    """A running `mta serve`. `port` is where it takes mail."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, port: int, patience: float) -> None:
        self.port = port
        self._process, self._folder, self._patience = process, folder, patience
        self._facts: list[Fact] = []
        self._last_words = ""
        self._ended = False
        self._news = asyncio.Event()

    async def listen(self) -> None:
        """Takes in the log, until it ends."""
        assert self._process.stderr is not None  # noqa: S101 - it was asked for as a pipe
        while line := await self._process.stderr.readline():
            self._take(line)
        self._ended = True
        self._news.set()

    def _take(self, line: bytes) -> None:
        try:
            self._facts.append(json.loads(line))
        except ValueError:  # an error is plain text
            self._last_words = line.decode("utf-8", "replace").strip()
        self._news.set()

    async def facts(self, wanted: Callable[[Fact], bool], hope: str) -> AsyncIterator[Fact]:
        """The facts that are `wanted`, from the first line on, as they come; each within the patience there is. Raises
        `StoryError` with the `hope` that was not fulfilled."""
        place = 0
        while True:
            try:
                async with asyncio.timeout(self._patience):
                    place = await self._find(wanted, place)
            except TimeoutError:
                raise StoryError(f"{hope}: nothing was heard of it for {self._patience:g} s") from None
            if place < 0:
                raise StoryError(f"{hope}: the daemon ended. {self._last_words}".rstrip())
            yield self._facts[place]
            place += 1

    async def _find(self, wanted: Callable[[Fact], bool], place: int) -> int:
        """The place of the first wanted fact at or behind `place`; negative: the daemon ended without it."""
        while True:
            for found in range(place, len(self._facts)):
                if wanted(self._facts[found]):
                    return found
            if self._ended:
                return -1
            place = len(self._facts)
            self._news.clear()
            await self._news.wait()

    async def first(self, wanted: Callable[[Fact], bool], hope: str) -> Fact:
        """The first fact that is `wanted`."""
        return await anext(self.facts(wanted, hope))

    async def ask(self, *words: str) -> dict[str, Any]:
        """What the command prints with --json."""
        return await asyncio.to_thread(ask, self._folder / "control.sock", words)

    async def stop(self) -> None:
        # one whose log has ended is ending: a signal would reap it before asyncio does, which complains of that
        if not self._ended and self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def running(folder: Path, internet: Internet, patience: float) -> AsyncIterator[Daemon]:
    """The daemon with all it has in `folder` and no way out but into `internet`; ready for mail."""
    [place] = reserve(["127.0.0.1"])
    with place:
        port = place.getsockname()[1]
        config = folder / "mta.toml"
        config.write_text(_config(port, internet))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-c", _SERVE, "serve", "--config", config,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
            start_new_session=True,  # Ctrl-C ends the demo, which ends the daemon, and not the daemon first
        )  # fmt: skip
        daemon = Daemon(process, folder, port, patience)
        listening = asyncio.create_task(daemon.listen())
        try:
            await daemon.first(lambda fact: fact.get("what") == "ready", "the daemon should have started")
            yield daemon
        finally:
            await daemon.stop()
            listening.cancel()


def _config(port: int, internet: Internet) -> str:
    host, name_port = internet.name_server
    return _CONFIG.format(
        hostname=HOSTNAME,
        postmaster=POSTMASTER,
        submission_port=port,
        name_server=f"{host}:{name_port}",
        mail_port=internet.port,
    )
