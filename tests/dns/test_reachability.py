import errno
import socket

import pytest

from mta.dns.reachability import look


def test_loopback_is_own_and_routable() -> None:
    reach = look(["127.0.0.1", "127.0.0.2", "::ffff:127.0.0.2"])
    assert reach.own == {"127.0.0.1", "127.0.0.2", "::ffff:127.0.0.2"}
    assert not reach.unroutable


def test_what_no_machine_has_a_route_to() -> None:
    reach = look(["fe80::1", "255.255.255.255", "127.0.0.1"])
    assert reach.unroutable == {"fe80::1", "255.255.255.255"}


def test_a_family_that_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, kind)

    real = socket.socket
    monkeypatch.setattr("mta.dns.reachability.socket.socket", without_ipv6)
    assert look(["2001:db8::1", "127.0.0.1"]).unroutable == {"2001:db8::1"}


def test_want_of_descriptors_says_nothing_about_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: int) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("mta.dns.reachability.socket.socket", exhausted)
    reach = look(["192.0.2.1"])
    assert not reach.own
    assert not reach.unroutable
