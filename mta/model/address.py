"""Mailbox addresses as SMTP has them (RFC 5321 sections 4.1.2, 4.1.3, 4.5.3.1; RFC 6531 section 3.3).

One parser for every door: SMTP commands, the control socket, sendmail, the spool's reload. Rules: nothing is repaired;
what parses holds no control character, no blank outside quotes, nothing that ends a path. The local part keeps its case
and the quoting it came with; domains compare in lower case, by their A-labels. What is beyond ASCII parses only where the
caller asks for it.
"""

import ipaddress
import re
from enum import Enum
from functools import lru_cache

from msgspec import Struct

from mta.model.international import BEYOND_ASCII, a_labels, u_labels

_ATOM = rf"(?:[A-Za-z0-9!#$%&'*+\-/=?^_`{{|}}~]|{BEYOND_ASCII})+"
_DOT_ATOM = re.compile(rf"{_ATOM}(?:\.{_ATOM})*\Z")
_QUOTED = re.compile(rf'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|{BEYOND_ASCII}|\\[\x20-\x7e])*"\Z')
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_SOURCE_ROUTE = re.compile(rf"@{_LABEL}(?:\.{_LABEL})*(?:,@{_LABEL}(?:\.{_LABEL})*)*:")

LOCAL_PART_LIMIT = 64
DOMAIN_LIMIT = 255
PATH_LIMIT = 256
"""Octets, in UTF-8; RFC 5321 sections 4.5.3.1.1 to 4.5.3.1.3 (the path with its angle brackets)."""

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Flaw(Enum):
    """Why text is no address; the value is the reason in words."""

    SYNTAX = "bad address syntax"
    NON_ASCII = "address has non-ASCII characters"
    ENCODING = "address is not valid UTF-8"
    LOCAL_PART_LENGTH = "local part is longer than 64 octets"
    DOMAIN = "bad domain"
    DOMAIN_LENGTH = "domain is longer than 255 octets"
    LITERAL = "bad address literal"
    PATH_LENGTH = "path is longer than 256 octets"


class AddressError(ValueError):
    """Text that is no address."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.value)
        self.flaw = flaw


class Address(Struct, frozen=True, gc=False):
    """`local_part` as given (with its quotes), `domain` as given, "" where there is none; one that is not ASCII in its
    U-labels."""

    local_part: str
    domain: str

    def __str__(self) -> str:
        return f"{self.local_part}@{self.domain}" if self.domain else self.local_part

    @property
    def destination(self) -> str:
        """The domain in lower case and A-labels: what routing and grouping go by."""
        return self.domain.lower() if self.domain.isascii() else a_labels(self.domain)

    @property
    def sendable(self) -> "Address":
        """The same mailbox in the form that asks least of the next server: the domain needs SMTPUTF8 only if the local part
        does (RFC 6531 section 3.2)."""
        needless = self.local_part.isascii() and not self.domain.isascii()
        return Address(self.local_part, self.destination) if needless else self

    @property
    def least_quoted(self) -> "Address":
        """The same mailbox with quotes only where they are needed (RFC 5321 section 4.1.2)."""
        return Address(least_quoted(self.local_part), self.domain) if self.local_part.startswith('"') else self

    @property
    def key(self) -> str:
        """Equal for the same mailbox: least quoting, domain in lower case and A-labels."""
        return f"{least_quoted(self.local_part)}@{self.destination}"


def least_quoted(local_part: str) -> str:
    if not local_part.startswith('"'):
        return local_part
    bare = re.sub(r"\\(.)", r"\1", local_part[1:-1])
    if _DOT_ATOM.match(bare):
        return bare
    return '"' + re.sub(r'(["\\])', r"\\\1", bare) + '"'


@lru_cache(maxsize=4096)
def parse_address(text: str, *, utf8: bool = False) -> Address:
    """An address without angle brackets; the domain may be missing. `utf8`: also one that is not ASCII (RFC 6531). Raises
    `AddressError`."""
    if not (utf8 or text.isascii()):
        raise AddressError(Flaw.NON_ASCII)
    local_part, domain = _split(text)
    if not (_DOT_ATOM.match(local_part) or _QUOTED.match(local_part)):
        raise AddressError(Flaw.SYNTAX)
    if _octets(local_part) > LOCAL_PART_LIMIT:
        raise AddressError(Flaw.LOCAL_PART_LENGTH)
    address = Address(local_part, _checked(domain) if domain is not None else "")
    octets = len(text) if text.isascii() else max(_octets(str(address)), _octets(str(address.sendable)))
    if octets + 2 > PATH_LIMIT:
        raise AddressError(Flaw.PATH_LENGTH)
    return address


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _checked(domain: str) -> str:
    """The domain in a form that is fit for a command: as it is, or in its U-labels. Raises `AddressError`."""
    if domain.isascii():
        check_domain(domain)
        return domain
    known = parse_domain(domain)
    try:
        return u_labels(known)
    except ValueError:
        raise AddressError(Flaw.DOMAIN) from None


def parse_domain(text: str) -> str:
    """A domain name or an address literal in lower case, U-labels as A-labels. Raises `AddressError`."""
    try:
        known = a_labels(text)
    except ValueError:
        raise AddressError(Flaw.DOMAIN) from None
    check_domain(known)
    return known


def strip_source_route(text: str) -> str:
    """`@a.example,@b.example:u@d.example` -> `u@d.example` (RFC 5321 section 4.1.1.3, appendix C); a route that does
    not parse raises `AddressError`."""
    if not text.startswith("@"):
        return text
    match = _SOURCE_ROUTE.match(text)
    if match is None:
        raise AddressError(Flaw.SYNTAX)
    return text[match.end() :]


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith('"'):
        match = re.match(r'"(?:[^"\\]|\\.)*"', text)
        if match is None:
            raise AddressError(Flaw.SYNTAX)
        rest = text[match.end() :]
        if rest and not rest.startswith("@"):
            raise AddressError(Flaw.SYNTAX)
        return match.group(), rest[1:] if rest else None
    local_part, at, domain = text.partition("@")
    return local_part, domain if at else None


def check_domain(domain: str) -> None:
    """Raises `AddressError` for what is neither a domain name (RFC 5321 section 4.1.2, RFC 1035 limits) nor an address
    literal."""
    if domain.startswith("["):
        parse_literal(domain)
    elif len(domain) > DOMAIN_LIMIT:
        raise AddressError(Flaw.DOMAIN_LENGTH)
    elif not _DOMAIN.match(domain):
        raise AddressError(Flaw.DOMAIN)


def parse_literal(domain: str) -> IpAddress:
    """The address in `[192.0.2.1]` or `[IPv6:2001:db8::1]` (RFC 5321 section 4.1.3). Raises `AddressError`."""
    if not domain.endswith("]"):
        raise AddressError(Flaw.LITERAL)
    inner = domain[1:-1]
    try:
        if inner[:5].lower() == "ipv6:":
            if "%" in inner:
                raise AddressError(Flaw.LITERAL)
            return ipaddress.IPv6Address(inner[5:])
        return ipaddress.IPv4Address(inner)
    except ValueError:
        raise AddressError(Flaw.LITERAL) from None
