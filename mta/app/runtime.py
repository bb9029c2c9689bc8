"""What the real world gives the daemon: the clock, chance, the network, the spool. A simulation gives others."""

import asyncio
import hashlib
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from mta.alerts.program import run_program
from mta.alerts.webhook import post
from mta.app.certificate import Certificate, system_certificate
from mta.app.relay_passwords import RelayPasswords, system_relay_passwords
from mta.app.settings import doubts, hostname
from mta.app.signing import SigningKeys, system_keys
from mta.config.load import named
from mta.config.model import Config
from mta.dns.reachability import look
from mta.dns.resolver import DnsResolver
from mta.doorbell import Doorbell
from mta.listener.server import BACKLOG, Listen, ListeningServer, SessionFactory
from mta.passwords import Argon2Passwords
from mta.ports.names import Resolver
from mta.ports.smtp import Connector
from mta.ports.sts import FetchPolicy
from mta.ports.system import Callers, Clock, Entropy, Passwords, Reachability
from mta.smtp.connector import SmtpConnector
from mta.spool.base import Recovered, Spool
from mta.spool.process.client import SpoolProcess, open_in_process
from mta.sts.fetch import PolicyServers


def named_here(config: Config) -> Config:
    """With this machine's name, where the configuration has none. Raises `ConfigError`."""
    return config if config.hostname else named(config, socket.getfqdn())


class SystemClock:
    """The machine's wall clock."""

    now = staticmethod(time.time)


class SystemEntropy:
    """Streams from one seed that nobody knows; a given seed gives the same streams again."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._seed = seed if seed is not None else secrets.token_bytes(32)

    def stream(self, purpose: str) -> random.Random:
        return random.Random(hashlib.sha256(self._seed + purpose.encode()).digest())  # noqa: S311 - no secret is drawn


@dataclass(frozen=True, slots=True)
class Runtime:
    """The world around one run of the daemon. `open_spool` opens it when the daemon starts; the others are there.
    `spool_ended` waits until the spool has gone by itself, and raises how. `watches_loop`: time goes by while the loop is at
    work, so that it can be late."""

    clock: Clock
    entropy: Entropy
    resolver: Resolver
    reachability: Reachability
    connector: Connector
    listen: Listen
    callers: Callers
    open_spool: Callable[[], Awaitable[tuple[Spool, Recovered]]]
    certificate: Callable[[Config], Certificate] = system_certificate
    relay_passwords: Callable[[Config], RelayPasswords] = system_relay_passwords
    passwords: Passwords | None = None
    signing_keys: Callable[[Config], SigningKeys] = system_keys
    fetch_policy: FetchPolicy | None = None
    spool_ended: Callable[[], Coroutine[object, object, None]] | None = None
    watches_loop: bool = False


async def listen(
    protocol_factory: SessionFactory,
    host: str | None = None,
    port: int | None = None,
    *,
    sock: socket.socket | None = None,
    backlog: int = BACKLOG,
) -> ListeningServer:
    """The running loop's `create_server`, or `create_unix_server`: at an address, or at a socket that was opened for us."""
    loop = asyncio.get_running_loop()
    if sock is not None and sock.family == socket.AF_UNIX:
        return await loop.create_unix_server(protocol_factory, sock=sock, backlog=backlog)
    if sock is not None:
        return await loop.create_server(protocol_factory, sock=sock, backlog=backlog)
    return await loop.create_server(protocol_factory, host, port or 0, backlog=backlog)


def system_runtime(config: Config, process: SpoolProcess) -> Runtime:
    """The real world, for a daemon of this configuration, with `process` for its spool. Call it in the running loop."""
    clock = SystemClock()

    async def open_spool() -> tuple[Spool, Recovered]:
        return await open_in_process(
            process,
            config.spool.path,
            doubts=doubts(config),
            now=clock.now(),
            doorbell=Doorbell(),
            min_free=config.spool.min_free,
            by_sender=config.lanes.fair_by == "sender",
        )

    resolver = DnsResolver(config.dns.nameservers, config.dns.timeout, config.dns.trust_ad)
    return Runtime(
        clock=clock,
        entropy=SystemEntropy(),
        resolver=resolver,
        reachability=look,
        connector=SmtpConnector(hostname(config), config.delivery.timeouts),
        listen=listen,
        callers=Callers(run_program, post),
        open_spool=open_spool,
        passwords=Argon2Passwords(),
        fetch_policy=PolicyServers(resolver),
        spool_ended=process.end,
        watches_loop=True,
    )
