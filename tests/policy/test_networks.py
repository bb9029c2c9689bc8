import ipaddress

import pytest

from mta.policy.networks import Standing, plain, standing

PRIVATE = [
    "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.1.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "::1", "fc00::1", "fdff::1", "fec0::1", "64:ff9b:1::808:808",
]  # fmt: skip
NO_HOST = ["0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "fe80::1", "ff02::1"]
PUBLIC = ["8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.2.1", "223.255.255.255", "2001:db8::1", "2a00::1"]
CARRIERS = ["::ffff:{v4}", "::{v4}", "64:ff9b::{v4}", "2002:{hex}::1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((address, Standing.PRIVATE) for address in PRIVATE),
        *((address, Standing.NO_HOST) for address in NO_HOST),
        *((address, Standing.PUBLIC) for address in PUBLIC),
    ],
)
def test_every_network_of_table_b(text: str, expected: Standing) -> None:
    assert standing(ipaddress.ip_address(text)) is expected


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("10.1.2.3", Standing.PRIVATE),
        ("127.0.0.1", Standing.PRIVATE),
        ("224.0.0.1", Standing.NO_HOST),
        ("8.8.8.8", Standing.PUBLIC),
    ],
)
def test_an_ipv4_address_inside_is_judged_by_itself(carrier: str, inner: str, expected: Standing) -> None:
    number = f"{int(ipaddress.IPv4Address(inner)):08x}"
    text = carrier.format(v4=inner, hex=f"{number[:4]}:{number[4:]}")
    assert standing(ipaddress.ip_address(text)) is expected


def test_a_mapped_address_is_the_ipv4_one() -> None:
    assert str(plain("::ffff:192.0.2.1")) == "192.0.2.1"
    assert str(plain("2001:DB8::1")) == "2001:db8::1"
