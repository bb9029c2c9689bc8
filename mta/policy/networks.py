"""Which IP addresses mail may be taken to.

What a stranger's MX record says must not lead into our own network, nor to what is no host at all. An IPv4 address that
is carried inside an IPv6 one is judged by itself, so that no notation gets around the table. Table B, the row of the
loopback, private and reserved addresses: RFC 6890 (special-purpose registries), RFC 6598 (shared space), RFC 4291
section 2.5.5 (mapped and compatible), RFC 6052 and 8215 (NAT64), RFC 3056 (6to4).
"""

import ipaddress
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from mta.model.address import IpAddress

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_REMEMBERED = 4096
"""Addresses whose standing is kept: each of a delivery's candidates is asked for it, mostly the same ones again."""


class Standing(StrEnum):
    """Where an address belongs; the value is the word for it."""

    PUBLIC = "public"
    PRIVATE = "private"
    """Loopback, link-local, private or shared: inside this machine or its surroundings."""
    NO_HOST = "no host's"
    """Unspecified, multicast, reserved, or of no use without a zone: never a mail server. A connection to 0.0.0.0 reaches
    this machine itself."""


def _networks(*texts: str) -> Mapping[int, tuple[_Network, ...]]:
    """By version."""
    networks = [ipaddress.ip_network(text) for text in texts]
    return {version: tuple(it for it in networks if it.version == version) for version in (4, 6)}


_NO_HOST = _networks("0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "::/128", "fe80::/10", "ff00::/8")
_PRIVATE = _networks(
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    *("::1/128", "fc00::/7", "fec0::/10", "64:ff9b:1::/48"),
)
_CARRIERS = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
"""Prefixes with an IPv4 address inside, and by how many bits it stands to the left of the end."""


@lru_cache(_REMEMBERED)
def standing(address: IpAddress) -> Standing:
    if _within(address, _NO_HOST):
        return Standing.NO_HOST
    if _within(address, _PRIVATE):
        return Standing.PRIVATE
    carried = _carried(address)
    return standing(carried) if carried is not None else Standing.PUBLIC


@lru_cache(_REMEMBERED)
def plain(text: str) -> IpAddress:
    """The address that a connection to `text` goes to: an IPv4-mapped one is the IPv4 one. Raises ValueError."""
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _within(address: IpAddress, networks: Mapping[int, Sequence[_Network]]) -> bool:
    for network in networks[address.version]:  # noqa: SIM110 - asked of each address, where any() costs as much again
        if address in network:
            return True
    return False


def _carried(address: IpAddress) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    for prefix, shift in _CARRIERS:
        if address in prefix:
            return ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return None
