"""Names and the data of records, read from a message's octets (RFC 1035 sections 3.3 and 4.1.4, 3596, 6698).

Rules: a pointer leads back, and no name is read in more steps than one can have labels and pointers to them; data end where
their record says. All else is `Malformed`, or past the end of the message, an IndexError or struct.error. What is read is
what the ports speak of, ready to be remembered.
"""

import socket
from collections.abc import Callable, Hashable, Mapping
from struct import Struct as Layout

from mta.dns.names import Name, in_text
from mta.model.tls import Tlsa
from mta.ports.names import MailExchanger

IN = 1
A, CNAME, SOA, PTR, MX, TXT, AAAA, OPT, TLSA = 1, 5, 6, 12, 15, 16, 28, 41, 52
_STEPS = 255
"""Labels of one octet each, as many as a name holds, with a pointer between any two, and the end."""
_LONGEST = 255
_POINTER = 0xC0
_FOUR = Layout("!I")


class Malformed(ValueError):
    """Octets that are no message; says why."""


def read_name(wire: bytes, at: int) -> tuple[Name, int]:
    """The name at a place, in lower case, and where what stands there ends."""
    labels: list[bytes] = []
    least, end = at, 0
    for _ in range(_STEPS):
        length = wire[at]
        if not length:
            name = b"".join(labels).lower() + b"\0"
            if len(name) > _LONGEST:
                break
            return name, end or at + 1
        if length < 64:
            labels.append(wire[at : at + 1 + length])
            at += 1 + length
        elif length >= _POINTER:
            end = end or at + 2
            at = (length & ~_POINTER) << 8 | wire[at + 1]
            if at >= least:
                raise Malformed("a name's pointer does not lead back")
            least = at
        else:
            raise Malformed("a label of an unknown kind")
    raise Malformed("a name is too long")


def _only_name(wire: bytes, at: int, end: int) -> Name:
    name, its_end = read_name(wire, at)
    if its_end != end:
        raise Malformed("a name is not all of the data")
    return name


def _pointer(wire: bytes, at: int, end: int) -> str:
    return in_text(_only_name(wire, at, end))


def _exchanger(wire: bytes, at: int, end: int) -> MailExchanger:
    return MailExchanger(int.from_bytes(wire[at : at + 2]), _pointer(wire, at + 2, end))


def _address_4(wire: bytes, at: int, end: int) -> str:
    if end - at != 4:
        raise Malformed("an A record of another length")
    return socket.inet_ntoa(wire[at:end])


def _address_6(wire: bytes, at: int, end: int) -> str:
    if end - at != 16:
        raise Malformed("an AAAA record of another length")
    return socket.inet_ntop(socket.AF_INET6, wire[at:end])


def _text(wire: bytes, at: int, end: int) -> str:
    """Its strings, joined."""
    strings = []
    while at < end:
        strings.append(wire[at + 1 : at + 1 + wire[at]])
        at += 1 + wire[at]
    if at != end or not strings:
        raise Malformed("a string of a TXT record is cut off")
    return b"".join(strings).decode("utf-8", "backslashreplace")


def _tlsa(wire: bytes, at: int, end: int) -> Tlsa:
    if end - at < 3:
        raise Malformed("a TLSA record is cut off")
    return Tlsa(wire[at], wire[at + 1], wire[at + 2], wire[at + 3 : end])


def _minimum(wire: bytes, at: int, end: int) -> int:
    """A SOA's last number: how long what does not exist is remembered, in seconds (RFC 2308 section 4)."""
    for _ in range(2):
        _, at = read_name(wire, at)
    if end - at != 5 * _FOUR.size:
        raise Malformed("a SOA record of another length")
    minimum: int = _FOUR.unpack_from(wire, end - _FOUR.size)[0]
    return minimum


READERS: Mapping[int, Callable[[bytes, int, int], Hashable]] = {
    A: _address_4, AAAA: _address_6, MX: _exchanger, TXT: _text, PTR: _pointer, TLSA: _tlsa, CNAME: _only_name,
    SOA: _minimum,
}  # fmt: skip
"""By type, what reads the data that stand from a place to an end."""
