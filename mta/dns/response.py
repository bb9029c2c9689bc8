"""What a name server's response says, from its octets (RFC 1035, 2308, 6604, 6891).

Rules: the work grows with the octets and no faster, whatever stands in them: what is neither of the type asked for nor an
alias nor a SOA is passed over unread, and no record is compared with another (dnspython's own messages do, and take seconds
for what fits into one packet of many labels). Nothing but NXDOMAIN and a clean NOERROR says anything about the name: all
else is TROUBLE.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.SOA
import dns.wire

from mta.ports.names import Lookup

CHAIN_LIMIT = 8
"""Aliases that are followed within one answer; more, or a loop, is TROUBLE (RFC 1034 section 3.6.2)."""
_HEAD = 12
_IN, _CNAME, _SOA, _OPT = (
    dns.rdataclass.IN, dns.rdatatype.CNAME, dns.rdatatype.SOA, dns.rdatatype.OPT,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """What a question came to. `records` are of the type asked for, at the end of the aliases; `ttl` in seconds, None
    where the server gave none (a negative answer without SOA). `secure`: the server says that it validated the answer;
    `canonical` is where the aliases end, "" without any."""

    lookup: Lookup
    records: Sequence[dns.rdata.Rdata] = ()
    ttl: int | None = None
    detail: str = ""
    secure: bool = False
    canonical: str = ""


class Record(NamedTuple):
    """One of class IN. `data` None: it was not read; `octets` are those of the data, by which two texts are the same."""

    owner: dns.name.Name
    kind: int
    ttl: int
    octets: bytes
    data: dns.rdata.Rdata | None


@dataclass(frozen=True, slots=True)
class Response:
    """`head` is a message of header and question alone; `rcode` is the whole one (RFC 6891 section 6.1.3)."""

    head: dns.message.Message
    rcode: int
    answer: Sequence[Record]
    authority: Sequence[Record]


def read_head(wire: bytes) -> dns.message.Message:
    """Header and question. Raises DNSException and ValueError for what is no message."""
    return dns.message.from_wire(wire, question_only=True)


def parse(wire: bytes) -> Response:
    """Raises DNSException and ValueError for what is no message."""
    head = read_head(wire)
    kinds = {int(it.rdtype) for it in head.question} | {int(_CNAME), int(_SOA)}
    questions, *counts = struct.unpack_from("!4H", wire, 4)
    parser = dns.wire.Parser(wire, _HEAD)
    for _ in range(questions):
        _name(parser)
        parser.get_struct("!HH")
    answer, authority, additional = ([_record(parser, kinds) for _ in range(count)] for count in counts)
    extended = next((it.ttl >> 24 for it in additional if it.kind == _OPT), 0)
    return Response(head, int(head.rcode()) | extended << 4, answer, authority)


def _name(parser: dns.wire.Parser) -> dns.name.Name:
    name, length = dns.name.from_wire(parser.wire, parser.current)
    parser.seek(parser.current + length)
    return name


def _record(parser: dns.wire.Parser, kinds: set[int]) -> Record:
    owner = _name(parser)
    kind, its_class, ttl, length = parser.get_struct("!HHIH")
    octets = parser.wire[parser.current : parser.current + length]
    if kind not in kinds or its_class != _IN:
        parser.get_bytes(length)
        return Record(owner, kind if its_class == _IN or kind == _OPT else 0, ttl, octets, None)
    with parser.restrict_to(length):
        data = dns.rdata.from_wire_parser(_IN, dns.rdatatype.RdataType.make(kind), parser)
    return Record(owner, kind, ttl, octets, data)


# ---------------------------------------------------------------- what it means
def read(response: Response) -> Finding:
    """What the response says."""
    head, rcode = response.head, response.rcode
    if rcode not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        return Finding(Lookup.TROUBLE, detail=dns.rcode.to_text(dns.rcode.Rcode.make(rcode)))
    if not isinstance(head, dns.message.QueryMessage) or len(head.question) != 1:
        return Finding(Lookup.TROUBLE, detail="no response to a query")
    if head.flags & dns.flags.TC:
        return Finding(Lookup.TROUBLE, detail="a cut answer over TCP")
    (question,) = head.question
    owner, ttl, aliases = _followed(question.name, int(question.rdtype), response.answer)
    if aliases > CHAIN_LIMIT:
        return Finding(Lookup.TROUBLE, detail=f"more than {CHAIN_LIMIT} aliases")
    found = [it for it in response.answer if it.kind == question.rdtype and it.owner == owner]
    secure = bool(head.flags & dns.flags.AD)
    if found and rcode == dns.rcode.NXDOMAIN:
        return Finding(Lookup.TROUBLE, detail="records of a name that is said not to exist")
    if found:
        records = {it.octets: it.data for it in found if it.data is not None}
        canonical = owner.to_text(omit_final_dot=True).lower() if aliases else ""
        least = min(ttl, *(it.ttl for it in found))
        return Finding(Lookup.FOUND, tuple(records.values()), least, secure=secure, canonical=canonical)
    negative = _negative_ttl(response.authority, owner, ttl)
    if rcode == dns.rcode.NXDOMAIN:
        return Finding(Lookup.NXDOMAIN, ttl=negative, secure=secure)
    if not head.flags & (dns.flags.AA | dns.flags.RA):
        # A referral from a server that neither knows nor looks further: no word on whether there are records.
        return Finding(Lookup.TROUBLE, detail="the server neither knows the name nor asks others")
    return Finding(Lookup.NODATA, ttl=negative, secure=secure)


def _followed(owner: dns.name.Name, kind: int, answer: Sequence[Record]) -> tuple[dns.name.Name, int, int]:
    """Where the aliases end, the least of their TTLs, and how many there are, as far as they are followed."""
    targets = {it.owner: it for it in reversed(answer) if it.kind == _CNAME}
    ttl, aliases = 2**31 - 1, 0
    while (alias := targets.get(owner)) is not None and aliases <= CHAIN_LIMIT and kind != _CNAME:
        if any(it.kind == kind and it.owner == owner for it in answer):
            break
        owner = cast(dns.rdtypes.ANY.CNAME.CNAME, alias.data).target
        ttl, aliases = min(ttl, alias.ttl), aliases + 1
    return owner, ttl, aliases


def _negative_ttl(authority: Sequence[Record], owner: dns.name.Name, ttl: int) -> int | None:
    """RFC 2308 section 5: the SOA's, without one not to be cached."""
    for it in authority:
        if it.kind == _SOA and owner.is_subdomain(it.owner):
            return min(ttl, it.ttl, cast(dns.rdtypes.ANY.SOA.SOA, it.data).minimum)
    return None
