"""What a name server's response says, from its octets (RFC 1035, 2308, 6604, 6891).

Rules: the work grows with the octets and no faster, whatever stands in them: what is neither of the type asked for nor an
alias nor a SOA is passed over unread, and no record is compared with another. dnspython's own messages do that, and take
seconds for what fits into one packet of many labels; and for a common answer four times what all else of a question
takes. Nothing but NXDOMAIN and a clean NOERROR says anything about the name: all else is TROUBLE.
"""

from collections.abc import Hashable, Sequence
from struct import Struct as Layout
from struct import error as StructError
from typing import Any, NamedTuple

import dns.rcode
from msgspec import Struct

from mta.dns.data import CNAME, IN, OPT, READERS, SOA, Malformed, read_name
from mta.dns.names import Name, in_text
from mta.ports.names import Lookup

CHAIN_LIMIT = 8
"""Aliases that are followed within one answer; more, or a loop, is TROUBLE (RFC 1034 section 3.6.2)."""
HEAD = Layout("!6H")
"""Id, flags, and the numbers of questions, answers, authorities and additional records (section 4.1.1)."""
_FIXED = Layout("!HHIH")
"""A record's type, class, TTL and length of data, behind its name (section 4.1.3)."""
_TAIL = Layout("!HH")
"""A question's type and class."""
_QR, _OPCODE, _AA, _TC, _RA, _AD, _RCODE = 0x8000, 0x7800, 0x0400, 0x0200, 0x0080, 0x0020, 0x000F
"""In a message's flags (section 4.1.1; RFC 4035 section 3.2.3)."""
_NOERROR, _NXDOMAIN = 0, 3
_WITHOUT_QUESTION = frozenset(map(int, (dns.rcode.FORMERR, dns.rcode.SERVFAIL, dns.rcode.NOTIMP, dns.rcode.REFUSED)))
"""Where a server need not even repeat what it was asked."""


class Question(NamedTuple):
    name: Name
    kind: int

    @property
    def tail(self) -> bytes:
        """What stands behind the name in a message (section 4.1.2)."""
        return _TAIL.pack(self.kind, IN)


class Finding(Struct, frozen=True):
    """What a question came to. `records` are the data of the type asked for, at the end of the aliases, each once; `ttl` in
    seconds, None where the server gave none (a negative answer without SOA). `secure`: the server says that it validated
    the answer; `canonical` is where the aliases end, "" without any."""

    lookup: Lookup
    records: tuple[Any, ...] = ()
    ttl: int | None = None
    detail: str = ""
    secure: bool = False
    canonical: str = ""


class Record(NamedTuple):
    """`data` None: it was not read. A `kind` of another class than IN is 0."""

    owner: Name
    kind: int
    ttl: int
    data: Hashable


def is_cut(wire: bytes) -> bool:
    return bool(int.from_bytes(wire[2:4]) & _TC)


def is_response(wire: bytes, number: int, question: Question) -> bool:
    """Whether it may answer `question`, asked with the id `number`: nobody else's words are listened to."""
    if len(wire) < HEAD.size:
        return False
    its_number, flags, questions, *_ = HEAD.unpack_from(wire)
    if its_number != number or not flags & _QR or flags & _OPCODE:
        return False
    if not questions:
        return flags & _RCODE in _WITHOUT_QUESTION
    end = HEAD.size + len(question.name)
    repeated = wire[HEAD.size : end].lower() == question.name and wire[end : end + _TAIL.size] == question.tail
    return questions == 1 and repeated


def read(wire: bytes, question: Question) -> Finding:
    """What a message that `is_response` says. Raises ValueError for what is none after all."""
    try:
        return _read(wire, question)
    except (IndexError, StructError):
        raise Malformed("it is cut off") from None


