"""What is given to the daemon: time, randomness, name service, the network, and who is told.

Protocols and the values they exchange, no implementations. Real ones are built by `app`, simulated ones by the tests.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from mta.model.envelope import MailClass
from mta.model.events import Fact
from mta.model.outcome import Observation, Verdict
from mta.model.tls import OPPORTUNISTIC, StsPolicy, Tlsa, TlsDemand, TlsResult


class Clock(Protocol):
    """Wall time. Waits use the event loop, whose clock is monotonic."""

    def now(self) -> float:
        """Seconds since the epoch, UTC; may step."""
        ...


class Randomness(Protocol):
    """What is used of `random.Random`."""

    def random(self) -> float: ...
    def uniform(self, a: float, b: float) -> float: ...
    def getrandbits(self, k: int) -> int: ...
    def shuffle(self, x: list[object]) -> None: ...


class Passwords(Protocol):
    """Says whether a password is right; it takes its time, and nobody else's."""

    async def fits(self, password: str, hashed: str) -> bool | None:
        """Whether `hashed` was made of `password`; None: too many ask at once. May raise where it can't be found out."""
        ...


class Entropy(Protocol):
    """One independent stream per purpose, so that a new use of chance does not disturb the others."""

    def stream(self, purpose: str) -> Randomness: ...


Observer = Callable[[Fact], None]
"""Is told every fact; must not raise or block."""


# ---------------------------------------------------------------- name service
class Lookup(StrEnum):
    """How a DNS question ended (the rows of Table B)."""

    FOUND = "found"
    NODATA = "nodata"
    """The name exists, no such record: a clean NOERROR."""
    NXDOMAIN = "nxdomain"
    TROUBLE = "trouble"
    """SERVFAIL, REFUSED, FORMERR, timeout, a CNAME loop: says nothing about the name."""
    MALFORMED = "malformed"
    """The name can't be asked for (too long, an empty label, no A-label)."""


@dataclass(frozen=True, slots=True)
class MailExchanger:
    """An MX record: `host` without its final dot, "" for the root (RFC 7505)."""

    preference: int
    host: str


@dataclass(frozen=True, slots=True)
class MxAnswer:
    """The MX records of a domain, in no particular order; `detail` says what went wrong, in words. `secure`: it was
    validated by DNSSEC, also where it is a denial."""

    lookup: Lookup
    exchangers: tuple[MailExchanger, ...] = ()
    detail: str = ""
    secure: bool = False


@dataclass(frozen=True, slots=True)
class AddressAnswer:
    """A and AAAA of a host together: FOUND with what there is; TROUBLE if nothing was found and either question failed;
    NODATA or NXDOMAIN only if both ended cleanly. `secure`: all that was found was validated by DNSSEC; `canonical` is where
    the aliases of the name end, "" without any."""

    lookup: Lookup
    addresses: tuple[str, ...] = ()
    detail: str = ""
    secure: bool = False
    canonical: str = ""


@dataclass(frozen=True, slots=True)
class TlsaAnswer:
    lookup: Lookup
    records: tuple[Tlsa, ...] = ()
    detail: str = ""
    secure: bool = False


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """TXT records, the strings of each joined; or the names that PTR records have, without their final dot."""

    lookup: Lookup
    texts: tuple[str, ...] = ()
    detail: str = ""
    secure: bool = False


class Resolver(Protocol):
    """Never raises for what a name server does. What is said to be secure was validated by a server that is trusted to do
    so (RFC 7672 section 2.1)."""

    async def mail_exchangers(self, domain: str) -> MxAnswer: ...
    async def addresses(self, host: str) -> AddressAnswer: ...
    async def tlsa(self, host: str, port: int) -> TlsaAnswer:
        """Of `_port._tcp.host` (RFC 6698 section 3)."""
        ...

    async def texts(self, name: str) -> TextAnswer: ...
    async def names(self, address: str) -> TextAnswer:
        """The PTR records of an address."""
        ...


class Signer(Protocol):
    """A key for DKIM. `name` is "domain/selector", `algorithm` as in `a=`."""

    @property
    def name(self) -> str: ...
    @property
    def algorithm(self) -> str: ...
    def sign(self, data: bytes, /) -> bytes:
        """The same signature for the same octets. What it raises is its library's."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """What this machine's routing table says of some addresses: `own` are its own (whoever listens at 0.0.0.0 or ::
    listens there), `unroutable` those that it has no way to."""

    own: frozenset[str] = frozenset()
    unroutable: frozenset[str] = frozenset()


class StsPolicies(Protocol):
    async def of(self, domain: str) -> StsPolicy | None:
        """The MTA-STS policy that is in force for a domain, None where there is none (RFC 8461 section 3). Bounded in time;
        never raises for what a name server or web server does."""
        ...

    def known(self, domain: str) -> StsPolicy | None:
        """As far as it is known here, without asking anybody."""
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of asking a web server for a policy file: with SUCCESS its `text`, else why not."""

    result: TlsResult
    text: str = ""
    detail: str = ""


class FetchPolicy(Protocol):
    async def __call__(self, domain: str, allow_private: bool) -> Fetched:
        """The MTA-STS policy file of a domain (A-labels), as RFC 8461 section 3.3 has it. `allow_private`: from a web server
        in our own network too. Bounded in time and size; never raises for what a server does."""
        ...


Reachability = Callable[[Iterable[str]], Reach]
"""Looks at the moment's routing table; sends nothing."""


# ---------------------------------------------------------------- a person is called, beside mail
@dataclass(frozen=True, slots=True)
class Called:
    """Whether an alert was taken, and what there is to say of it: the answer, the beginning of a program's output."""

    taken: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Callers:
    """Both take a whole JSON document, are limited in time, and never raise for what is at the other end."""

    run: Callable[[Sequence[str], bytes], Awaitable[Called]]
    """Runs a program (words, for no shell) with the document on its standard input; taken: it exited with 0."""
    post: Callable[[str, bytes], Awaitable[Called]]
    """POSTs the document to a URL; taken: the answer was 2xx."""


# ---------------------------------------------------------------- outbound SMTP
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


# ---------------------------------------------------------------- between the scheduler and a delivery
class DeliveryOutcome(Struct, frozen=True):
    """What a delivery came to, as far as its destination is concerned. `idle`: nothing was due. `trouble`: the verdict that
    befell the destination as a whole, on mail of `mail_class`; `rest` in seconds, where it is known how long. `contents`:
    how often content was sent. `crowded`: how many connections were open beside one that a server refused as one too
    many, 0 where none did; `refusal` is what it said."""

    idle: bool = False
    trouble: Verdict | None = None
    mail_class: MailClass = MailClass.NORMAL
    rest: float | None = None
    contents: int = 1
    crowded: int = 0
    refusal: str = ""


class Deliver(Protocol):
    async def deliver(
        self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
    ) -> DeliveryOutcome:
        """Delivers the next claim of a class at `destination`; calls `claimed` when it has one, with the instant at which
        the next is due (`Claim.following`)."""
        ...

    async def tell_overdue(self, destination: str, verdict: Verdict) -> None:
        """Settles what can't wait any longer at a destination that rests after `verdict`."""
        ...
