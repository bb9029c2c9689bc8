"""Mail in and out: smtp-source and smtp-sink for the bulk, the programs of `tools` for what these can't do."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from tests.bench.machine import Unfit
from tests.bench.processes import Tool, end, finish, start, tool

SESSIONS = 20
SIZE = 2048
"""Octets of a message's text."""
SENDER = "app@bench.test"
BULK, SINGLE = "bulk.test", "single.test"
"""The destinations: at the sink, at the receiver of single messages."""
SINK = "127.0.0.1"
LOOK_INTERVAL = 0.005
"""Seconds between two looks at a sink's counter."""
_COUNT = re.compile(rb"mesg=(\d+)")
_LINE = b"La de da de da 1234567890 La de da de da 1234567890 La de da\r\n"


def text(size: int) -> bytes:
    """Lines of about so many octets."""
    return _LINE * max(1, size // len(_LINE))


class Counter(Protocol):
    """A destination that counts what arrives."""

    @property
    def messages(self) -> int:
        """How many have arrived since the start."""
        ...


async def arrived(counter: Counter, messages: int) -> None:
    while counter.messages < messages:
        await asyncio.sleep(LOOK_INTERVAL)


class SmtpSink:
    """smtp-sink, and its count of messages."""

    def __init__(self, folder: Path, port: int) -> None:
        self._counter = folder / "sink"
        self._command = ("smtp-sink", "-u", "nobody", "-c", "-m", "1000", f"{SINK}:{port}", "1024")

    async def __aenter__(self) -> Self:
        self._process = await start(*self._command, out=self._counter)
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._process)

    @property
    def messages(self) -> int:
        if self._process.returncode is not None:
            raise Unfit(f"smtp-sink has ended: {self._counter.read_text()[-300:]}")
        with self._counter.open("rb") as file:
            file.seek(max(0, self._counter.stat().st_size - 200))
            counts = _COUNT.findall(file.read())
        return int(counts[-1]) if counts else 0


class OwnSink:
    """`tools.sink`: what has arrived when, and how long transactions take."""

    def __init__(self, port: int, certificate: Path | None = None) -> None:
        self._tool = Tool("sink", SINK, str(port), *([str(certificate)] if certificate else []))
        self.bulk: list[float] = []
        """Instants of what came for ann@bulk.test."""
        self.others: dict[str, float] = {}
        """The first instant of any other recipient."""
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._tool.__aenter__()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await self._tool.__aexit__()

    async def _read(self) -> None:
        while line := await self._tool.out.readline():
            at, recipient = json.loads(line)
            if recipient == f"ann@{BULK}":
                self.bulk.append(at)
            else:
                self.others.setdefault(recipient, at)
            self._arrived.set()

    @property
    def messages(self) -> int:
        return len(self.bulk) + len(self.others)

    def take(self, seconds: float) -> None:
        """Every transaction takes so long from now on."""
        self._tool.tell(str(seconds))

    async def arrival(self, recipient: str) -> float:
        while recipient not in self.others:
            self._arrived.clear()
            await self._arrived.wait()
        return self.others[recipient]

    def rate(self, begin: float, end: float) -> float:
        """Bulk messages per second."""
        return sum(begin <= at < end for at in self.bulk) / (end - begin)


async def submit(
    endpoint: tuple[str, int], messages: int, *, sessions: int = SESSIONS, kept_open: bool = True, size: int = SIZE,
    domain: str = BULK, letter: Path | None = None,
) -> None:  # fmt: skip
    """smtp-source, until it has a 250 for each message; its content is `letter`, or lines of `size` octets. Raises `Unfit`
    where one is refused."""
    content: Sequence[str] = ("-F", str(letter)) if letter else ("-l", str(size))
    await finish(
        "smtp-source", "-s", str(min(sessions, messages)), "-m", str(messages), *(["-d"] if kept_open else []), *content,
        "-f", SENDER, "-t", f"ann@{domain}", ":".join(map(str, endpoint)),
    )  # fmt: skip


async def submit_to_many(endpoint: tuple[str, int], messages: int, domains: range) -> None:
    """To dN.test of each N in turn. Raises `Unfit` where one is refused."""
    host, port = endpoint
    await finish(*tool("source", host, *map(str, (port, messages, SESSIONS, domains.start, len(domains), SIZE))))
