"""The submission listener: where it listens, who may come in, how it stops.

Rules: a client too many hears 421 and may come again; one that may not submit hears 554 (RFC 5321 sections 3.1 and 3.8;
the interface's `allow`), unless there are users: it may be one of them (RFC 6409 section 4.3). On stop nobody new comes
in, idle sessions hear 421, content on its way may arrive until the deadline, and a commit that has begun is answered
(section 3.8: 421 stands for a message that was not taken). Who has to bring a PROXY header or TLS first, and is one too
many, is closed: no reply would be understood.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from mta.listener.entrance import Entrance
from mta.listener.gate import Gate, source
from mta.listener.intake import Intake
from mta.listener.protocol import SubmissionSession
from mta.listener.resend import resend
from mta.listener.settings import ListenerSettings
from mta.model.address import IpAddress
from mta.model.door import Door, Scheme
from mta.model.reply import Reply
from mta.policy.trace import Client
from mta.ports.system import Clock, Entropy, Observer, Passwords
from mta.spool.base import MessageView, Spool
from mta.suppressions import Suppressions
from mta.unix_socket import UnixSocket, listening

BACKLOG = 512
STRANGERS_SHARE = 2
"""One in so many sessions may be with clients that have yet to authenticate."""
CLIENTS_SHARE = 2
"""One in so many of those may be with the same client."""
GRACE = 2.0
"""Seconds for last replies and running commits when a stop's deadline has passed."""

_BIND_ERRORS = {
    errno.EADDRINUSE: "is taken by another program (`ss -ltnp` says which)",
    errno.EADDRNOTAVAIL: "is no address of this machine",
    errno.EACCES: "is not permitted: ports below 1024 need root or CAP_NET_BIND_SERVICE",
}
_BARRED = Reply(554, "5.7.1", "No mail is accepted from your address")


class ListeningServer(Protocol):
    """What is used of `asyncio.Server`."""

    @property
    def sockets(self) -> Sequence[socket.socket]: ...
    def close(self) -> None: ...


class Listen(Protocol):
    """The event loop's `create_server`, or a stand-in."""

    def __call__(
        self,
        protocol_factory: "SessionFactory",
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        backlog: int = BACKLOG,
    ) -> Awaitable[ListeningServer]: ...


class SessionFactory(Protocol):
    def __call__(self) -> asyncio.BaseProtocol: ...


