"""Name service behind the `Resolver` port, on dnspython: cached, shared, bounded in time (Table B; RFC 5321 section 5.1).

Rules:
- Nothing that a name server does raises; it becomes a `Lookup`.
- A question takes at most `timeout` seconds over all servers, each of them asked twice while it is silent; one that gave
  an error (SERVFAIL, REFUSED ...) is not asked again for this question.
- Equal questions at the same time are one; a caller that goes away does not take it from the others.
- Answers are remembered by their TTL, held between 5 seconds and an hour; negative ones by their SOA, between one second
  and 5 minutes, so that a corrected zone is soon seen; failures for a second (RFC 9520 section 3.2), so that a burst
  asks once and a retry asks anew.
- A and AAAA are asked for at once. IPv4 addresses come first: as a sender, IPv4 more often has the reverse name and the
  reputation that receivers ask for, and both families are tried.
"""

import asyncio
import ipaddress
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import dns.exception
import dns.name
import dns.rdatatype
import dns.rdtypes.ANY.MX
import dns.rdtypes.ANY.PTR
import dns.rdtypes.ANY.TLSA
import dns.rdtypes.ANY.TXT
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA
import dns.reversename

from mta.dns.cache import TtlCache
from mta.dns.exchange import Finding, Server, ask, make_question, read
from mta.dns.names import BadName, absolute_name
from mta.dns.servers import NameServers, system_servers
from mta.model.tls import Tlsa
from mta.ports import AddressAnswer, Lookup, MailExchanger, MxAnswer, TextAnswer, TlsaAnswer

ROUNDS = 2
"""How often a silent server is asked: UDP loses packets."""
QUESTIONS_AT_ONCE = 100
"""Each open question is a socket."""
CACHE_CAPACITY = 20_000
ADDRESSES_KEPT = 32
"""Addresses of each family that are kept of a host: more than anybody tries."""
_FOUND_TTL = (5.0, 3600.0)
_NEGATIVE_TTL = (1.0, 300.0)
_TROUBLE_TTL = 1.0

_Question = tuple[dns.name.Name, dns.rdatatype.RdataType]


