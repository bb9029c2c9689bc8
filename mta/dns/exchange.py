"""One question to one name server, and its response (RFC 1035, 6840, 6891, 7766).

Rules: a socket of its own and a random id for each question, so that an answer is hard to forge; what is no answer to
it is passed over; a cut answer is asked for again over TCP, and one that is larger than any of ours is not read.
"""

import asyncio

import dns.entropy
import dns.flags

from mta.dns.data import OPT
from mta.dns.response import HEAD, Finding, Question, is_cut, is_response, read

Server = tuple[str, int]
"""A name server's address and port."""
PAYLOAD = 1232
"""Octets of UDP answer we take: what passes everywhere unfragmented."""
ANSWER_LIMIT = 16 * 1024
"""Octets of an answer: hundreds of mail servers, or of lines of text."""
_FLAGS = int(dns.flags.RD | dns.flags.AD)
"""AD in a question asks for AD in the answer, without the signatures (RFC 6840 section 5.7)."""
_EXTENDED = b"\0" + OPT.to_bytes(2) + PAYLOAD.to_bytes(2) + bytes(6)
"""The record that says how much we take, EDNS version 0 (RFC 6891 section 6.1.2)."""


class _Cut(Exception):
    """The answer did not fit into a packet."""


def in_octets(number: int, question: Question) -> bytes:
    """The message that asks, with the id `number`."""
    return HEAD.pack(number, _FLAGS, 1, 0, 0, 1) + question.name + question.tail + _EXTENDED


async def ask(server: Server, question: Question, end: float) -> Finding:
    """What the server's response to the question says. Raises OSError (TimeoutError where there is none at the instant `end`
    of the loop's clock), EOFError or ValueError for what goes wrong on the way or is no DNS message."""
    number = dns.entropy.random_16()
    try:
        return await _ask_udp(server, number, question, end)
    except _Cut:
        async with asyncio.timeout_at(end):
            return await _ask_tcp(server, number, question)


async def _ask_tcp(server: Server, number: int, question: Question) -> Finding:
    reader, writer = await asyncio.open_connection(*server)
    try:
        asked = in_octets(number, question)
        writer.write(len(asked).to_bytes(2) + asked)
        length = int.from_bytes(await reader.readexactly(2))
        if length > ANSWER_LIMIT:
            raise ValueError(f"an answer of {length} octets")
        wire = await reader.readexactly(length)
    finally:
        writer.transport.abort()
    if not is_response(wire, number, question):
        raise ValueError("an answer to another question")
    return read(wire, question)


async def _ask_udp(server: Server, number: int, question: Question, end: float) -> Finding:
    """Over a connected socket: a dead local server shows at once (ECONNREFUSED), and the kernel keeps other hosts' packets
    out."""
    loop = asyncio.get_running_loop()
    answer = _Answer(number, question, loop.create_future())
    transport, _ = await loop.create_datagram_endpoint(lambda: answer, remote_addr=server)
    timer = loop.call_at(end, answer.fail, TimeoutError())
    try:
        transport.sendto(in_octets(number, question))
        return await answer.finding
    finally:
        timer.cancel()
        transport.close()


class _Answer(asyncio.DatagramProtocol):
    """Waits for the packet that answers the question."""

    def __init__(self, number: int, question: Question, finding: asyncio.Future[Finding]) -> None:
        self._number, self._question, self.finding = number, question, finding

    def datagram_received(self, data: bytes, addr: object) -> None:
        if self.finding.done() or len(data) > ANSWER_LIMIT or not is_response(data, self._number, self._question):
            return
        if is_cut(data):
            self.fail(_Cut())
            return
        try:
            self.finding.set_result(read(data, self._question))
        except ValueError:
            return  # forged or damaged: the right one may still come

    def error_received(self, exc: Exception) -> None:
        self.fail(exc)

    def fail(self, error: Exception) -> None:
        if not self.finding.done():
            self.finding.set_exception(error)
