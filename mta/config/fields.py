"""Single values of the configuration: text in, checked values out.

Rules: each function raises `ValueError` whose text says what was expected. Nothing is guessed: no bare numbers for
durations, no empty host for "everywhere", no name where an address is meant.
"""

import ipaddress
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from mta.model.address import AddressError, check_domain, parse_address, parse_domain
from mta.model.door import Door, Scheme
from mta.model.units import parse_duration, parse_size
from mta.policy.destinations import Relay

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

CREDENTIAL = "credential"
_CREDENTIAL_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}\Z")
_MODE = re.compile(r"0?[0-7]{3}\Z")
_PORT = re.compile(r"[0-9]{1,5}\Z")
_RATE = re.compile(r"([0-9]{1,9})/(.+)\Z", re.DOTALL)
_USER = re.compile(r"[A-Za-z0-9.\-_@+]{1,64}\Z")
_URL = re.compile(r"https?://[!-~]+\Z")
_SELECTOR = re.compile(r"(?=.{1,64}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\Z")
_VIA = re.compile(
    r"(?P<scheme>smtps?)://(?:(?P<user>[!-?A-~]{1,320})@)?(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?/?\Z",
    re.IGNORECASE,
)
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\Z", re.I)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
SOCKET_PATH_LIMIT = 100
"""Octets; the system's limit is 107, and a sibling's name is needed while the socket is made."""
SMALLEST_MESSAGE = 1024
BAD_NAME = "expected a name of 1 to 64 letters, digits and . - _ @ +"


class Unsaid(ValueError):
    """What was given is not to be repeated: it holds a secret."""


