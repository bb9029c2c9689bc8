"""From an address to a session whose greeting was read (RFC 5321 sections 3.1, 4.3.1)."""

import asyncio
import errno
import os
import ssl

from mta.model.outcome import Observation, Phase, Seen
from mta.model.reply import finding
from mta.model.tls import TlsDemand
from mta.ports.smtp import NO_SUCH_SOURCE, Timeouts
from mta.smtp.dialogue import Client, complaint, unanswered
from mta.smtp.inbox import Inbox
from mta.smtp.replies import observation
from mta.smtp.session import SmtpSession, handshake_failed
from mta.smtp.verification import Contexts, Trust


class SmtpConnector:
    """`ports.smtp.Connector` over TCP. `hostname` is what we call ourselves in EHLO; a name that is none for others
    (`laptop`, `localhost`) gives way to the address literal of the connection (RFC 5321 sections 2.3.5 and 4.1.4). `trust`
    as in `Contexts`."""

    def __init__(self, hostname: str, timeouts: Timeouts, trust: Trust = ssl.SSLContext.load_default_certs) -> None:
        self._hostname, self._timeouts = hostname, timeouts
        self._contexts = Contexts(trust)

    async def connect(
        self, host: str, address: str, port: int, *, source: str = "", demand: TlsDemand | None = None
    ) -> tuple[SmtpSession | None, Observation]:
        inbox = Inbox()
        tls = (self._contexts.of(demand), demand.server_name or host) if demand is not None else None
        client = Client(address, port, self._timeouts, inbox, source=source, tls=tls)
        error = await complaint(client.connect())
        if client.tcp is None:
            return None, self._unreachable(error, source)
        if tls is not None and not client.secured:
            client.tcp.abort()
            return None, handshake_failed(error)
        greeting = observation(Phase.BANNER, inbox.take() or unanswered(error, self._timeouts.greeting))
        if greeting.seen is not Seen.REPLY or (greeting.reply is not None and greeting.reply.code == 421):
            client.tcp.abort()
            return None, greeting
        name = self._hostname if "." in self._hostname else _literal(client.tcp) or self._hostname
        session = SmtpSession(client, inbox, host, (address, port), name, self._timeouts, self._contexts)
        if demand is not None and (proof := session.prove(demand)).seen is not Seen.REPLY:
            return None, proof
        return session, greeting

    def _unreachable(self, error: Exception | None, source: str) -> Observation:
        number = getattr(error, "errno", None)
        if source and number == errno.EADDRNOTAVAIL:
            text = f"{source}, the source address of the route, is not to be had on this machine"
            return Observation(Phase.CONNECT, Seen.LOST, finding(NO_SUCH_SOURCE, text))
        if isinstance(error, TimeoutError) and number is None:
            text = f"no connection within {self._timeouts.connect:g} s"
            return Observation(Phase.CONNECT, Seen.TIMEOUT, finding("4.4.1", text))
        text = os.strerror(number) if number else str(error)
        return Observation(Phase.CONNECT, Seen.LOST, finding("4.4.1", text))


def _literal(tcp: asyncio.Transport) -> str:
    """Our end of the connection as an address literal, "" where it has none."""
    name = tcp.get_extra_info("sockname")
    if not isinstance(name, tuple):
        return ""
    address = str(name[0]).partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"