def _read(wire: bytes, question: Question) -> Finding:
    _, flags, questions, *counts = HEAD.unpack_from(wire)
    at = HEAD.size + questions * (len(question.name) + _TAIL.size)
    sections: list[list[Record]] = []
    for count in counts:
        section: list[Record] = []
        for _ in range(count):
            record, at = _record(wire, at, question.kind)
            section.append(record)
        sections.append(section)
    answer, authority, additional = sections
    rcode = flags & _RCODE
    for it in additional:
        if it.kind == OPT:
            rcode |= it.ttl >> 24 << 4  # RFC 6891 section 6.1.3
            break
    return _meaning(question, flags, rcode, answer, authority)


def _record(wire: bytes, at: int, asked: int) -> tuple[Record, int]:
    """The record at a place, and where it ends."""
    owner, at = read_name(wire, at)
    kind, its_class, ttl, length = _FIXED.unpack_from(wire, at)
    at += _FIXED.size
    end = at + length
    if end > len(wire):
        raise Malformed("a record's data is cut off")
    data: Hashable = None
    if its_class != IN:
        kind = kind if kind == OPT else 0
    elif kind in (asked, CNAME, SOA):
        data = READERS[kind](wire, at, end)
    return Record(owner, kind, ttl, data), end


# ---------------------------------------------------------------- what it means
def _meaning(
    question: Question, flags: int, rcode: int, answer: Sequence[Record], authority: Sequence[Record]
) -> Finding:
    if rcode not in (_NOERROR, _NXDOMAIN):
        return Finding(Lookup.TROUBLE, detail=dns.rcode.to_text(dns.rcode.Rcode.make(rcode)))
    if flags & _TC:
        return Finding(Lookup.TROUBLE, detail="a cut answer over TCP")
    owner, ttl, aliases = _followed(question, answer)
    if aliases > CHAIN_LIMIT:
        return Finding(Lookup.TROUBLE, detail=f"more than {CHAIN_LIMIT} aliases")
    found = [it for it in answer if it.kind == question.kind and it.owner == owner]
    secure = bool(flags & _AD)
    if found and rcode == _NXDOMAIN:
        return Finding(Lookup.TROUBLE, detail="records of a name that is said not to exist")
    if found:
        records = tuple(dict.fromkeys([it.data for it in found]))
        least = min(ttl, *[it.ttl for it in found])
        return Finding(Lookup.FOUND, records, least, secure=secure, canonical=in_text(owner) if aliases else "")
    negative = _negative_ttl(authority, owner, ttl)
    if rcode == _NXDOMAIN:
        return Finding(Lookup.NXDOMAIN, ttl=negative, secure=secure)
    if not flags & (_AA | _RA):
        # A referral from a server that neither knows nor looks further: no word on whether there are records.
        return Finding(Lookup.TROUBLE, detail="the server neither knows the name nor asks others")
    return Finding(Lookup.NODATA, ttl=negative, secure=secure)


def _followed(question: Question, answer: Sequence[Record]) -> tuple[Name, int, int]:
    """Where the aliases end, the least of their TTLs, and how many there are, as far as they are followed."""
    owner, kind = question
    targets = {it.owner: it for it in reversed(answer) if it.kind == CNAME}
    ttl, aliases = 2**31 - 1, 0
    while (alias := targets.get(owner)) is not None and aliases <= CHAIN_LIMIT and kind != CNAME:
        if any(it.kind == kind and it.owner == owner for it in answer):
            break
        assert isinstance(alias.data, bytes)  # noqa: S101 - what an alias's data are
        owner, ttl, aliases = alias.data, min(ttl, alias.ttl), aliases + 1
    return owner, ttl, aliases


def _negative_ttl(authority: Sequence[Record], owner: Name, ttl: int) -> int | None:
    """RFC 2308 section 5: the SOA's, without one not to be cached."""
    for it in authority:
        if it.kind == SOA and _is_within(owner, it.owner):
            assert isinstance(it.data, int)  # noqa: S101 - what is read of a SOA
            return min(ttl, it.ttl, it.data)
    return None


def _is_within(name: Name, zone: Name) -> bool:
    while name != zone and name != b"\0":
        name = name[1 + name[0] :]
    return name == zone
