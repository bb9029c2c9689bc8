"""The name service on the wire: zones that change, name servers that lie, are silent or broken.

Rules: an answer is made by dnspython from the zone of the moment; a fault is of a domain and of a span of time. A cut
answer has to be asked for again over TCP, at the same place.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

TTL = 4 * 3600
SILENT = "silent"
CUT = "cut"
_RCODES = {"servfail": dns.rcode.SERVFAIL, "refused": dns.rcode.REFUSED, "nxdomain": dns.rcode.NXDOMAIN}
_SOA = "ns.invalid. hostmaster.invalid. 1 3600 600 86400 60"

Fault = Callable[[str], str]
"""Name -> what is wrong with its domain now: "", silent, cut, servfail, refused, nxdomain, garbage."""


@dataclass(frozen=True, slots=True)
class Zone:
    """`mx` are (preference, host), none: no MX records; `addresses` those of hosts, by name."""

    mx: tuple[tuple[int, str], ...]
    addresses: Mapping[str, tuple[str, ...]]
    tlsa: tuple[str, ...] = ()
    """Of each of its hosts; with them the zone is signed."""


class NameService:
    """Answers for all zones; `zone_of` gives the one that a name is in now, `fault` what is wrong."""

    def __init__(self, zone_of: Callable[[str], Zone | None], fault: Fault, chance: random.Random) -> None:
        self._zone_of, self._fault, self._chance = zone_of, fault, chance
        self.questions = 0

    def __call__(self, question: bytes) -> tuple[bytes | None, float]:
        """A datagram, and after how many seconds."""
        self.questions += 1
        answer = self.answer(question, cuts=True)
        return answer, 0.005 + 0.05 * self._chance.random()

    def answer(self, question: bytes, *, cuts: bool) -> bytes | None:
        name, kind = _asked(question[2:])
        fault = self._fault(name)
        if fault == SILENT:
            return None
        if fault == "garbage":
            return question[:2] + b"\x81\x80" + b"\xff" * 9
        if fault == CUT and cuts:
            return question[:2] + _cut(question[2:])
        if fault in _RCODES:
            return question[:2] + _refused(question[2:], fault)
        return question[:2] + _found(question[2:], *self._records(name, kind))

    def _records(self, name: str, kind: str) -> tuple[bool, tuple[str, ...], bool]:
        """Whether the name exists, what it has of this kind, and whether the zone is signed."""
        service, dot, host = name.partition("._tcp.")
        zone = self._zone_of(host if dot else name)
        if zone is None or (dot and not (service == "_25" and host in zone.addresses and zone.tlsa)):
            return False, (), zone is not None and bool(zone.tlsa)
        if dot:
            return True, zone.tlsa if kind == "TLSA" else (), True
        return *self._plain(zone, name, kind), bool(zone.tlsa)

    @staticmethod
    def _plain(zone: Zone, name: str, kind: str) -> tuple[bool, tuple[str, ...]]:
        if kind == "MX" and name not in zone.addresses:
            return True, tuple(f"{preference} {host}." for preference, host in zone.mx)
        addresses = zone.addresses.get(name, ())
        return True, tuple(it for it in addresses if (":" in it) == (kind == "AAAA") and kind in ("A", "AAAA"))


class OverTcp(asyncio.Protocol):
    """The same over TCP (RFC 1035 section 4.2.2)."""

    def __init__(self, service: NameService) -> None:
        self._service = service
        self._read = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while len(self._read) > 2 and len(self._read) >= (end := 2 + int.from_bytes(self._read[:2], "big")):
            answer = self._service.answer(bytes(self._read[2:end]), cuts=False)
            if answer is not None:
                self._transport.write(len(answer).to_bytes(2, "big") + answer)
            del self._read[:end]


# ---------------------------------------------------------------- messages, without their ids
@lru_cache(4096)
def _asked(question: bytes) -> tuple[str, str]:
    asked = dns.message.from_wire(b"\0\0" + question).question[0]
    return asked.name.to_text(omit_final_dot=True).lower(), dns.rdatatype.to_text(asked.rdtype)


def _reply(question: bytes) -> dns.message.Message:
    return dns.message.make_response(dns.message.from_wire(b"\0\0" + question), recursion_available=True)


@lru_cache(4096)
def _cut(question: bytes) -> bytes:
    reply = _reply(question)
    reply.flags |= dns.flags.TC
    return reply.to_wire()[2:]


@lru_cache(4096)
def _refused(question: bytes, fault: str) -> bytes:
    reply = _reply(question)
    reply.set_rcode(_RCODES[fault])
    return reply.to_wire()[2:]


@lru_cache(4096)
def _found(question: bytes, exists: bool, records: Sequence[str], secure: bool) -> bytes:
    reply = _reply(question)
    reply.flags |= dns.flags.AD if secure else 0
    asked = reply.question[0]
    if records:
        reply.answer.append(dns.rrset.from_text_list(asked.name, TTL, "IN", asked.rdtype, records))
    else:
        reply.authority.append(dns.rrset.from_text("invalid.", TTL, "IN", "SOA", _SOA))
        reply.set_rcode(dns.rcode.NOERROR if exists else dns.rcode.NXDOMAIN)
    state = random.getstate()
    random.seed(0)  # dnspython shuffles the records of an answer by the module's generator
    wire = reply.to_wire()[2:]
    random.setstate(state)
    return wire
