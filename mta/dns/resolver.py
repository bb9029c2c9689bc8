"""Name service behind the `Resolver` port, cached, shared, bounded in time (Table B; RFC 5321 section 5.1).

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
from collections.abc import Awaitable, Sequence

import dns.exception
import dns.reversename
from msgspec.structs import replace

from mta.dns.cache import TtlCache
from mta.dns.data import AAAA, MX, PTR, TLSA, TXT, A
from mta.dns.exchange import Server, ask
from mta.dns.names import BadName, absolute_name
from mta.dns.response import Finding, Question
from mta.dns.servers import NameServers, system_servers
from mta.ports.names import AddressAnswer, Lookup, MxAnswer, TextAnswer, TlsaAnswer

ROUNDS = 2
"""How often a silent server is asked: UDP loses packets."""
QUESTIONS_AT_ONCE = 100
"""Each open question is a socket."""
CACHE_CAPACITY, RECORDS_CACHED = 20_000, 50_000
"""Answers that are remembered, and records in them."""
ADDRESSES_KEPT = 32
"""Addresses of each family that are kept of a host: more than anybody tries."""
_FOUND_TTL = (5.0, 3600.0)
_NEGATIVE_TTL = (1.0, 300.0)
_TROUBLE_TTL = 1.0


class DnsResolver:
    """`nameservers` are (address, port), empty for the system's; `timeout` is in seconds and for one question. With
    `trust_ad` every server is believed that says it validated an answer, else one on this machine alone (RFC 7672 section
    2.1). For use on one event loop, whose clock it goes by."""

    def __init__(self, nameservers: Sequence[Server], timeout: float, trust_ad: bool = False) -> None:
        self._trust_ad = trust_ad
        given = tuple(nameservers)
        self._servers = NameServers((lambda: given) if given else system_servers)
        self._timeout = timeout
        self._cache: TtlCache[Question, Finding] = TtlCache(CACHE_CAPACITY, RECORDS_CACHED)
        self._running: dict[Question, asyncio.Task[Finding]] = {}
        self._slots = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def mail_exchangers(self, domain: str) -> MxAnswer:
        found = await self._find(domain, MX)
        return MxAnswer(found.lookup, found.records, found.detail, found.secure)

    async def addresses(self, host: str) -> AddressAnswer:
        four, six = self._find(host, A), self._find(host, AAAA)
        return _merged(await four, await six)

    async def tlsa(self, host: str, port: int) -> TlsaAnswer:
        found = await self._find(f"_{port}._tcp.{host}", TLSA)
        return TlsaAnswer(found.lookup, found.records, found.detail, found.secure)

    async def texts(self, name: str) -> TextAnswer:
        found = await self._find(name, TXT)
        return TextAnswer(found.lookup, found.records, found.detail, found.secure)

    async def names(self, address: str) -> TextAnswer:
        try:
            asked = dns.reversename.from_address(address)
        except (dns.exception.SyntaxError, ValueError) as flaw:
            return TextAnswer(Lookup.MALFORMED, detail=str(flaw))
        found = await self._find(asked.to_text(omit_final_dot=True), PTR)
        return TextAnswer(found.lookup, found.records, found.detail, found.secure)

    # ------------------------------------------------ one answer for all who ask
    def _find(self, name: str, kind: int) -> Awaitable[Finding]:
        """What there is of a kind at a name as it is written; asked for from now on, whether that is awaited or not."""
        try:
            question = Question(absolute_name(name), kind)
        except BadName as flaw:
            return _known(Finding(Lookup.MALFORMED, detail=str(flaw)))
        cached = self._cache.get(question, asyncio.get_running_loop().time())
        if cached is not None:
            return _known(cached)
        task = self._running.get(question)
        if task is None:
            task = self._running[question] = asyncio.create_task(self._look_up(question))
        return asyncio.shield(task)

    async def _look_up(self, question: Question) -> Finding:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        try:
            if not await self._has_slot(deadline):
                return Finding(Lookup.TROUBLE, detail="too many questions at once")
            try:
                found = await self._ask_servers(question, loop, deadline)
            finally:
                self._slots.release()
        finally:
            del self._running[question]
        self._cache.put(question, found, loop.time() + _lifetime(found), len(found.records))
        return found

    async def _has_slot(self, deadline: float) -> bool:
        if not self._slots.locked():
            return await self._slots.acquire()
        try:
            async with asyncio.timeout_at(deadline):
                return await self._slots.acquire()
        except TimeoutError:
            return False

    # ------------------------------------------------ the servers in turn
    async def _ask_servers(self, question: Question, loop: asyncio.AbstractEventLoop, deadline: float) -> Finding:
        """The first answer that says something about the name; else what went wrong with each server."""
        now = loop.time()
        tries = self._servers.in_order(now) * ROUNDS
        problems: dict[Server, str] = {}
        while tries:
            server = tries.pop(0)
            try:
                found = await ask(server, question, now + (deadline - now) / (len(tries) + 1))
            except (OSError, EOFError):  # TimeoutError is an OSError: silent for its share of the time, or not to be reached
                now = loop.time()
                self._servers.failed(server, now)
                problems.setdefault(server, "no answer")
                continue
            except ValueError as error:
                found = Finding(Lookup.TROUBLE, detail=f"no usable answer: {error}")
            else:
                self._servers.answered(server)
            if found.lookup is not Lookup.TROUBLE:
                trusted = not found.secure or self._trust_ad or _is_here(server)
                return found if trusted else replace(found, secure=False)
            now = loop.time()
            problems[server] = found.detail
            tries = [other for other in tries if other != server]
        return Finding(Lookup.TROUBLE, detail="; ".join(f"{what} ({host})" for (host, _), what in problems.items()))


def _known(found: Finding) -> Awaitable[Finding]:
    known: asyncio.Future[Finding] = asyncio.get_running_loop().create_future()
    known.set_result(found)
    return known


def _is_here(server: Server) -> bool:
    return ipaddress.ip_address(server[0].partition("%")[0]).is_loopback


def _lifetime(found: Finding) -> float:
    if found.lookup is Lookup.TROUBLE:
        return _TROUBLE_TTL
    least, most = _FOUND_TTL if found.lookup is Lookup.FOUND else _NEGATIVE_TTL
    return min(max(found.ttl or 0, least), most)


def _merged(four: Finding, six: Finding) -> AddressAnswer:
    """What there is counts; else a failure of either, since the other's emptiness is half an answer (RFC 3974)."""
    addresses = (*four.records[:ADDRESSES_KEPT], *six.records[:ADDRESSES_KEPT])
    if addresses:
        secure = (four.secure or not four.records) and (six.secure or not six.records)
        return AddressAnswer(Lookup.FOUND, addresses, secure=secure, canonical=four.canonical or six.canonical)
    for lookup in (Lookup.MALFORMED, Lookup.TROUBLE, Lookup.NODATA):
        found = next((found for found in (four, six) if found.lookup is lookup), None)
        if found is not None:
            return AddressAnswer(lookup, detail=found.detail, secure=four.secure and six.secure)
    return AddressAnswer(Lookup.NXDOMAIN, secure=four.secure and six.secure)
