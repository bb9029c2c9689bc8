"""What this machine's routing table says of an address, asked of the kernel.

A UDP `connect` sends no packet: it looks up the route, picks the source address, and fails when there is none. It is asked
for each address at each attempt rather than once at start: a network that comes up later, a private address without a
default route, and loopback are all judged rightly that way (RFC 5321 section 5.2, RFC 3974), and it costs some 20
microseconds. It also tells the machine's own addresses, which a listener at 0.0.0.0 or :: is at.
"""

import errno
import ipaddress
import socket
from collections.abc import Iterable
from functools import lru_cache

from mta.model.address import IpAddress
from mta.ports.system import Reach

_NOT_THE_ROUTE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors that say nothing about the address."""
_ANY_PORT = 25
"""A UDP connect wants one; it plays no part."""


def look(addresses: Iterable[str]) -> Reach:
    """A `ports.system.Reachability`."""
    sources = {address: source_to(address) for address in addresses}
    return Reach(
        own=frozenset(address for address, source in sources.items() if source and _is_own(address, source)),
        unroutable=frozenset(address for address, source in sources.items() if source is None),
    )


def source_to(address: str) -> str | None:
    """The address we would connect from; None where there is no way, "" where we can't tell."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, _ANY_PORT))
            return str(probe.getsockname()[0])
    except OSError as error:
        return "" if error.errno in _NOT_THE_ROUTE else None


def _is_own(address: str, source: str) -> bool:
    """The kernel takes an own address as the source to itself, and a loopback one to everything on loopback."""
    ours = _ours(source)
    if ":" not in address:
        return ours.is_loopback or address == source
    return ours.is_loopback or ours == _bare(address)


@lru_cache(maxsize=64)
def _ours(source: str) -> IpAddress:
    """The few addresses that we connect from."""
    return _bare(source)


def _bare(text: str) -> IpAddress:
    """An IPv4-mapped address as the IPv4 one it is."""
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
