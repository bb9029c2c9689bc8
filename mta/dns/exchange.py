"""One question to one name server, and what its response means (RFC 1035, 2308, 6604, 6891, 7766).

Rules: a socket of its own and a random id for each question, so that an answer is hard to forge; what is no answer to
it is passed over; a cut answer is asked for again over TCP. Nothing but NXDOMAIN and a clean NOERROR says anything about
the name: all else is TROUBLE. No deadline here: the caller's `asyncio.timeout` ends an exchange.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype

from mta.ports import Lookup

Server = tuple[str, int]
"""A name server's address and port."""
PAYLOAD = 1232
"""Octets of UDP answer we take: what passes everywhere unfragmented."""
CHAIN_LIMIT = 8
"""Aliases that are followed within one answer; more, or a loop, is TROUBLE (RFC 1034 section 3.6.2)."""


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


def make_question(name: dns.name.Name, kind: dns.rdatatype.RdataType) -> dns.message.QueryMessage:
    """AD in a question asks for AD in the answer, without the signatures (RFC 6840 section 5.7)."""
    question = dns.message.make_query(name, kind, use_edns=0, payload=PAYLOAD)
    question.flags |= dns.flags.AD
    return question


async def ask(server: Server, question: dns.message.QueryMessage) -> dns.message.Message:
    """The server's response to the question. Raises DNSException, OSError, EOFError or ValueError for what goes wrong on
    the way or is no DNS message."""
    try:
        return await _ask_udp(server, question)
    except dns.message.Truncated:
        host, port = server
        return await dns.asyncquery.tcp(question, host, port=port)


async def _ask_udp(server: Server, question: dns.message.QueryMessage) -> dns.message.Message:
    """Over a connected socket, which dnspython does not offer: a dead local server shows at once (ECONNREFUSED), and the
    kernel keeps other hosts' packets out."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[dns.message.Message] = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Answer(question, answer), remote_addr=server)
    try:
        transport.sendto(question.to_wire())
        return await answer
    finally:
        transport.close()


class _Answer(asyncio.DatagramProtocol):
    """Waits for the packet that answers the question."""

    def __init__(self, question: dns.message.QueryMessage, answer: asyncio.Future[dns.message.Message]) -> None:
        self._question, self._answer = question, answer

    def datagram_received(self, data: bytes, addr: object) -> None:
        try:
            response = dns.message.from_wire(data, raise_on_truncation=True)
        except dns.message.Truncated as cut:
            if data[:2] == self._question.id.to_bytes(2, "big"):
                self._fail(cut)
        except (dns.exception.DNSException, ValueError):
            return  # forged or damaged: the right one may still come
        else:
            if self._question.is_response(response) and not self._answer.done():
                self._answer.set_result(response)

    def error_received(self, exc: Exception) -> None:
        self._fail(exc)

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)


def read(response: dns.message.Message) -> Finding:
    """What the response says. Raises DNSException where it contradicts itself."""
    if not isinstance(response, dns.message.QueryMessage):
        return Finding(Lookup.TROUBLE, detail="no response to a query")
    rcode = response.rcode()
    if rcode not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        return Finding(Lookup.TROUBLE, detail=dns.rcode.to_text(rcode))
    if response.flags & dns.flags.TC:
        return Finding(Lookup.TROUBLE, detail="a cut answer over TCP")
    chain = response.resolve_chaining()
    if len(chain.cnames) > CHAIN_LIMIT:
        return Finding(Lookup.TROUBLE, detail=f"more than {CHAIN_LIMIT} aliases")
    secure = bool(response.flags & dns.flags.AD)
    if chain.answer is not None:
        canonical = chain.canonical_name.to_text(omit_final_dot=True).lower() if chain.cnames else ""
        return Finding(Lookup.FOUND, tuple(chain.answer), chain.minimum_ttl, secure=secure, canonical=canonical)
    if rcode == dns.rcode.NXDOMAIN:
        return Finding(Lookup.NXDOMAIN, ttl=_negative_ttl(response, chain.minimum_ttl), secure=secure)
    if not response.flags & (dns.flags.AA | dns.flags.RA):
        # A referral from a server that neither knows nor looks further: no word on whether there are records.
        return Finding(Lookup.TROUBLE, detail="the server neither knows the name nor asks others")
    return Finding(Lookup.NODATA, ttl=_negative_ttl(response, chain.minimum_ttl), secure=secure)


def _negative_ttl(response: dns.message.Message, minimum: int) -> int | None:
    """RFC 2308 section 5: the SOA's, without one not to be cached."""
    has_soa = any(rrset.rdtype == dns.rdatatype.SOA for rrset in response.authority)
    return minimum if has_soa else None
