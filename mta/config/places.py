"""Values of the configuration that are places on the network: text in, checked values out.

Rules: those of `config.fields`.
"""

import ipaddress
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mta.config.fields import is_ip
from mta.config.paths import socket_path, text
from mta.model.door import Door, Scheme

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORT = re.compile(r"[0-9]{1,5}\Z")
_URL = re.compile(r"https?://[!-~]+\Z")
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


class Endpoint(NamedTuple):
    """An IP address and a port; equal to the pair."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def door(value: object, base: Path) -> Door:
    """`"127.0.0.1:25"`, `"[::1]:25"`, `"tls://0.0.0.0:465"`, `"unix:/run/mta/submit.sock"`; every interface only as
    `0.0.0.0` or `[::]`."""
    given = text(value)
    if given.startswith("unix:"):
        return Door(scheme=Scheme.UNIX, path=socket_path(given.removeprefix("unix:"), base))
    scheme = Scheme.TLS if given.startswith("tls://") else Scheme.SMTP
    host, colon, number = given.removeprefix("tls://").rpartition(":")
    if not colon or host in ("", "*", "[]"):
        raise ValueError(
            'expected an address and a port such as "127.0.0.1:25" or "[::1]:25" (inside TLS "tls://0.0.0.0:465"), or '
            '"unix:/run/mta/submit.sock"; to listen on every interface say "0.0.0.0:25"'
        )
    return Door(_host(host), port(number), scheme)


def nameserver(value: object) -> Endpoint:
    """As a listen address, but port 53 may be left out."""
    given = text(value)
    if _is_bare_host(given):
        return Endpoint(_host(given), 53)
    host, _, number = given.rpartition(":")
    return Endpoint(_host(host), port(number))


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


def port(given: str) -> int:
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


def source(value: object) -> str:
    """An address of this machine."""
    given = text(value)
    if not is_ip(given) or ipaddress.ip_address(given).is_unspecified:
        raise ValueError('expected an IP address of this machine, such as "192.0.2.5"')
    return str(ipaddress.ip_address(given))


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
    return host == "localhost" or (is_ip(host) and ipaddress.ip_address(host).is_loopback)