class Listener:
    """`settings` may be replaced: sessions to come go by the new ones, and in those that are open who may submit does. A
    certificate may not be taken away from a TLS door."""

    def __init__(
        self,
        settings: ListenerSettings,
        spool: Spool,
        clock: Clock,
        entropy: Entropy,
        observer: Observer,
        listen: Listen,
        passwords: Passwords | None = None,
        suppressions: Suppressions | None = None,
    ) -> None:
        self._spool = spool
        self._intake = Intake(spool, clock, entropy, observer, suppressions)
        self._gate = Gate(settings, passwords, clock.now, self._intake.trouble)
        self._listen = listen
        self._servers: list[tuple[Door, ListeningServer]] = []
        self._files: list[UnixSocket] = []
        self._sessions: dict[SubmissionSession, None] = {}
        self._entering: dict[Entrance, None] = {}
        """Each in the order in which they came."""
        self._stops = False

    @property
    def settings(self) -> ListenerSettings:
        return self._gate.settings

    @settings.setter
    def settings(self, new: ListenerSettings) -> None:
        self._gate.settings = new

    async def start(
        self, doors: Iterable[Door], sockets: Iterable[tuple[Scheme, socket.socket]] = (), *, socket_mode: int = 0o660
    ) -> None:
        """Listens at doors, and at sockets that were opened for us. `socket_mode` is that of unix sockets' files. Raises
        OSError or `SocketTaken`, whose text is for a person; then at none."""
        self._stops = False
        try:
            for door in doors:
                self._servers.append((door, await self._listen_at(door, socket_mode)))
            for scheme, sock in sockets:
                server = await self._listen(self._factory(scheme), sock=sock, backlog=BACKLOG)
                self._servers.append((Door(scheme=scheme), server))
        except Exception:
            self._close()
            raise

    async def _listen_at(self, door: Door, socket_mode: int) -> ListeningServer:
        if door.scheme is Scheme.UNIX:
            file = listening(door.path, "submission.listen: unix socket", socket_mode, BACKLOG)
            self._files.append(file)
            return await self._listen(self._factory(door.scheme), sock=file.sock, backlog=BACKLOG)
        try:
            return await self._listen(self._factory(door.scheme), door.host, door.port, backlog=BACKLOG)
        except OSError as error:
            why = _BIND_ERRORS.get(error.errno or 0, error.strerror or str(error))
            raise OSError(f"submission.listen: {door} {why}") from error

    @property
    def doors(self) -> tuple[Door, ...]:
        """Where it listens."""
        return tuple(place(door, sock.getsockname()) for door, server in self._servers for sock in server.sockets)

    @property
    def endpoints(self) -> tuple[tuple[str, int], ...]:
        """The addresses and ports listened at: no mail may be delivered there."""
        return tuple((door.host, door.port) for door in self.doors if door.scheme is not Scheme.UNIX)

    async def resend(self, view: MessageView, key: str) -> str:
        """As `listener.resend`, with the settings of now."""
        return await resend(self._spool, self._intake, view, key, self.settings)

    @property
    def sessions(self) -> int:
        return len(self._sessions) + len(self._entering)

    async def stop(self, timeout: float) -> None:
        """Ends all sessions, within `timeout` seconds and a little more. Then what a client was told is so."""
        self._stops = True
        self._close()
        for entrance in tuple(self._entering):
            entrance.close()
        for session in tuple(self._sessions):
            session.drain()
        await self._wait_for_sessions(timeout)
        for session in tuple(self._sessions):
            session.cut_short()
        await self._wait_for_sessions(GRACE)

    def _close(self) -> None:
        for _, server in self._servers:
            server.close()
        for file in self._files:
            file.remove()
        self._servers.clear()
        self._files.clear()

    async def _wait_for_sessions(self, timeout: float) -> None:
        if self._sessions:
            await asyncio.wait([session.over for session in self._sessions], timeout=timeout)

    # ------------------------------------------------ sessions
    def _factory(self, scheme: Scheme) -> SessionFactory:
        return partial(self._protocol, scheme)

    def _protocol(self, scheme: Scheme) -> asyncio.BaseProtocol:
        """For a client of whom nothing is known yet."""
        settings = self.settings
        if scheme is Scheme.UNIX or (scheme is Scheme.SMTP and not settings.proxies):
            return self._session()
        context = settings.tls if scheme is Scheme.TLS else None
        return Entrance(
            lambda it: settings.trusts_as_proxy(it.peer), context, self._entered, self._session, self._left
        )

    def _session(self, origin: Client | None = None) -> SubmissionSession:
        loop = asyncio.get_running_loop()
        return SubmissionSession(self.settings, self._intake, self._gate, self._admit, self._gone, loop, origin)

    def _entered(self, entrance: Entrance) -> bool:
        is_full = self._stops or self.sessions >= self.settings.max_connections
        may_wait = not is_full and (self.settings.admits(entrance.peer) or self._takes_stranger(entrance.peer))
        self._entering[entrance] = None
        return may_wait

    def _left(self, entrance: Entrance, origin: Client, why: str) -> None:
        self._entering.pop(entrance, None)
        if why:
            self._intake.closed(origin.name, why)

    def _admit(self, session: SubmissionSession, client: Client, is_trusted: bool) -> Reply | None:
        """None, or the greeting for one that can't be served."""
        refusal = self._refusal(client, is_trusted)
        if refusal is not None:
            self._intake.turned_away(client.name, refusal, "connection")
        self._sessions[session] = None
        return refusal

    def _gone(self, session: SubmissionSession) -> None:
        self._sessions.pop(session, None)

    def _refusal(self, client: Client, is_trusted: bool) -> Reply | None:
        if self._stops:
            return Reply(421, "4.3.2", f"{self.settings.hostname} Service is shutting down, closing connection")
        if self.sessions >= self.settings.max_connections:
            return Reply(421, "4.3.2", f"{self.settings.hostname} Too many connections, closing connection")
        if is_trusted:
            return None
        if not self._takes_stranger(client.peer):
            return Reply(421, "4.3.2", f"{self.settings.hostname} Too many connections, closing connection")
        return None if self.settings.users else _BARRED

    def _takes_stranger(self, peer: IpAddress | None) -> bool:
        """Whether there is room for one more that may not submit, or not yet: they may not take all the places from those
        who may, nor one of them all of theirs from the others. Behind a proxy that has not named them are many."""
        strangers = [it.peer for it in self._entering if not self.settings.admits(it.peer)]
        strangers += [session.peer for session in self._sessions if not session.may_submit]
        room = max(self.settings.max_connections // STRANGERS_SHARE, 1)
        if len(strangers) >= room or peer is None or self.settings.trusts_as_proxy(peer):
            return len(strangers) < room
        own = source(peer)
        return sum(source(it) == own for it in strangers) < max(room // CLIENTS_SHARE, 1)


def place(door: Door, name: object) -> Door:
    """With what a socket says where it is; a unix socket's file was moved since it was bound."""
    if isinstance(name, tuple):
        return Door(name[0], name[1], door.scheme)
    return door if door.path.name else Door(scheme=door.scheme, path=Path(str(name)))
