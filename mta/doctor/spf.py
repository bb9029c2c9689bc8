"""Whether a domain's SPF record lets an address send for it (RFC 7208), as far as can be said without a sender.

Rules: at most `LOOKUP_LIMIT` terms that ask, as many servers of one of them, and `VOID_LIMIT` answers that there is nothing
(section 4.6.4); a record with macros, `exists` or `ptr` can't be decided here
and is UNKNOWN; whatever else is wrong with a record is an error of it, as receivers see it.
"""

import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum

from mta.ports.names import Lookup, Resolver

LOOKUP_LIMIT = 10
VOID_LIMIT = 2
_VERSION = re.compile(r"v=spf1(?: |\Z)", re.IGNORECASE)
_TERM = re.compile(r"(?P<sign>[+?~-]?)(?P<name>[a-z][a-z0-9]*)(?P<rest>(?:[:/].*)?)\Z", re.IGNORECASE)
_LENGTHS = re.compile(r"(?:/([0-9]{1,3}))?(?://([0-9]{1,3}))?\Z")


class Spf(StrEnum):
    """The results of section 2.6, and `UNKNOWN`."""

    PASS = "pass"  # noqa: S105 - a result
    FAIL = "fail"
    SOFTFAIL = "softfail"
    NEUTRAL = "neutral"
    NONE = "none"
    TEMPERROR = "temperror"
    PERMERROR = "permerror"
    UNKNOWN = "unknown"


def is_record(text: str) -> bool:
    """Whether a TXT record is one of SPF (section 4.5)."""
    return _VERSION.match(text) is not None


_SIGNS = {"": Spf.PASS, "+": Spf.PASS, "-": Spf.FAIL, "~": Spf.SOFTFAIL, "?": Spf.NEUTRAL}


class _Broken(Exception):
    """Ends the evaluation with a result; the text says why."""

    def __init__(self, result: Spf, why: str) -> None:
        super().__init__(why)
        self.result = result


@dataclass(slots=True)
class Evaluation:
    """For one address; `record` is the text that was found first, `why` what ended it early."""

    resolver: Resolver
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    record: str = ""
    why: str = ""
    _lookups: int = field(default=0)
    _voids: int = field(default=0)

    async def of(self, domain: str) -> Spf:
        try:
            return await self._check(domain)
        except _Broken as error:
            self.why = str(error)
            return error.result

    async def _check(self, domain: str) -> Spf:
        record = await self._find(domain)
        if record is None:
            return Spf.NONE
        self.record = self.record or record
        redirect = ""
        for term in record.split()[1:]:
            name, equals, value = term.partition("=")
            if equals and ":" not in name and "/" not in name:
                redirect = value if name.lower() == "redirect" else redirect
                continue
            if (result := await self._term(term, domain)) is not None:
                return result
        if not redirect:
            return Spf.NEUTRAL
        self._count()
        result = await self._check(_plain(redirect))
        return self._needed(result, redirect)

    async def _find(self, domain: str) -> str | None:
        answer = await self.resolver.texts(domain)
        if answer.lookup is Lookup.TROUBLE:
            raise _Broken(Spf.TEMPERROR, f"the lookup at {domain} failed: {answer.detail}")
        records = list(filter(is_record, answer.texts))
        if len(records) > 1:
            raise _Broken(Spf.PERMERROR, f"{domain} has {len(records)} SPF records; only one may be there")
        return records[0] if records else None

    async def _term(self, term: str, domain: str) -> Spf | None:
        """The result where the term matches, else None."""
        parts = _TERM.match(term)
        if parts is None:
            raise _Broken(Spf.PERMERROR, f'"{term}" is no term of SPF')
        name, rest, result = parts["name"].lower(), parts["rest"], _SIGNS[parts["sign"]]
        value, slash, lengths = rest.removeprefix(":").partition("/")
        match name:
            case "all":
                return result
            case "ip4" | "ip6":
                return result if self._in_network(rest[1:], term) else None
            case "a" | "mx":
                found = await self._hosts(name, _plain(value) or domain)
                return result if self._near(found, slash + lengths, term) else None
            case "include":
                self._count()
                included = self._needed(await self._check(_plain(value)), value)
                return result if included is Spf.PASS else None
            case "exists" | "ptr":
                raise _Broken(Spf.UNKNOWN, f'"{term}" can\'t be judged without a message')
        raise _Broken(Spf.PERMERROR, f'"{term}" is no term of SPF')

    @staticmethod
    def _needed(result: Spf, domain: str) -> Spf:
        if result is Spf.NONE:
            raise _Broken(Spf.PERMERROR, f"{domain} is named in it and has no SPF record")
        return result

    def _in_network(self, text: str, term: str) -> bool:
        try:
            return self.address in ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise _Broken(Spf.PERMERROR, f'"{term}" has no network') from None

    async def _hosts(self, name: str, domain: str) -> list[str]:
        self._count()
        if name == "a":
            return await self._addresses(domain)
        answer = await self.resolver.mail_exchangers(domain)
        self._judge(answer.lookup, domain, answer.detail)
        if len(answer.exchangers) > LOOKUP_LIMIT:
            raise _Broken(Spf.PERMERROR, f"{domain} has more than {LOOKUP_LIMIT} servers")
        return [at for it in answer.exchangers if it.host for at in await self._addresses(it.host)]

    async def _addresses(self, host: str) -> list[str]:
        answer = await self.resolver.addresses(host)
        self._judge(answer.lookup, host, answer.detail)
        return list(answer.addresses)

    def _judge(self, lookup: Lookup, name: str, detail: str) -> None:
        if lookup is Lookup.TROUBLE:
            raise _Broken(Spf.TEMPERROR, f"the lookup of {name} failed: {detail}")
        self._voids += lookup is not Lookup.FOUND
        if self._voids > VOID_LIMIT:
            raise _Broken(Spf.PERMERROR, f"more than {VOID_LIMIT} names in it lead to nothing, {name} is one")

    def _near(self, addresses: list[str], lengths: str, term: str) -> bool:
        given = _LENGTHS.match(lengths)
        if given is None:
            raise _Broken(Spf.PERMERROR, f'"{term}" has no prefix length')
        four, six = int(given[1] or 32), int(given[2] or 128)
        return any(self._in_network(f"{it}/{six if ':' in it else four}", term) for it in addresses)

    def _count(self) -> None:
        self._lookups += 1
        if self._lookups > LOOKUP_LIMIT:
            raise _Broken(Spf.PERMERROR, f"more than {LOOKUP_LIMIT} lookups are needed for it")


def _plain(domain: str) -> str:
    if "%" in domain:
        raise _Broken(Spf.UNKNOWN, f'"{domain}" can\'t be judged without a message')
    return domain.rstrip(".")