class Endpoint(NamedTuple):
    """An IP address and a port; equal to the pair."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected text in quotes")
    return value


def duration_or_zero(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError('expected a duration in quotes such as "90s" or "5m"')
    return parse_duration(value)


def duration(value: object) -> float:
    seconds = duration_or_zero(value)
    if not seconds:
        raise ValueError("expected a duration above zero")
    return seconds


def hold(value: object) -> float:
    """What EHLO announces in whole seconds (RFC 4865 section 3)."""
    seconds = duration(value)
    if seconds < 1:
        raise ValueError('expected a duration of at least "1s"')
    return seconds


def size_or_zero(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError('expected a size in quotes such as "512KiB" or "25MiB"')
    return parse_size(value)


def message_size(value: object) -> int:
    octets = size_or_zero(value)
    if octets < SMALLEST_MESSAGE:
        raise ValueError('expected a size of at least "1KiB"')
    return octets


def door(value: object, base: Path) -> Door:
    """`"127.0.0.1:25"`, `"[::1]:25"`, `"tls://0.0.0.0:465"`, `"unix:/run/mta/submit.sock"`; every interface only as
    `0.0.0.0` or `[::]`."""
    given = text(value)
    if given.startswith("unix:"):
        return Door(scheme=Scheme.UNIX, path=socket_path(given.removeprefix("unix:"), base))
    scheme = Scheme.TLS if given.startswith("tls://") else Scheme.SMTP
    host, colon, port = given.removeprefix("tls://").rpartition(":")
    if not colon or host in ("", "*", "[]"):
        raise ValueError(
            'expected an address and a port such as "127.0.0.1:25" or "[::1]:25" (inside TLS "tls://0.0.0.0:465"), or '
            '"unix:/run/mta/submit.sock"; to listen on every interface say "0.0.0.0:25"'
        )
    return Door(_host(host), _port(port), scheme)


def nameserver(value: object) -> Endpoint:
    """As a listen address, but port 53 may be left out."""
    given = text(value)
    if _is_bare_host(given):
        return Endpoint(_host(given), 53)
    host, _, port = given.rpartition(":")
    return Endpoint(_host(host), _port(port))


def _is_bare_host(given: str) -> bool:
    return given.endswith("]") or ":" not in given


def _host(given: str) -> str:
    """An IP address, IPv6 in brackets."""
    bracketed = given.startswith("[") and given.endswith("]")
    try:
        address = ipaddress.ip_address(given[1:-1] if bracketed else given)
    except ValueError:
        raise ValueError('expected an IP address, as in "127.0.0.1:25" or "[::1]:25"') from None
    if (address.version == 6) != bracketed:
        raise ValueError('expected brackets around an IPv6 address, and only there, such as "[::1]:25"')
    return str(address)


def _port(given: str) -> int:
    if not _PORT.match(given) or not 1 <= int(given) <= 65535:
        raise ValueError("expected a port from 1 to 65535")
    return int(given)


def network(value: object) -> IpNetwork:
    """`"127.0.0.0/8"`, `"::1/128"`; an IPv4-mapped network is the IPv4 one that it means."""
    given = text(value)
    try:
        found = ipaddress.ip_network(given)
    except ValueError as error:
        if "host bits" not in str(error):
            raise ValueError('expected a network such as "127.0.0.0/8" or "::1/128"') from None
        meant = ipaddress.ip_network(given, strict=False)
        raise ValueError(f'expected a network without host bits, such as "{meant}"') from None
    if isinstance(found, ipaddress.IPv6Network) and found.subnet_of(_MAPPED):
        low = int(found.network_address) & 0xFFFFFFFF
        return ipaddress.IPv4Network((low, found.prefixlen - 96))
    return found


def hostname(value: object) -> str:
    """What EHLO may say (RFC 5321 section 4.1.1.1): a domain name without a final dot, or an address literal."""
    given = text(value)
    try:
        check_domain(given)
    except AddressError as error:
        hint = "" if given.isascii() else f"; its A-labels are {_a_labels(given)}"
        raise ValueError(f'expected a full name such as "mail.example.com", or "[192.0.2.1]" ({error}{hint})') from None
    if _is_ip(given):
        raise ValueError(f'expected brackets around an address: "[{given}]"')
    return given


def _a_labels(given: str) -> str:
    try:
        return f'"{parse_domain(given)}"'
    except AddressError:
        return "not to be had"


def domain(value: object) -> str:
    """A domain name, in lower case."""
    given = hostname(value).lower()
    if given.startswith("["):
        raise ValueError('expected a domain name such as "example.com"')
    return given


def full_domain(value: object) -> str:
    """A domain name of at least two labels, in lower case: what a record for others stands under."""
    given = domain(value)
    if "." not in given:
        raise ValueError('expected a full domain name such as "example.com"')
    return given


def sender_domain(value: object) -> str:
    """A domain name in lower case, or `*.` and one: what lies below it."""
    given = text(value)
    below = given.startswith("*.")
    return f"*.{domain(given[2:])}" if below else domain(given)


def user_name(value: object) -> str:
    given = text(value)
    if not is_user_name(given):
        raise ValueError(BAD_NAME)
    return given


def is_user_name(given: str) -> bool:
    return _USER.match(given) is not None


def rate(value: object) -> tuple[int, float]:
    """How many, and in how many seconds: `"100/1m"`."""
    match = _RATE.match(text(value))
    if match is None or not int(match[1]):
        raise ValueError('expected a number and a duration such as "100/1m"')
    return int(match[1]), duration(match[2])


def match(value: object) -> str:
    """Which destinations: a domain in lower case, `*.` and one for all below it, `*` for all."""
    return "*" if value == "*" else sender_domain(value)


def sharing(value: object) -> bool | str:
    """Who shares limits: nobody, all, or those with the same mail servers."""
    if isinstance(value, bool) or value == "mx":
        return value if isinstance(value, bool) else "mx"
    raise ValueError('expected true, false or "mx"')


def selector(value: object) -> str:
    given = text(value).lower()
    if not _SELECTOR.match(given):
        raise ValueError('expected the selector of a DKIM key, such as "2026" (letters, digits, hyphens, dots)')
    return given


def source(value: object) -> str:
    """An address of this machine."""
    given = text(value)
    if not _is_ip(given) or ipaddress.ip_address(given).is_unspecified:
        raise ValueError('expected an IP address of this machine, such as "192.0.2.5"')
    return str(ipaddress.ip_address(given))


def via(value: object) -> Relay | None:
    """`smtp://[user@]host[:port]` (TLS by STARTTLS), `smtps://` (TLS from the first octet), or `mx`, which is None."""
    given = text(value)
    if given == "mx":
        return None
    parts = _VIA.match(given)
    if parts is None or not _is_relay_host(parts["host"]):
        raise ValueError('expected "smtp://user@relay.example.net:587", "smtps://..." or "mx"')
    if ":" in (parts["user"] or ""):
        raise Unsaid('expected no password in a URL: it belongs into a file that the key "password" names')
    user = unquote(parts["user"] or "")
    if not user.isprintable() or "\ufffd" in user:
        raise ValueError("expected a user of printable characters, in UTF-8 where they are percent-encoded")
    implicit = parts["scheme"].lower() == "smtps"
    port = _port(parts["port"]) if parts["port"] else (465 if implicit else 587)
    return Relay(parts["host"].strip("[]").lower(), port, user, implicit)


def _is_relay_host(given: str) -> bool:
    if given.startswith("["):
        return _is_ip(given[1:-1])
    return _is_ip(given) or (_HOST_NAME.match(given) is not None)


def _is_ip(given: str) -> bool:
    try:
        ipaddress.ip_address(given)
    except ValueError:
        return False
    return True


def address(value: object) -> str:
    """A mailbox with its domain."""
    try:
        parsed = parse_address(text(value))
    except AddressError as error:
        raise ValueError(f'expected an address such as "ann@example.com" ({error})') from None
    if not parsed.domain:
        raise ValueError('expected an address with its domain, such as "ann@example.com"')
    return str(parsed)


def addresses(value: object) -> tuple[str, ...]:
    """One address, or a list of them."""
    if isinstance(value, list) and value:
        return tuple(address(item) for item in value)
    if isinstance(value, list):
        raise ValueError("expected at least one address")
    return (address(value),)


def alias_name(value: object) -> str:
    """The part before the `@`, in lower case, or `*`."""
    given = text(value)
    try:
        parsed = parse_address(given) if given != "*" else None
    except AddressError as error:
        raise ValueError(f'expected a name such as "root", or "*" ({error})') from None
    if parsed and parsed.domain:
        raise ValueError(f'expected the name alone: "{parsed.local_part}"')
    return given.lower()


def command(value: object) -> tuple[str, ...]:
    """A program and its arguments, for no shell; [] is none."""
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise ValueError('expected a list of words such as ["/usr/local/bin/page", "--now"]')
    if value and not value[0].startswith("/"):
        raise ValueError(f'expected the program with its whole path, not "{value[0]}"')
    return tuple(value)


def webhook(value: object) -> str:
    """`"https://..."`; without TLS only to this machine. No user name: a secret belongs into the path, where the log
    leaves it out."""
    given = text(value)
    if not _URL.match(given):
        raise ValueError('expected a URL such as "https://hooks.example.com/mta"')
    try:
        parts = urlsplit(given)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"expected a URL ({error})") from None
    if not host or "@" in parts.netloc:
        raise ValueError('expected a host and no user name, such as "https://hooks.example.com/mta"')
    if parts.scheme == "http" and not _is_this_machine(host):
        raise ValueError('expected "https:" ("http:" goes to localhost alone)')
    return given


def _is_this_machine(host: str) -> bool:
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def spool_path(value: object, base: Path) -> Path:
    """The file in `sqlite:/abs/path` or `sqlite:relative`."""
    scheme, _, rest = text(value).partition(":")
    if scheme in ("postgresql", "postgres"):
        raise ValueError(f'{scheme}: is not built in yet; expected "sqlite:/var/lib/mta/spool.db"')
    if scheme != "sqlite" or not rest or rest.startswith("//") or rest.endswith("/") or "\0" in rest:
        raise ValueError('expected "sqlite:" and a file, such as "sqlite:/var/lib/mta/spool.db"')
    return base / rest


def secret_file(value: object, base: Path) -> str:
    """A file, or `"credential:NAME"`, which the service manager has put where the environment says."""
    given = text(value)
    kind, colon, name = given.partition(":")
    if colon and kind == CREDENTIAL:
        if not _CREDENTIAL_NAME.match(name):
            raise ValueError('expected the name of a credential, such as "credential:mail.key"')
        return given
    if not given or given.endswith("/") or "\0" in given:
        raise ValueError('expected a file such as "/etc/mta/mail.pem", or "credential:mail.pem"')
    return str(base / given)


def file_mode(value: object) -> int:
    given = text(value)
    if not _MODE.match(given):
        raise ValueError('expected a mode such as "0660"')
    return int(given, 8)


def file_path(value: object, base: Path) -> Path:
    given = text(value)
    if not given or given.endswith("/") or "\0" in given:
        raise ValueError('expected a file such as "/etc/mta/users"')
    return base / given


def socket_path(value: object, base: Path) -> Path:
    given = text(value)
    if not given or given.endswith("/") or "\0" in given:
        raise ValueError('expected a path such as "/run/mta/control.sock"')
    path = base / given
    if len(bytes(path)) > SOCKET_PATH_LIMIT:
        raise ValueError(f"expected a path of at most {SOCKET_PATH_LIMIT} octets, with all its folders")
    return path
