"""Outbound SMTP: sessions, how they are opened and kept."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from mta.model.outcome import Observation
from mta.model.tls import OPPORTUNISTIC, TlsDemand

LOGIN_MECHANISMS = ("PLAIN", "LOGIN")
"""By which `Session.authenticate` can log in, the best first."""


class EnvelopeReplies(Struct, frozen=True):
    """The replies to one MAIL, its RCPTs in order, and DATA. Those not asked for, because the one before decided, are
    missing: `rcpts` may be shorter than the recipients, `data` None."""

    mail: Observation
    rcpts: tuple[Observation, ...]
    data: Observation | None


class Session(Protocol):
    """One outbound session, stage by stage. No method raises for what the peer or the network does; each returns an
    `Observation` (or several). Only a bug, or an error of `gate` or of the content, raises; the session is aborted then.

    Timeouts are per command (RFC 5321 section 4.5.3.2) and total per reply, not per octet. After LOST, TIMEOUT or
    MALFORMED the session is unusable."""

    @property
    def host(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def endpoint(self) -> tuple[str, int]:
        """Its address and port."""
        ...

    @property
    def tls(self) -> str:
        """Protocol and cipher, "" in clear."""
        ...

    @property
    def verified(self) -> str:
        """How the server has proved who it is: "dane", "pkix", "" not at all."""
        ...

    demand: TlsDemand
    """What it was opened under; whoever opens it says so."""

    @property
    def extensions(self) -> Mapping[str, str]:
        """Keyword in upper case -> parameters, of the latest EHLO reply of this connection; empty after HELO."""
        ...

    @property
    def usable(self) -> bool:
        """In step, connected, nothing unexpected has arrived: may carry another transaction."""
        ...

    @property
    def transactions(self) -> int:
        """How many MAIL commands this session has carried."""
        ...

    @property
    def opened_at(self) -> float:
        """When the greeting was read, by the event loop's clock."""
        ...

    async def hello(self, verb: str) -> Observation:
        """EHLO or HELO. The phase of the observation is EHLO, HELO or (EHLO inside TLS) EHLO_TLS."""
        ...

    async def starttls(self, demand: TlsDemand = OPPORTUNISTIC) -> Observation:
        """STARTTLS and the handshake, in which the server proves what `demand` asks. Phase STARTTLS when the command was not
        answered 220, else TLS: LOST where it has not proved it, and the connection is closed."""
        ...

    async def authenticate(self, user: str, password: str) -> Observation:
        """AUTH, by one of `LOGIN_MECHANISMS`, which the server must offer; inside TLS alone, else it raises. Phase AUTH; no
        text that comes back holds the password."""
        ...

    async def envelope(
        self,
        reverse_path: str,
        parameters: Sequence[str],
        forward_paths: Sequence[str],
        *,
        pipelined: bool,
        rcpt_parameters: Sequence[Sequence[str]] = (),
        chunked: bool = False,
    ) -> EnvelopeReplies:
        """MAIL, RCPT each, DATA: in one write if `pipelined`, else one at a time, DATA only after an accepted RCPT, and not
        at all if `chunked`.
        `parameters` are those of MAIL, `rcpt_parameters` those of each RCPT (none at all, or one sequence
        for each forward path)."""
        ...

    async def content(self, chunks: AsyncIterator[bytes], gate: Callable[[], Awaitable[None]]) -> Observation:
        """Sends the content (dot-stuffed here), awaits `gate` when all of it was written, then sends the final dot if the
        session is still sound. Phase BODY: no octet of the dot was sent. Phase FINAL: it was."""
        ...

    async def chunks(
        self, content: AsyncIterator[bytes], gate: Callable[[], Awaitable[None]], *, pipelined: bool
    ) -> Observation:
        """Sends the content by BDAT, after a `chunked` envelope with an accepted RCPT: all chunks but the last, then, if
        they were accepted, awaits `gate` and sends the last one. Phase BDAT: no octet of the last one, or of its command,
        was sent. Phase FINAL: it was."""
        ...

    async def no_content(self) -> None:
        """A lone final dot, for a 354 that came although no recipient was accepted (RFC 2920 section 3.1)."""
        ...

    async def reset(self) -> Observation: ...

    async def quit(self) -> None:
        """QUIT with a short wait of its own, then close. Its outcome means nothing."""
        ...

    def abort(self) -> None:
        """Close at once, without QUIT."""
        ...


class Connector(Protocol):
    async def connect(
        self, host: str, address: str, port: int, *, source: str = "", demand: TlsDemand | None = None
    ) -> tuple[Session | None, Observation]:
        """TCP, with a `demand` TLS from the first octet (RFC 8314 section 3.3), and greeting. Phase CONNECT or TLS with LOST
        or TIMEOUT, else phase BANNER. With a session whenever the connection is open and in step. `source` is where to
        connect from, "" wherever; where this machine has no such address, the reply's status is `NO_SUCH_SOURCE`."""
        ...


NO_SUCH_SOURCE = "4.3.5"
"""RFC 3463: the system is incorrectly configured."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds, each for one stage (RFC 5321 section 4.5.3.2). `command` is for EHLO, STARTTLS, the handshake, MAIL, RCPT
    and RSET; `data` for each write of the content to be taken by the peer, and for the reply to a chunk of it."""

    connect: float = 30
    greeting: float = 300
    command: float = 300
    data_init: float = 120
    data: float = 180
    final: float = 600
    quit: float = 5


class Share(Struct, frozen=True):
    """With whom a hop shares its limits (`name`): connections at once, transactions of each (None: the usual)."""

    name: str
    sessions: int
    transactions: int | None = None


class Sessions(Protocol):
    """The connections of each destination: how many there may be, together with those that it shares its limits with, and
    those that are open between two transactions. Where mail goes by a relay, the hop of its route stands for the
    destination."""

    def open(self, destination: str) -> int:
        """How many connections there are that are not ending, with those of all that it shares its limits with."""
        ...

    async def room(self, destination: str) -> None:
        """Waits until one more connection fits, and counts it until `gone`, or until its session has ended. What is ending
        still counts: a server that limits connections sees it too."""
        ...

    def gone(self, destination: str) -> None:
        """The connection that `room` was for has come to nothing."""
        ...

    def take(self, destination: str) -> Session | None:
        """A usable session, or None. It is the caller's until `give` or `dismiss`."""
        ...

    def give(self, destination: str, session: Session) -> None:
        """Keeps `session` for the next transaction; one that is not usable or has done its share is dismissed."""
        ...

    def dismiss(self, destination: str, session: Session) -> None:
        """Ends it in the background: QUIT if it is in step, else at once."""
        ...
