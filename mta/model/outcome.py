"""What was observed on a connection and what it means: failures are values.

An `Observation` is a fact of one phase of the SMTP conversation. `policy.classify` turns it into a `Ruling`: what to do
now (`Action`, `Change`) and, where something is decided, the `Verdict`.
"""

from enum import Enum, StrEnum

from msgspec import Struct

from mta.model.reply import Reply
from mta.model.tls import TlsResult


class Phase(StrEnum):
    """Where in the conversation (RFC 5321 section 4.3.2; the rows of Table A)."""

    ROUTE = "route"
    """Before any connection: name service and what it leads to (the rows of Table B)."""
    CONNECT = "connect"
    BANNER = "banner"
    EHLO = "ehlo"
    HELO = "helo"
    STARTTLS = "starttls"
    TLS = "tls"
    EHLO_TLS = "ehlo-tls"
    AUTH = "auth"
    """At a relay that we log in at (RFC 4954)."""
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    BODY = "body"
    """Text is being sent; no octet of the end marker was handed to TCP."""
    BDAT = "bdat"
    """Chunks are being sent; no octet of the last one was handed to TCP (RFC 3030)."""
    FINAL = "final"
    """The final dot, or the last chunk, was handed to TCP."""
    RSET = "rset"
    QUIT = "quit"


class Seen(StrEnum):
    """The kind of a fact."""

    REPLY = "reply"
    """A well-formed reply, or for CONNECT and TLS the success (then without a reply)."""
    MALFORMED = "malformed"
    """Octets that are no reply; `reply` keeps their text."""
    LOST = "lost"
    """Refused, unreachable, EOF or reset; in TLS a failed handshake."""
    TIMEOUT = "timeout"


class Observation(Struct, frozen=True):
    """One fact. `reply` is the server's reply; for MALFORMED, LOST and TIMEOUT a reply without code that says what
    happened. `tls`, in the phase TLS alone: what was wrong with the server's proof of who it is, None: nothing, or the
    handshake did not come that far."""

    phase: Phase
    seen: Seen
    reply: Reply | None = None
    tls: TlsResult | None = None


class Disposition(StrEnum):
    DELIVERED = "delivered"
    TRANSIENT = "transient"
    PERMANENT = "permanent"


class Scope(StrEnum):
    """What the damage reaches."""

    RECIPIENT = "recipient"
    TRANSACTION = "transaction"
    SESSION = "session"
    """This connection or host; another host of the destination may do better."""
    DESTINATION = "destination"


class Verdict(Struct, frozen=True):
    """What an observation decides for the recipients in its scope. `status` is an RFC 3463 code; `reply` is what the
    server said or what we found. `in_doubt`: the final dot went out and its reply was not read (RFC 1047)."""

    disposition: Disposition
    scope: Scope
    status: str
    reply: Reply
    phase: Phase
    in_doubt: bool = False


class Action(Enum):
    """The actions of Table A."""

    GO = "proceed"
    SAME = "the same host again now, with one stated change"
    NEXT = "close, next address, then next MX, in the same attempt"
    DEFER_D = "the whole destination waits"
    DEFER_R = "only these recipients wait"
    FAIL_R = "this recipient is final-failed"
    FAIL_M = "all recipients of the transaction without a verdict are final-failed"
    DOUBT = "outcome unknown"
    DROP = "discard the session; verdicts already recorded stand"


class Change(StrEnum):
    """What is different when the same host is tried again (Action.SAME)."""

    HELO = "helo"
    """HELO instead of EHLO, on this connection."""
    RECONNECT_HELO = "reconnect-helo"
    """A new connection, HELO first."""
    CLEAR = "clear"
    """Go on without TLS on this connection."""
    RECONNECT_CLEAR = "reconnect-clear"
    """A new connection, without STARTTLS."""
    UNVERIFIED = "unverified"
    """A new connection, encrypted with whoever it is."""
    WITHOUT_PARAMETERS = "without-parameters"
    """RSET, then the transaction again without optional parameters."""
    WITH_TLS = "with-tls"
    """STARTTLS first."""
    RESET = "reset"
    """RSET, then the transaction again."""
    UNPIPELINED = "unpipelined"
    """A new connection, one command at a time."""
    WITH_DATA = "with-data"
    """A new connection, the content by DATA."""
    NEXT_TRANSACTION = "next-transaction"
    """These recipients go into the next transaction at once (452 4.5.3)."""


class Ruling(Struct, frozen=True):
    """What to do about an observation. `change` is set with SAME alone, `verdict` with all but GO and SAME (with DROP
    and NEXT it says what the host gets blamed for)."""

    action: Action
    change: Change | None = None
    verdict: Verdict | None = None
