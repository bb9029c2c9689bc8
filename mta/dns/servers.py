"""The name servers, and which of them is worth asking first.

Rules: the given order holds among the healthy; one that stayed silent or could not be reached goes behind them for
`REST`, after which a single question tries it again, so that a dead first server costs one question's wait each `REST`
and not every question's. Nobody is left out: with all of them silent, all are asked. The system's list is read again
from time to time, since a machine may start before its network is configured.
"""

from collections.abc import Callable, Sequence

import dns.exception
import dns.inet
import dns.resolver

from mta.dns.exchange import Server

REST = 30.0
"""Seconds that a silent server stands behind the others."""
REREAD = 30.0
"""Seconds that the system's list is taken to be current."""
_LOCAL: tuple[Server, ...] = (("127.0.0.1", 53),)


class NameServers:
    """`read` gives the list, at most each `REREAD` seconds; `now` is always the event loop's time."""

    def __init__(self, read: Callable[[], Sequence[Server]]) -> None:
        self._read = read
        self._list: tuple[Server, ...] = ()
        self._read_again_at = 0.0
        self._resting: dict[Server, float] = {}

    def in_order(self, now: float) -> list[Server]:
        """The servers, best first. The one whose rest is over is in its old place for this question alone."""
        self._refresh(now)
        waiting = [server for server in self._list if self._resting.get(server, now) > now]
        ordered = [server for server in self._list if server not in waiting] + waiting
        for server in self._resting:
            if server not in waiting:
                self._resting[server] = now + REST
        return ordered

    def failed(self, server: Server, now: float) -> None:
        self._resting[server] = now + REST

    def answered(self, server: Server) -> None:
        self._resting.pop(server, None)

    def _refresh(self, now: float) -> None:
        if not self._list or now >= self._read_again_at:
            self._list = tuple(self._read())
            self._read_again_at = now + REREAD
            self._resting = {server: until for server, until in self._resting.items() if server in self._list}


def system_servers(path: str = "/etc/resolv.conf") -> Sequence[Server]:
    """The name servers of resolv.conf(5); as there, the local machine's where none is named."""
    try:
        found = dns.resolver.Resolver(filename=path)
    except (dns.exception.DNSException, OSError, ValueError):
        return _LOCAL
    addresses = [server for server in found.nameservers if isinstance(server, str) and dns.inet.is_address(server)]
    return [(address, found.port) for address in addresses] or _LOCAL