class DnsResolver:
    """`nameservers` are (address, port), empty for the system's; `timeout` is in seconds and for one question. With
    `trust_ad` every server is believed that says it validated an answer, else one on this machine alone (RFC 7672 section
    2.1). For use on one event loop, whose clock it goes by."""

    def __init__(self, nameservers: Sequence[Server], timeout: float, trust_ad: bool = False) -> None:
        self._trust_ad = trust_ad
        given = tuple(nameservers)
        self._servers = NameServers((lambda: given) if given else system_servers)
        self._timeout = timeout
        self._cache: TtlCache[_Question, Finding] = TtlCache(CACHE_CAPACITY)
        self._running: dict[_Question, asyncio.Task[Finding]] = {}
        self._slots = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def mail_exchangers(self, domain: str) -> MxAnswer:
        found = await self._of(domain, dns.rdatatype.MX)
        records = cast(Sequence[dns.rdtypes.ANY.MX.MX], found.records)
        exchangers = (MailExchanger(record.preference, _host(record.exchange)) for record in records)
        return MxAnswer(found.lookup, tuple(exchangers), found.detail, found.secure)

    async def addresses(self, host: str) -> AddressAnswer:
        four, six = await asyncio.gather(self._of(host, dns.rdatatype.A), self._of(host, dns.rdatatype.AAAA))
        return _merged(four, six)

    async def tlsa(self, host: str, port: int) -> TlsaAnswer:
        found = await self._of(f"_{port}._tcp.{host}", dns.rdatatype.TLSA)
        records = cast(Sequence[dns.rdtypes.ANY.TLSA.TLSA], found.records)
        known = (Tlsa(record.usage, record.selector, record.mtype, record.cert) for record in records)
        return TlsaAnswer(found.lookup, tuple(known), found.detail, found.secure)

    async def texts(self, name: str) -> TextAnswer:
        found = await self._of(name, dns.rdatatype.TXT)
        records = cast(Sequence[dns.rdtypes.ANY.TXT.TXT], found.records)
        texts = (b"".join(record.strings).decode("utf-8", "backslashreplace") for record in records)
        return TextAnswer(found.lookup, tuple(texts), found.detail, found.secure)

    async def names(self, address: str) -> TextAnswer:
        try:
            asked = dns.reversename.from_address(address)
        except (dns.exception.SyntaxError, ValueError) as flaw:
            return TextAnswer(Lookup.MALFORMED, detail=str(flaw))
        found = await self._find((asked, dns.rdatatype.PTR))
        records = cast(Sequence[dns.rdtypes.ANY.PTR.PTR], found.records)
        return TextAnswer(found.lookup, tuple(_host(record.target) for record in records), found.detail, found.secure)

    async def _of(self, name: str, kind: dns.rdatatype.RdataType) -> Finding:
        """What there is of a kind at a name as it is written."""
        try:
            return await self._find((absolute_name(name), kind))
        except BadName as flaw:
            return Finding(Lookup.MALFORMED, detail=str(flaw))

    # ------------------------------------------------ one answer for all who ask
    async def _find(self, question: _Question) -> Finding:
        cached = self._cache.get(question, _now())
        if cached is not None:
            return cached
        task = self._running.get(question)
        if task is None:
            task = asyncio.create_task(self._look_up(question))
            self._running[question] = task
            task.add_done_callback(lambda _: self._running.pop(question, None))
        return await asyncio.shield(task)

    async def _look_up(self, question: _Question) -> Finding:
        deadline = _now() + self._timeout
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            return Finding(Lookup.TROUBLE, detail="too many questions at once")
        try:
            found = await self._ask_servers(question, deadline)
        finally:
            self._slots.release()
        self._cache.put(question, found, _now() + _lifetime(found))
        return found

    # ------------------------------------------------ the servers in turn
    async def _ask_servers(self, question: _Question, deadline: float) -> Finding:
        """The first answer that says something about the name; else what went wrong with each server."""
        tries = deque(self._servers.in_order(_now()) * ROUNDS)
        problems: dict[Server, str] = {}
        while tries:
            server = tries.popleft()
            share = (deadline - _now()) / (len(tries) + 1)
            found = await self._ask_one(server, question, share)
            if found is None:
                problems.setdefault(server, "no answer")
            elif found.lookup is not Lookup.TROUBLE:
                return found
            else:
                problems[server] = found.detail
                tries = deque(other for other in tries if other != server)
        return Finding(Lookup.TROUBLE, detail="; ".join(f"{what} ({host})" for (host, _), what in problems.items()))

    async def _ask_one(self, server: Server, question: _Question, share: float) -> Finding | None:
        """None: the server was silent for its `share` of the time, or could not be reached."""
        try:
            async with asyncio.timeout(share):
                response = await ask(server, make_question(*question))
        except (OSError, EOFError):  # TimeoutError is an OSError
            self._servers.failed(server, _now())
            return None
        except (dns.exception.DNSException, ValueError) as error:
            return Finding(Lookup.TROUBLE, detail=f"no usable answer: {error}")
        self._servers.answered(server)
        try:
            found = read(response)
            return found if self._trusts(server) else replace(found, secure=False)
        except dns.exception.DNSException as error:
            return Finding(Lookup.TROUBLE, detail=f"no usable answer: {error}")

    def _trusts(self, server: Server) -> bool:
        return self._trust_ad or ipaddress.ip_address(server[0].partition("%")[0]).is_loopback


def _now() -> float:
    return asyncio.get_running_loop().time()


def _lifetime(found: Finding) -> float:
    if found.lookup is Lookup.TROUBLE:
        return _TROUBLE_TTL
    least, most = _FOUND_TTL if found.lookup is Lookup.FOUND else _NEGATIVE_TTL
    return min(max(found.ttl or 0, least), most)


def _host(exchange: dns.name.Name) -> str:
    return "" if exchange == dns.name.root else exchange.to_text(omit_final_dot=True).lower()


def _merged(four: Finding, six: Finding) -> AddressAnswer:
    """What there is counts; else a failure of either, since the other's emptiness is half an answer (RFC 3974)."""
    addresses = [cast(dns.rdtypes.IN.A.A, record).address for record in four.records[:ADDRESSES_KEPT]]
    addresses += [cast(dns.rdtypes.IN.AAAA.AAAA, record).address for record in six.records[:ADDRESSES_KEPT]]
    if addresses:
        secure = all(found.secure for found in (four, six) if found.records)
        return AddressAnswer(Lookup.FOUND, tuple(addresses), secure=secure, canonical=four.canonical or six.canonical)
    for lookup in (Lookup.MALFORMED, Lookup.TROUBLE, Lookup.NODATA):
        found = next((found for found in (four, six) if found.lookup is lookup), None)
        if found is not None:
            return AddressAnswer(lookup, detail=found.detail, secure=four.secure and six.secure)
    return AddressAnswer(Lookup.NXDOMAIN, secure=four.secure and six.secure)
