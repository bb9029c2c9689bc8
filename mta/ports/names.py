"""The name service: what is asked, and how an answer may end (Table B)."""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from mta.model.tls import Tlsa


class Lookup(StrEnum):
    """How a DNS question ended (the rows of Table B)."""

    FOUND = "found"
    NODATA = "nodata"
    """The name exists, no such record: a clean NOERROR."""
    NXDOMAIN = "nxdomain"
    TROUBLE = "trouble"
    """SERVFAIL, REFUSED, FORMERR, timeout, a CNAME loop: says nothing about the name."""
    MALFORMED = "malformed"
    """The name can't be asked for (too long, an empty label, no A-label)."""


class MailExchanger(Struct, frozen=True):
    """An MX record: `host` without its final dot, "" for the root (RFC 7505)."""

    preference: int
    host: str


class MxAnswer(Struct, frozen=True):
    """The MX records of a domain, in no particular order; `detail` says what went wrong, in words. `secure`: it was
    validated by DNSSEC, also where it is a denial."""

    lookup: Lookup
    exchangers: tuple[MailExchanger, ...] = ()
    detail: str = ""
    secure: bool = False


class AddressAnswer(Struct, frozen=True):
    """A and AAAA of a host together: FOUND with what there is; TROUBLE if nothing was found and either question failed;
    NODATA or NXDOMAIN only if both ended cleanly. `secure`: all that was found was validated by DNSSEC; `canonical` is where
    the aliases of the name end, "" without any."""

    lookup: Lookup
    addresses: tuple[str, ...] = ()
    detail: str = ""
    secure: bool = False
    canonical: str = ""


class TlsaAnswer(Struct, frozen=True):
    lookup: Lookup
    records: tuple[Tlsa, ...] = ()
    detail: str = ""
    secure: bool = False


class TextAnswer(Struct, frozen=True):
    """TXT records, the strings of each joined; or the names that PTR records have, without their final dot."""

    lookup: Lookup
    texts: tuple[str, ...] = ()
    detail: str = ""
    secure: bool = False


class Resolver(Protocol):
    """Never raises for what a name server does. What is said to be secure was validated by a server that is trusted to do
    so (RFC 7672 section 2.1)."""

    async def mail_exchangers(self, domain: str) -> MxAnswer: ...
    async def addresses(self, host: str) -> AddressAnswer: ...
    async def tlsa(self, host: str, port: int) -> TlsaAnswer:
        """Of `_port._tcp.host` (RFC 6698 section 3)."""
        ...

    async def texts(self, name: str) -> TextAnswer: ...
    async def names(self, address: str) -> TextAnswer:
        """The PTR records of an address."""
        ...
