"""The PROXY protocol's header, versions 1 and 2."""

import ipaddress
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.policy.proxy_protocol import LIMIT, ProxyHeader, ProxyHeaderError, read_header

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
ANN = ipaddress.ip_address("192.0.2.7")
BOB = ipaddress.ip_address("2001:db8::7")


def version_2(command: int, family: int, addresses: bytes) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(addresses)) + addresses


def both(source: str, target: str = "", extra: bytes = b"") -> bytes:
    """Addresses and ports as version 2 has them."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    packed = socket.inet_pton(family, source) + socket.inet_pton(family, target or source)
    return packed + struct.pack("!HH", 1234, 25) + extra


WHOLE = [
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 1234 25\r\n", ANN),
    (b"PROXY TCP6 2001:db8::7 2001:db8::1 1234 25\r\n", BOB),
    (b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 1234 25\r\n", ANN),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None),
    (version_2(0x21, 0x11, both("192.0.2.7")), ANN),
    (version_2(0x21, 0x21, both("2001:db8::7")), BOB),
    (version_2(0x21, 0x21, both("::ffff:192.0.2.7")), ANN),
    (version_2(0x21, 0x11, both("192.0.2.7", extra=b"\x04\x00\x03abc")), ANN),
    (version_2(0x21, 0x00, b""), None),
    (version_2(0x21, 0x31, b"\0" * 216), None),
    (version_2(0x21, 0x12, both("192.0.2.7")), None),
]


@pytest.mark.parametrize(("header", "client"), WHOLE)
def test_the_client_is_named_and_what_comes_behind_is_left(header: bytes, client: object) -> None:
    assert read_header(header + b"EHLO a\r\n") == ProxyHeader(len(header), client)  # type: ignore[arg-type]


@pytest.mark.parametrize("header", [header for header, _ in WHOLE])
def test_it_is_waited_for_to_its_last_octet(header: bytes) -> None:
    assert [read_header(header[:length]) for length in range(len(header))] == [None] * len(header)


def test_a_health_check_is_the_proxy_s_own() -> None:
    for family, addresses in ((0, b""), (0x11, both("192.0.2.7"))):
        header = version_2(0x20, family, addresses)
        assert read_header(header) == ProxyHeader(len(header), None, is_local=True)


@pytest.mark.parametrize(
    "data",
    [
        b"EHLO client.test\r\n",
        b"\x16\x03\x01",
        b"proxy TCP4 192.0.2.7 198.51.100.1 1234 25\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1234 25\n\r\n",
        b"PROXY TCP4  192.0.2.7 198.51.100.1 1234 25\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1234\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 1234 65536\r\n",
        b"PROXY TCP4 192.0.2.777 198.51.100.1 1234 25\r\n",
        b"PROXY TCP4 2001:db8::7 2001:db8::1 1234 25\r\n",
        b"PROXY TCP6 192.0.2.7 198.51.100.1 1234 25\r\n",
        b"PROXY UDP4 192.0.2.7 198.51.100.1 1234 25\r\n",
        b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n",
        b"PROXY " + b"x" * 200,
        version_2(0x11, 0x11, both("192.0.2.7")),
        version_2(0x22, 0x11, both("192.0.2.7")),
        version_2(0x21, 0x11, b"\xc0\0\2\7"),
        version_2(0x21, 0x21, both("192.0.2.7")),
        version_2(0x21, 0x11, b"\0" * LIMIT),
    ],
)
def test_all_else_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        read_header(data)


@given(st.one_of(st.binary(max_size=400), st.binary(max_size=300).map(lambda it: SIGNATURE + it),
                 st.binary(max_size=120).map(lambda it: b"PROXY " + it)))  # fmt: skip
def test_nothing_else_is_raised_and_the_answer_does_not_depend_on_what_follows(data: bytes) -> None:
    try:
        header = read_header(data)
    except ProxyHeaderError:
        return
    if header is None:
        assert len(data) < LIMIT
    else:
        assert header.length <= len(data)
        assert read_header(data + b"more") == header == read_header(data[: header.length])


@given(st.ip_addresses(), st.booleans())
def test_every_address_arrives(address: ipaddress.IPv4Address | ipaddress.IPv6Address, binary: bool) -> None:
    if binary:
        header = version_2(0x21, 0x11 if address.version == 4 else 0x21, both(str(address)))
    else:
        header = f"PROXY TCP{address.version} {address} {address} 1 2\r\n".encode()
    found = read_header(header)
    assert found is not None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    assert found.client == (mapped or address)
