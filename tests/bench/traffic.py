"""Mail in and out: smtp-source and smtp-sink for the bulk, a client and a server of our own for single messages."""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.bench.machine import Unfit
from tests.support.smtp_client import SmtpClient

SESSIONS = 20
SIZE = 2048
"""Octets of a message's text."""
SENDER = "app@bench.test"
BULK, SINGLE = "bulk.test", "single.test"
"""The destinations: at the sink, at the receiver."""
LOOK_INTERVAL = 0.005
"""Seconds between two looks at the sink's counter."""
_COUNT = re.compile(rb"mesg=(\d+)")
_LINE = b"La de da de da 1234567890 La de da de da 1234567890 La de da\r\n"


async def start(*command: str, out: Path | None = None) -> Process:
    """A process that ends with ours, however that ends. What it writes goes to the file `out`."""
    with (out or Path("/dev/null")).open("ab") as file:
        return await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL", *command, stdin=DEVNULL, stdout=file, stderr=file, start_new_session=True
        )


async def end(process: Process) -> None:
    """SIGTERM, and what is needed where that is not obeyed."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(10):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class Sink:
    """smtp-sink, and its count of messages."""

    def __init__(self, folder: Path, host: str, port: int) -> None:
        self._counter = folder / "sink"
        self._command = ("smtp-sink", "-u", "nobody", "-c", "-m", "1000", f"{host}:{port}", "1024")

    async def __aenter__(self) -> Self:
        self._process = await start(*self._command, out=self._counter)
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._process)

    @property
    def messages(self) -> int:
        """How many have arrived since the start."""
        if self._process.returncode is not None:
            raise Unfit(f"smtp-sink has ended: {self._counter.read_text()[-300:]}")
        with self._counter.open("rb") as file:
            file.seek(max(0, self._counter.stat().st_size - 200))
            counts = _COUNT.findall(file.read())
        return int(counts[-1]) if counts else 0

    async def wait_for(self, messages: int) -> None:
        while self.messages < messages:
            await asyncio.sleep(LOOK_INTERVAL)


async def submit_many(endpoint: tuple[str, int], messages: int, *, kept_open: bool) -> None:
    """smtp-source, until it has a 250 for each message. Raises `Unfit` where one is refused."""
    options = ["-s", str(SESSIONS), "-m", str(messages), "-l", str(SIZE), "-f", SENDER, "-t", f"ann@{BULK}"]
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--pdeathsig", "KILL", "smtp-source", *options, *(["-d"] if kept_open else []),
        f"{endpoint[0]}:{endpoint[1]}", stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE,
    )  # fmt: skip
    try:
        _, said = await process.communicate()
    finally:
        await end(process)
    if process.returncode:
        raise Unfit(f"smtp-source has failed: {said.decode(errors='replace').strip()[-300:]}")


class Receiver(asyncio.Protocol):
    """A server that takes one message after another and tells when its final dot came, by the loop's clock."""

    def __init__(self, arrivals: "asyncio.Queue[float]") -> None:
        self._arrivals = arrivals
        self._buffer = b""
        self._in_content = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(b"220 receiver.test\r\n")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n.\r\n" if self._in_content else b"\r\n")) >= 0:
            unit, self._buffer = self._buffer[:end], self._buffer[end + (5 if self._in_content else 2) :]
            if self._in_content:
                self._arrivals.put_nowait(asyncio.get_running_loop().time())
                self._answer(b"250 2.0.0 Ok", in_content=False)
            else:
                self._hear(unit[:4].upper())

    def _hear(self, verb: bytes) -> None:
        if verb == b"EHLO":
            self._answer(b"250-receiver.test\r\n250 PIPELINING")
        elif verb == b"DATA":
            self._answer(b"354 go on", in_content=True)
        else:
            self._answer(b"221 bye" if verb == b"QUIT" else b"250 Ok")

    def _answer(self, reply: bytes, *, in_content: bool = False) -> None:
        self._in_content = in_content
        self._transport.write(reply + b"\r\n")


@dataclass(frozen=True, slots=True)
class Single:
    """Seconds since the final dot was sent: to its 250, and to the message's arrival."""

    accepted: float
    received: float


async def submit_singly(endpoint: tuple[str, int], count: int, arrivals: "asyncio.Queue[float]") -> list[Single]:
    """One message after another, each once the one before has arrived."""
    now = asyncio.get_running_loop().time
    content = f"From: <{SENDER}>\r\nTo: <ann@{SINGLE}>\r\nSubject: one\r\n\r\n".encode() + _LINE * (SIZE // len(_LINE))
    singles = []
    async with await SmtpClient.connect(endpoint) as client:
        for _ in range(count):
            await client.envelope(SENDER, [f"ann@{SINGLE}"])
            begin = now()
            reply = await client.command(content + b".")
            accepted = now() - begin
            if not reply.startswith("250"):
                raise Unfit(f"a message was not accepted: {reply}")
            singles.append(Single(accepted, await arrivals.get() - begin))
    return singles
