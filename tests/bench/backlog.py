"""Codes behind a backlog: urgent messages, one after another, to a slow destination, without and with bulk mail before them.

All peers have the same cap of sessions there; each has the destination for itself while it is measured.
"""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.bench.machine import Unfit
from tests.bench.peers import Ours, Peer, Postfix
from tests.bench.traffic import BULK, SENDER, SESSIONS, SINGLE, SIZE, end
from tests.support.daemon import free_port
from tests.support.smtp_client import SmtpClient

CAP = 20
"""Sessions."""
TRANSACTION = 0.1
"""Seconds that each takes, while something is measured."""
LOADING = 10.0
"""The same while the backlog is queued, so that little of it leaves."""
INTERVAL = 0.1
"""Seconds between two urgent messages."""
SETTLING = 3.0
"""Seconds between a change of the pace and what is measured."""
PATIENCE = 120.0
"""Seconds for the last of the urgent messages to arrive."""
SINK, LISTEN = "127.0.0.1", "127.0.0.1"
_LINE = b"La de da de da 1234567890 La de da de da 1234567890 La de da\r\n"
_TEXT = _LINE * (SIZE // len(_LINE))


class Capped(Ours):
    """With the cap of all peers, for the destination and in all."""

    def __init__(self, folder: Path, endpoint: tuple[str, int], hosts: dict[str, str], port: int) -> None:
        super().__init__(folder, endpoint, hosts, port)
        self._daemon.config["delivery"] |= {"max_sessions": CAP, "max_sessions_per_destination": CAP}


class CappedPostfix(Postfix):
    """The same; it begins with the cap too, so that it is not measured while it finds its pace, and does not slow down
    who fills its queue. That queue's limits are stock, and it knows no classes."""

    def _configure(self) -> None:
        super()._configure()
        with (self._folder / "etc/main.cf").open("a") as file:
            file.write(f"initial_destination_concurrency = {CAP}\nsmtp_destination_concurrency_limit = {CAP}\n")
            file.write("in_flow_delay = 0\n")


class SlowSink:
    """The parent's end of `slow_sink`: what has arrived, and how long transactions take."""

    def __init__(self, host: str, port: int) -> None:
        self._command = (sys.executable, "-m", "tests.bench.slow_sink", host, str(port))
        self.bulk: list[float] = []
        self.others: dict[str, float] = {}
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL", *self._command, stdin=PIPE, stdout=PIPE
        )
        if await self._out.readline() != b"ready\n":
            raise Unfit("the slow server does not start")
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await end(self._process)

    @property
    def _out(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    async def _read(self) -> None:
        while line := await self._out.readline():
            at, recipient = json.loads(line)
            if recipient == f"ann@{BULK}":
                self.bulk.append(at)
            else:
                self.others.setdefault(recipient, at)
            self._arrived.set()

    def take(self, seconds: float) -> None:
        """Every transaction takes so long from now on."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n".encode())

    async def arrival(self, recipient: str) -> float:
        while recipient not in self.others:
            self._arrived.clear()
            await self._arrived.wait()
        return self.others[recipient]

    def rate(self, begin: float, end: float) -> float:
        """Bulk messages per second."""
        return sum(begin <= at < end for at in self.bulk) / (end - begin)


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one peer: seconds from the 250 of each urgent message to its arrival, bulk messages per second."""

    empty: Sequence[float]
    loaded: Sequence[float]
    alone: float
    beside: float
    urgent_rate: float


async def measure(kind: type[Capped] | type[CappedPostfix], folder: Path, bulk: int, urgent: int) -> tuple[str, Measured]:
    """The peer's name, and what was measured of it."""
    folder.mkdir()
    folder.chmod(0o755)
    port, endpoint = free_port(SINK), (LISTEN, free_port(LISTEN))
    async with SlowSink(SINK, port) as sink, kind(folder, endpoint, dict.fromkeys((BULK, SINGLE), SINK), port) as peer:
        sink.take(TRANSACTION)
        await _urgent(peer, sink, 5, "warm")
        empty, _ = await _urgent(peer, sink, urgent, "empty")
        sink.take(LOADING)
        await load(peer, folder, bulk)
        sink.take(TRANSACTION)
        await asyncio.sleep(SETTLING)
        begin = _now()
        await asyncio.sleep(urgent * INTERVAL)
        alone = sink.rate(begin, _now())
        begin = _now()
        loaded, until = await _urgent(peer, sink, urgent, "loaded")
        if sum(at < until for at in sink.bulk) >= bulk:
            raise Unfit(f"{peer.name} has delivered all bulk before the end: more is needed")
        beside = sink.rate(begin, until)
        return peer.name, Measured(empty, loaded, alone, beside, urgent / (until - begin))


async def _urgent(peer: Peer, sink: SlowSink, count: int, name: str) -> tuple[list[float], float]:
    """One message each `INTERVAL`; the seconds from each one's 250 to its arrival, and when the last interval ended."""
    accepted: dict[str, float] = {}
    content = b"From: <%s>\r\nSubject: code\r\nPriority: urgent\r\n\r\n" % SENDER.encode() + _TEXT
    async with await SmtpClient.connect(peer.endpoint) as client:
        begin = _now()
        for number in range(count):
            await asyncio.sleep(begin + number * INTERVAL - _now())
            recipient = f"{name}{number}@{BULK}"
            await client.envelope(SENDER, [recipient])
            reply = await client.command(content + b".")
            accepted[recipient] = _now()
            if not reply.startswith("250"):
                raise Unfit(f"a message was not accepted: {reply}")
        await asyncio.sleep(begin + count * INTERVAL - _now())
        until = _now()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            for recipient in accepted:
                await sink.arrival(recipient)
    never = _now()  # who has not arrived by now counts with what it has waited for so far
    return [sink.others.get(it, never) - at for it, at in accepted.items()], until


async def load(peer: Peer, folder: Path, count: int) -> None:
    """Queues the backlog."""
    letter = folder / "letter"
    letter.write_bytes(b"From: <%s>\nSubject: news\nPrecedence: bulk\n\n" % SENDER.encode() + _TEXT.replace(b"\r", b""))
    options = ("-d", "-s", str(SESSIONS), "-m", str(count), "-F", str(letter), "-f", SENDER, "-t", f"ann@{BULK}")
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--pdeathsig", "KILL", "smtp-source", *options, ":".join(map(str, peer.endpoint)),
        stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE,
    )  # fmt: skip
    try:
        _, said = await process.communicate()
    finally:
        await end(process)
    if process.returncode:
        raise Unfit(f"smtp-source has failed: {said.decode(errors='replace').strip()[-300:]}")


def _now() -> float:
    return asyncio.get_running_loop().time()
