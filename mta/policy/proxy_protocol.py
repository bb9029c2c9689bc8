"""What a proxy says of the client behind it: the header of the PROXY protocol, versions 1 and 2.

Rules: the header is whole and well-formed, or the connection is worth nothing; at most `LIMIT` octets are looked at. With
the command LOCAL (a health check) the proxy speaks for itself. Of a client that it can't name (UNKNOWN, another family than
IP) nothing is known, least of all that it has the proxy's address. What version 2 adds behind the addresses is passed over.
The protocol's document: haproxy, doc/proxy-protocol.txt, sections 2.1 and 2.2.
"""

import ipaddress
import re
from dataclasses import dataclass

from mta.model.address import IpAddress
from mta.policy.networks import plain

LIMIT = 4096
"""Octets of a header; its addresses end long before."""

_SIGNATURE_1 = b"PROXY "
_LIMIT_1 = 107
_LINE = re.compile(
    rb"PROXY (?:UNKNOWN(?: [ -~]*)?|TCP(?P<version>[46]) (?P<source>[0-9A-Fa-f:.]+) (?P<target>[0-9A-Fa-f:.]+) "
    rb"(?P<source_port>[0-9]{1,5}) (?P<target_port>[0-9]{1,5}))\r\n\Z"
)
_SIGNATURE_2 = b"\r\n\r\n\0\r\nQUIT\n"
_START_2 = 16
_LOCAL, _PROXIED = 0x20, 0x21
_ADDRESSES = {0x11: (4, 12), 0x21: (16, 36)}
"""Of TCP over IPv4 and IPv6: octets of an address, and of both with their ports."""


class ProxyHeaderError(Exception):
    """No header that can be used; the text says why."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """`length` octets long. `client`: its address, None where nothing is known of it; `is_local`: there is none, the proxy
    itself has connected."""

    length: int
    client: IpAddress | None = None
    is_local: bool = False


def read_header(data: bytes) -> ProxyHeader | None:
    """The header that `data` begins with; None while more is needed. Raises `ProxyHeaderError`."""
    if _SIGNATURE_2.startswith(data[: len(_SIGNATURE_2)]) and data:
        return _version_2(data)
    if _SIGNATURE_1.startswith(data[: len(_SIGNATURE_1)]):
        return _version_1(data)
    raise ProxyHeaderError("no PROXY header")


def _version_1(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _LIMIT_1)
    if end < 0:
        if len(data) >= _LIMIT_1:
            raise ProxyHeaderError("the PROXY header does not end")
        return None
    match = _LINE.match(data[: end + 2])
    if match is None:
        raise ProxyHeaderError("malformed PROXY header")
    if match["version"] is None:
        return ProxyHeader(end + 2)
    client, _ = (_address(match[name], int(match["version"])) for name in ("source", "target"))
    if max(int(match["source_port"]), int(match["target_port"])) > 0xFFFF:
        raise ProxyHeaderError("malformed port in the PROXY header")
    return ProxyHeader(end + 2, client)


def _address(text: bytes, version: int) -> IpAddress:
    try:
        address = ipaddress.ip_address(text.decode("ascii"))
    except ValueError:
        raise ProxyHeaderError("malformed address in the PROXY header") from None
    if address.version != version:
        raise ProxyHeaderError("an address of another family than the PROXY header says")
    return plain(str(address))


def _version_2(data: bytes) -> ProxyHeader | None:
    if len(data) < _START_2:
        return None
    command, family = data[12], data[13]
    length = _START_2 + int.from_bytes(data[14:16], "big")
    if command not in (_LOCAL, _PROXIED):
        raise ProxyHeaderError("unknown version or command in the PROXY header")
    if length > LIMIT:
        raise ProxyHeaderError(f"a PROXY header of more than {LIMIT} octets")
    if len(data) < length:
        return None
    if command == _LOCAL:
        return ProxyHeader(length, is_local=True)
    return ProxyHeader(length, _client_2(family, data[_START_2:length]))


def _client_2(family: int, addresses: bytes) -> IpAddress | None:
    if family not in _ADDRESSES:
        return None
    octets, both = _ADDRESSES[family]
    if len(addresses) < both:
        raise ProxyHeaderError("the PROXY header is too short for its addresses")
    return plain(str(ipaddress.ip_address(addresses[:octets])))
