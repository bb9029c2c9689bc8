"""Who is measured: our daemon and others, each on its own folder of the same disk, set up for the same work."""

import random
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from tests.bench.processes import Tool
from tests.bench.traffic import SINK
from tests.support.ports import free_port

LISTEN = "127.0.0.1"
HOSTNAME = "mail.bench.test"
DNS_PORT = 53


@dataclass(frozen=True, slots=True)
class Setup:
    """What peers are set up for. Every destination listens at `port`: those of `hosts`, by domain, at the address given, all
    others at the sink's. `is_held`: they accept and do not deliver. `by_dns`: they all ask the name server for the way; else
    only ours does, as others relay to a fixed host faster without. `ours` are further tables of our configuration, `postfix`
    lines of Postfix's."""

    port: int
    hosts: Mapping[str, str] = field(default_factory=dict)
    is_held: bool = False
    by_dns: bool = False
    ours: Mapping[str, Any] = field(default_factory=dict)
    postfix: Mapping[str, str] = field(default_factory=dict)


class Peer(Protocol):
    """Runs while its context lasts."""

    name: str
    endpoint: tuple[str, int]

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...

    @property
    def pid(self) -> int:
        """The process that the others of this peer descend from."""
        ...

    def cpu_seconds(self) -> float | None:
        """What all its processes have used; None where this machine can't tell."""
        ...


P = TypeVar("P", bound=Peer)
Kind = Callable[[Path, tuple[str, int], Setup, str], P]
"""Makes one of a folder, where it is to listen, what it is set up for, and the address of its name server."""


@asynccontextmanager
async def running(kinds: Sequence[Kind[P]], folder: Path, setup: Setup | Sequence[Setup]) -> AsyncIterator[list[P]]:
    """One of each kind, on a setup of its own or all on the same, each with a name server."""
    setups = [setup] * len(kinds) if isinstance(setup, Setup) else setup
    async with AsyncExitStack() as stack:
        peers: list[P] = []
        for kind, one in zip(kinds, setups, strict=True):
            name_server = _free_name_server()
            hosts = [f"{domain}={address}" for domain, address in one.hosts.items()]
            await stack.enter_async_context(Tool("name_server", name_server, str(DNS_PORT), SINK, *hosts))
            own = folder / f"peer{len(peers)}"
            own.mkdir(parents=True)
            peer = kind(own, (LISTEN, free_port()), one, name_server)
            await peer.__aenter__()
            stack.push_async_exit(peer)
            peers.append(peer)
        yield peers


def _free_name_server() -> str:
    """An address of this machine with nobody at port 53: what is in a resolv.conf has no other port."""
    while True:
        address = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            try:
                sock.bind((address, DNS_PORT))
            except OSError:
                continue
            return address
