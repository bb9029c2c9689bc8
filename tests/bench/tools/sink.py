"""A server for what smtp-sink can't do, TLS and slowness: `python -m tests.bench.tools.sink HOST PORT [CERTIFICATE]`, a PEM
file with the key in it; with one it takes mail inside STARTTLS alone.

It writes a line of JSON for each message, [the instant of its final dot, its recipient], and reads lines with the seconds
until the reply to a dot; a new number counts for those who wait already too. Instants are of the loop's clock, which is
the machine's monotonic one: the same in every process.
"""

import asyncio
import json
import ssl
import sys
from typing import cast

import uvloop

BACKLOG = 1024
_DOT = b"\r\n.\r\n"


class Pace:
    """How long a transaction takes; who waits is let go when that changes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._waiting: dict[Session, asyncio.TimerHandle] = {}

    def set(self, seconds: float) -> None:
        self.seconds = seconds
        waiting, self._waiting = self._waiting, {}
        for session, timer in waiting.items():
            timer.cancel()
            session.go_on()

    def hold_up(self, session: "Session") -> None:
        self._waiting[session] = asyncio.get_running_loop().call_later(self.seconds, self._let_go, session)

    def forget(self, session: "Session") -> None:
        """Its client has gone."""
        if timer := self._waiting.pop(session, None):
            timer.cancel()

    def _let_go(self, session: "Session") -> None:
        del self._waiting[session]
        session.go_on()


class Session(asyncio.Protocol):
    def __init__(self, pace: Pace, tls: ssl.SSLContext | None) -> None:
        self._pace, self._tls = pace, tls
        self._buffer = bytearray()
        self._in_content = self._is_waiting = False
        self._recipient = b""
        self._seen = 0
        """How much of the buffer has no final dot in it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._transport.write(b"220 sink.test\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self._pace.forget(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._take()

    def go_on(self) -> None:
        """The reply to the dot."""
        self._is_waiting = False
        self._transport.write(b"250 2.0.0 Ok\r\n")
        self._take()

    def _take(self) -> None:
        """What is there as far as it is whole."""
        while not self._is_waiting:
            end = _DOT if self._in_content else b"\r\n"
            if (at := self._buffer.find(end, self._seen)) < 0:
                self._seen = max(0, len(self._buffer) - len(end) + 1)
                return
            unit = bytes(self._buffer[:at])
            del self._buffer[: at + len(end)]
            self._seen = 0
            if self._in_content:
                self._arrived()
            else:
                self._hear(unit)

    def _arrived(self) -> None:
        self._in_content = False
        print(json.dumps([asyncio.get_running_loop().time(), self._recipient.decode(errors="replace")]), flush=True)
        self._is_waiting = True
        if self._pace.seconds:
            self._pace.hold_up(self)
        else:
            self.go_on()

    def _hear(self, line: bytes) -> None:
        verb = line[:4].upper()
        if verb == b"EHLO":
            self._transport.write(b"250-sink.test\r\n%s250 PIPELINING\r\n" % (b"250-STARTTLS\r\n" if self._tls else b""))
        elif verb == b"STAR" and self._tls:
            self._transport.write(b"220 2.0.0 go on\r\n")
            self._handshake = asyncio.create_task(self._start_tls(self._tls))
        elif verb == b"DATA":
            self._in_content = True
            self._buffer[:0] = b"\r\n"
            self._transport.write(b"354 go on\r\n")
        elif verb == b"QUIT":
            self._transport.write(b"221 2.0.0 bye\r\n")
            self._transport.close()
        elif verb == b"MAIL" and self._tls:
            self._transport.write(b"530 5.7.0 not in clear\r\n")
        else:
            if verb == b"RCPT":
                self._recipient = line.partition(b"<")[2].partition(b">")[0]
            self._transport.write(b"250 Ok\r\n")

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        inside = await asyncio.get_running_loop().start_tls(self._transport, self, context, server_side=True)
        self._transport, self._tls = cast(asyncio.Transport, inside), None


async def main(host: str, port: str, certificate: str = "") -> None:
    """Until its standard input ends."""
    pace, commands, loop = Pace(), asyncio.StreamReader(), asyncio.get_running_loop()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
    if tls is not None:
        tls.load_cert_chain(certificate)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    server = await loop.create_server(lambda: Session(pace, tls), host, int(port), backlog=BACKLOG)
    print("ready", flush=True)
    while line := await commands.readline():
        pace.set(float(line))
    server.close()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
