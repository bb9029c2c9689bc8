"""One message after another on an idle daemon, each once the one before has arrived."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.bench.machine import Unfit
from tests.bench.peers import Setup, running
from tests.bench.plan import Plan
from tests.bench.table import Row, Table, at_most, percentile
from tests.bench.traffic import SENDER, SINGLE, SIZE, text
from tests.support.ports import free_port
from tests.support.smtp_client import SmtpClient

RECEIVER = "127.0.0.2"
AT_ONCE = 20
"""Messages of one peer before it is the other's turn."""
GOALS = {("250 to receipt", 50): at_most(15), ("250 to receipt", 99): at_most(40)}


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


DELAYS: Mapping[str, Callable[[Single], float]] = {
    "final dot to 250": lambda it: it.accepted,
    "250 to receipt": lambda it: it.received - it.accepted,
    "final dot to receipt": lambda it: it.received,
}


async def run(plan: Plan) -> list[Table]:
    arrivals: asyncio.Queue[float] = asyncio.Queue()
    port = free_port()
    receiver = await asyncio.get_running_loop().create_server(lambda: Receiver(arrivals), RECEIVER, port)
    async with receiver, running(plan.peers, plan.folder, Setup(port, hosts={SINGLE: RECEIVER})) as peers:
        singles: list[list[Single]] = [[] for _ in peers]
        for peer in peers:
            await submit_singly(peer.endpoint, AT_ONCE, arrivals)
        for _ in range(-(-plan.singles // AT_ONCE)):
            for peer, own in zip(peers, singles, strict=True):
                own += await submit_singly(peer.endpoint, AT_ONCE, arrivals)
        table = Table("One message on an idle daemon, ms", [peer.name for peer in peers])
    for percent in (50, 99):
        for what, delay in DELAYS.items():
            values = [[percentile([delay(it) for it in own], percent) * 1000] for own in singles]
            table.rows.append(Row(f"{what}, p{percent}", values, GOALS.get((what, percent))))
    return [table]


async def submit_singly(endpoint: tuple[str, int], count: int, arrivals: "asyncio.Queue[float]") -> list[Single]:
    now = asyncio.get_running_loop().time
    content = f"From: <{SENDER}>\r\nTo: <ann@{SINGLE}>\r\nSubject: one\r\n\r\n".encode() + text(SIZE)
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
