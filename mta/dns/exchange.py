"""One question to one name server, and its response (RFC 1035, 6840, 6891, 7766).

Rules: a socket of its own and a random id for each question, so that an answer is hard to forge; what is no answer to
it is passed over; a cut answer is asked for again over TCP, and one that is larger than any of ours is not read. No deadline
here: the caller's `asyncio.timeout` ends an exchange.
"""

import asyncio

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rdatatype

from mta.dns.response import Response, parse, read_head

Server = tuple[str, int]
"""A name server's address and port."""
PAYLOAD = 1232
"""Octets of UDP answer we take: what passes everywhere unfragmented."""
ANSWER_LIMIT = 16 * 1024
"""Octets of an answer: hundreds of mail servers, or of lines of text."""


class _Cut(Exception):
    """The answer did not fit into a packet."""


def make_question(name: dns.name.Name, kind: dns.rdatatype.RdataType) -> dns.message.QueryMessage:
    """AD in a question asks for AD in the answer, without the signatures (RFC 6840 section 5.7)."""
    question = dns.message.make_query(name, kind, use_edns=0, payload=PAYLOAD)
    question.flags |= dns.flags.AD
    return question


async def ask(server: Server, question: dns.message.QueryMessage) -> Response:
    """The server's response to the question. Raises DNSException, OSError, EOFError or ValueError for what goes wrong on
    the way or is no DNS message."""
    try:
        return await _ask_udp(server, question)
    except _Cut:
        return await _ask_tcp(server, question)


async def _ask_tcp(server: Server, question: dns.message.QueryMessage) -> Response:
    reader, writer = await asyncio.open_connection(*server)
    try:
        asked = question.to_wire()
        writer.write(len(asked).to_bytes(2) + asked)
        length = int.from_bytes(await reader.readexactly(2))
        if length > ANSWER_LIMIT:
            raise ValueError(f"an answer of {length} octets")
        response = parse(await reader.readexactly(length))
    finally:
        writer.transport.abort()
    if not question.is_response(response.head):
        raise ValueError("an answer to another question")
    return response


async def _ask_udp(server: Server, question: dns.message.QueryMessage) -> Response:
    """Over a connected socket, which dnspython does not offer: a dead local server shows at once (ECONNREFUSED), and the
    kernel keeps other hosts' packets out."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Response] = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Answer(question, answer), remote_addr=server)
    try:
        transport.sendto(question.to_wire())
        return await answer
    finally:
        transport.close()


class _Answer(asyncio.DatagramProtocol):
    """Waits for the packet that answers the question."""

    def __init__(self, question: dns.message.QueryMessage, answer: asyncio.Future[Response]) -> None:
        self._question, self._answer = question, answer

    def datagram_received(self, data: bytes, addr: object) -> None:
        if self._answer.done() or len(data) > ANSWER_LIMIT:
            return
        try:
            head = read_head(data)
            if not self._question.is_response(head):
                return
            if head.flags & dns.flags.TC:
                self._fail(_Cut())
            else:
                self._answer.set_result(parse(data))
        except (dns.exception.DNSException, ValueError):
            return  # forged or damaged: the right one may still come

    def error_received(self, exc: Exception) -> None:
        self._fail(exc)

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
