"""A pretend internet on loopback: one name server (RFC 1035) and mail servers that take mail, refuse it, or break down
(RFC 5321).

Rules: every address and port is reserved before anything is told of it, so that a server that is down stays down: its
port is bound, and nobody listens there. Mail servers differ by address and share one port, as on the real one.
"""

import asyncio
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import cast
from zlib import crc32

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

NETWORK = "127.0.0."
FIRST_HOST = 2
"""The mail servers' addresses begin here; 127.0.0.1 is the daemon's."""
RESERVATION_TRIES = 20
TTL = 60
OK = "250 2.1.5 Ok"

Records = Mapping[tuple[str, str], Sequence[str]]
"""(name without its final dot, type) -> records in the text form of zone files."""


def always(reply: str) -> Iterator[str]:
    return repeat(reply)


def once(reply: str) -> Iterator[str]:
    """`reply` the first time, then the recipient is accepted."""
    return chain([reply], repeat(OK))


@dataclass(slots=True)
class MailServer:
    """One remote server. `answers` are its replies to RCPT by address, one after another; others are accepted. `drops`
    is how many messages it throws away, hanging up instead of its reply to the final dot; `mute` how many it keeps and
    hangs up all the same. `down`: nobody listens. `pace`: seconds that it takes for each message."""

    name: str
    answers: Mapping[str, Iterator[str]] = field(default_factory=dict)
    drops: int = 0
    mute: int = 0
    down: bool = False
    pace: float = 0.0
    received: list[bytes] = field(default_factory=list)
    """The messages it has, dots unstuffed."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until it or we hang up."""
        try:
            await self._converse(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # it hung up, or sent a line without end
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reply: str | None = f"220 {self.name} ESMTP"
        while reply:
            writer.write(f"{reply}\r\n".encode())
            line = (await reader.readuntil(b"\r\n")).decode("latin-1").strip()
            reply = await self._content(reader, writer) if line.upper() == "DATA" else self._reply(line)
        await writer.drain()

    def _reply(self, line: str) -> str:
        """To everything but DATA. QUIT is answered too: the client hangs up then."""
        match line[:4].upper():
            case "EHLO":
                return f"250-{self.name}\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES"
            case "RCPT":
                address = line.partition("<")[2].partition(">")[0]
                return next(self.answers.get(address, repeat(OK)))
            case "MAIL" | "RSET" | "NOOP":
                return "250 2.0.0 Ok"
            case "QUIT":
                return "221 2.0.0 Bye"
        return "502 5.5.1 Not in this play"

    async def _content(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str | None:
        """The reply to the final dot; None: hang up."""
        writer.write(b"354 Go ahead, end with a dot on a line of its own\r\n")
        lines: list[bytes] = []
        while (line := await reader.readuntil(b"\r\n")) != b".\r\n":
            lines.append(line.removeprefix(b"."))
        if self.drops:
            self.drops -= 1
            return None
        await asyncio.sleep(self.pace)
        self.received.append(b"".join(lines))
        if self.mute:
            self.mute -= 1
            return None
        return f"250 2.0.0 Queued as {crc32(self.received[-1]):08X}"


class NameServer(asyncio.DatagramProtocol):
    """Answers over UDP what `records` say, and that all other names do not exist."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            answer = self._answer(dns.message.from_wire(data))
        except (dns.exception.DNSException, IndexError):
            return  # no question
        self._transport.sendto(answer.to_wire(), addr)

    def _answer(self, question: dns.message.Message) -> dns.message.Message:
        answer = dns.message.make_response(question)
        answer.flags |= dns.flags.AA | dns.flags.RA
        asked = question.question[0]
        name, kind = asked.name.to_text(omit_final_dot=True).lower(), dns.rdatatype.to_text(asked.rdtype)
        if found := self._records.get((name, kind)):
            answer.answer.append(dns.rrset.from_text_list(asked.name, TTL, "IN", kind, found))
        elif not any(known == name for known, _ in self._records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer


class Internet:
    """`mail` maps a domain to its mail servers, the preferred one first; a domain with none says that it takes no mail
    (null MX, RFC 7505). For `async with`: raises OSError where loopback can't be had."""

    def __init__(self, mail: Mapping[str, Sequence[MailServer]]) -> None:
        self.mail = mail
        self._sockets = ExitStack()
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> "Internet":
        with ExitStack() as failed:
            failed.callback(self._close)
            await self._open()
            failed.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()

    @property
    def servers(self) -> list[MailServer]:
        return [server for servers in self.mail.values() for server in servers]

    @property
    def addresses(self) -> dict[str, str]:
        """Server name -> address."""
        return {server.name: f"{NETWORK}{FIRST_HOST + place}" for place, server in enumerate(self.servers)}

    async def _open(self) -> None:
        sockets = [self._sockets.enter_context(it) for it in reserve(list(self.addresses.values()))]
        self.port: int = sockets[0].getsockname()[1]
        for server, sock in zip(self.servers, sockets, strict=True):
            if not server.down:
                self._servers.append(await asyncio.start_server(server.serve, sock=sock))
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: NameServer(self._records()), local_addr=(f"{NETWORK}1", 0)
        )
        self._sockets.callback(transport.close)
        self.name_server: tuple[str, int] = transport.get_extra_info("sockname")[:2]

    def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._sockets.close()

    def _records(self) -> Records:
        records = {(name, "A"): [address] for name, address in self.addresses.items()}
        for domain, servers in self.mail.items():
            exchangers = [f"{10 * place} {server.name}." for place, server in enumerate(servers, 1)]
            records[domain, "MX"] = exchangers or ["0 ."]
        return records


def reserve(addresses: Sequence[str]) -> list[socket.socket]:
    """A socket at each address, bound to a port that is free at all of them, and not listening: connections are refused
    until somebody listens there. Raises OSError."""
    for _ in range(RESERVATION_TRIES):
        with suppress(OSError):
            return _reserve(addresses)
    return _reserve(addresses)


def _reserve(addresses: Sequence[str]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    with ExitStack() as failed:
        for address in addresses:
            port = sockets[0].getsockname()[1] if sockets else 0
            sockets.append(failed.enter_context(_bound(address, port)))
        failed.pop_all()
    return sockets


def _bound(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so that the daemon may listen where we hold the place
        sock.bind((address, port))
    except OSError:
        sock.close()
        raise
    return sock
