"""A name server for destinations without number, by UDP: `python -m tests.bench.tools.name_server HOST PORT ADDRESS
[DOMAIN=ADDRESS ...]`.

Every DOMAIN.test has the mail server mx.DOMAIN.test, at the address given for it or else at ADDRESS; nothing else exists.
It is quick, so that it takes little of what is measured: it puts octets together itself (RFC 1035 section 4.1).
"""

import socket
import struct
import sys
from collections.abc import Mapping

A, MX = 1, 15
ANSWER, NXDOMAIN = 0x8580, 3
"""QR, AA, RD and RA; a name that does not exist."""
TTL = 300
_QUESTION = b"\xc0\x0c"
"""A pointer to the question's name."""


def answer(query: bytes, otherwise: str, hosts: Mapping[str, str]) -> bytes:
    labels, end = _labels(query, 12)
    kind = int.from_bytes(query[end : end + 2], "big")
    exists = labels[-1:] == [b"test"] and not labels[0].startswith(b"_")
    value = _value(labels, kind, otherwise, hosts) if exists else None
    flags = ANSWER | (0 if exists else NXDOMAIN)
    head = struct.pack(">HHHHH", flags, 1, value is not None, value is None, 0)
    record = _SOA if value is None else _record(_QUESTION, kind, value)
    return query[:2] + head + query[12 : end + 4] + record


def _value(labels: list[bytes], kind: int, otherwise: str, hosts: Mapping[str, str]) -> bytes | None:
    is_server = labels[0] == b"mx"
    if kind == MX and not is_server:
        return b"\0\x0a\x02mx" + _QUESTION
    if kind == A and is_server:
        return socket.inet_aton(hosts.get(b".".join(labels[1:]).decode("ascii", "replace"), otherwise))
    return None


def _labels(data: bytes, at: int) -> tuple[list[bytes], int]:
    """A name that is not compressed, in lower case, and where it ends."""
    labels = []
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].lower())
        at += 1 + length
    return labels, at + 1


def _record(name: bytes, kind: int, value: bytes) -> bytes:
    return name + struct.pack(">HHIH", kind, 1, TTL, len(value)) + value


_SOA = _record(b"\x04test\0", 6, b"\0\0" + struct.pack(">IIIII", 1, 3600, 600, 86400, TTL))
"""What negative answers last by (RFC 2308)."""


def main(host: str, port: str, otherwise: str, *hosts: str) -> None:
    known = dict(it.split("=") for it in hosts)
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        sock.bind((host, int(port)))
        print("ready", flush=True)
        while True:
            query, client = sock.recvfrom(4096)
            sock.sendto(answer(query, otherwise, known), client)


if __name__ == "__main__":
    main(*sys.argv[1:])
