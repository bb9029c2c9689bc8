"""A scripted name server on loopback, UDP and TCP on one port, authoritative for what its dict says.

    zones = {("example.test", "MX"): ["10 mx.example.test."], ("broken.test", "*"): "SERVFAIL"}
    async with DnsServer(zones) as server: ... server.address ... server.queries

A value is a list of records, one of the words below, or a callable without arguments that gives either; "*" stands for
every type without an entry of its own. A name with any entry, or below which there is one, exists (NODATA for other
types); all others are NXDOMAIN. Aliases, as ("alias.test", "CNAME"): ["target.test."], are followed as far as they lead.
The dict may be changed while the server runs; names are in lower case without a final dot.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from tests.support.ports import free_port

DROP, TRUNCATE, GARBAGE = "DROP", "TRUNCATE", "GARBAGE"
"""No answer · a cut one over UDP and none over TCP · octets that are no DNS message, over both."""
Records = list[str] | str | None
Zones = dict[tuple[str, str], Records | Callable[[], Records]]
ALIASES_AT_MOST = 20


class Query(NamedTuple):
    name: str
    kind: str
    transport: str


class DnsServer(asyncio.DatagramProtocol):
    """`ttl` is that of every record, `negative_ttl` the SOA's for negative answers (None: no SOA), `flags` those of every
    answer. `queries` has what was asked, `asked` is set by each question."""

    def __init__(self, zones: Mapping[tuple[str, str], Records | Callable[[], Records]] | None = None) -> None:
        self.zones: Zones = dict(zones or {})
        self.ttl = 60
        self.negative_ttl: int | None = 30
        self.flags = dns.flags.AA | dns.flags.RA
        self.queries: list[Query] = []
        self.asked = asyncio.Event()
        self.gate: asyncio.Event | None = None
        """Where set, answers wait for it."""
        self.noise: list[bytes] = []
        """Packets that are sent before each answer over UDP."""
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------ life
    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """On `port`, or on a free one."""
        self.address = (host, port or free_port())
        self._tcp = await asyncio.start_server(self._serve, *self.address)
        loop = asyncio.get_running_loop()
        self._udp, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=self.address)

    async def stop(self) -> None:
        self._udp.close()
        self._tcp.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def count(self, kind: str, name: str = "") -> int:
        return sum(query.kind == kind and query.name == (name or query.name) for query in self.queries)

    # ------------------------------------------------ transports
    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        task = asyncio.ensure_future(self._reply(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = await self._answer(data, "udp")
        for packet in [*self.noise, answer]:
            if packet is not None:
                self._udp.sendto(packet, addr)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(2), "big")
                answer = await self._answer(await reader.readexactly(length), "tcp")
                if answer is None:
                    return
                writer.write(len(answer).to_bytes(2, "big") + answer)
                await writer.drain()
        except (EOFError, OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    # ------------------------------------------------ answers
    async def _answer(self, wire: bytes, transport: str) -> bytes | None:
        try:
            question = dns.message.from_wire(wire)
        except dns.exception.DNSException:
            return None
        name = question.question[0].name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(question.question[0].rdtype)
        self.queries.append(Query(name, kind, transport))
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        return self._compose(question, name, kind, transport)

    def _compose(self, question: dns.message.Message, name: str, kind: str, transport: str) -> bytes | None:
        response = dns.message.make_response(question)
        response.flags |= self.flags
        value = self._fill(response, name, kind)
        if value == DROP or (value == TRUNCATE and transport == "tcp"):
            return None
        if value == GARBAGE:
            return response.to_wire()[:2] + b"\x80\x00 no message"
        wire = response.to_wire(max_size=65535)
        if transport == "udp" and (value == TRUNCATE or len(wire) > (question.payload or 512)):
            cut = dns.message.make_response(question)
            cut.flags |= self.flags | dns.flags.TC
            return cut.to_wire()
        return wire

    def _fill(self, response: dns.message.Message, name: str, kind: str) -> Records:
        """Follows aliases; the value that the chain ends with."""
        for _ in range(ALIASES_AT_MOST):
            value = self._value(name, kind)
            target = self._value(name, "CNAME") if value is None and kind != "CNAME" else None
            if not isinstance(target, list):
                break
            response.answer.append(dns.rrset.from_text_list(f"{name}.", self.ttl, "IN", "CNAME", target))
            name = target[0].rstrip(".").lower()
        if isinstance(value, list):
            # one set for each, since dnspython shuffles what is in one set
            response.answer += [dns.rrset.from_text(f"{name}.", self.ttl, "IN", kind, record) for record in value]
        elif value in ("SERVFAIL", "REFUSED", "FORMERR", "NOTIMP", "NXDOMAIN"):
            response.set_rcode(dns.rcode.from_text(value))
        elif value is None and not self._exists(name):
            response.set_rcode(dns.rcode.NXDOMAIN)
        if not isinstance(value, list) and response.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            self._add_soa(response, name)
        return value

    def _value(self, name: str, kind: str) -> Records:
        value = self.zones.get((name, kind))
        if value is None and kind != "CNAME":
            value = self.zones.get((name, "*"))
        return value() if callable(value) else value

    def _exists(self, name: str) -> bool:
        owners = {owner for (owner, _), value in self.zones.items() if value is not None}
        return any(owner == name or owner.endswith(f".{name}") for owner in owners)

    def _add_soa(self, response: dns.message.Message, name: str) -> None:
        if self.negative_ttl is None:
            return
        zone = dns.name.from_text(name.rpartition(".")[2])
        text = f"ns.{zone} root.{zone} 1 3600 600 86400 {self.negative_ttl}"
        response.authority.append(dns.rrset.from_text(zone, self.negative_ttl, "IN", "SOA", text))
