"""The way out: whether a server of a domain, or a relay, can be spoken to from here, and how well (RFC 5321 sections 3.1
and 5.1; RFC 3207). Nothing is sent but EHLO, STARTTLS and QUIT."""

from collections.abc import Sequence
from dataclasses import dataclass

from mta.doctor.findings import Finding, Level
from mta.model.outcome import Observation, Phase, Seen, Verdict
from mta.model.tls import TlsDemand, TlsPolicy
from mta.policy.routing import Candidate
from mta.ports import Connector, Session

HOSTS_AT_MOST = 3
WANTED = ("SIZE", "8BITMIME", "PIPELINING", "CHUNKING", "SMTPUTF8", "DSN", "REQUIRETLS")
"""What is told of an EHLO reply."""


@dataclass(frozen=True, slots=True)
class WayOut:
    connector: Connector

    async def look(self, destination: str, candidates: Sequence[Candidate] | Verdict, port: int) -> list[Finding]:
        """`candidates` as they would be tried."""
        about = f"the way to {destination}"
        if isinstance(candidates, Verdict):
            return [Finding(Level.FAILURE, about, f"there is none: {candidates.reply}")]
        hosts = list(dict.fromkeys(it.host for it in candidates))
        found = [Finding(Level.OK, about, f"leads to {', '.join(hosts)}")]
        tried = [next(it for it in candidates if it.host == host) for host in hosts[:HOSTS_AT_MOST]]
        reached = [await self._look_at_host(it, port) for it in tried]
        for findings in reached:
            found += findings
        if all(findings[0].level is Level.FAILURE for findings in reached):
            advice = (
                f"none of its servers can be reached: if port {port} is closed for you, as at most clouds, ask for it to be "
                "opened or send by a relay ([[route]])"
            )
            found.append(Finding(Level.FAILURE, about, "is closed", advice))
        return found

    async def _look_at_host(self, candidate: Candidate, port: int) -> list[Finding]:
        about = f"{candidate.host} ({candidate.address}, port {port})"
        session, observation = await self.connector.connect(candidate.host, candidate.address, port)
        if session is None or not _accepts(observation):
            if session is not None:
                await session.quit()
            return [_unreached(about, observation)]
        try:
            return await self._greet(about, candidate, session, port)
        finally:
            await session.quit()

    async def _greet(self, about: str, candidate: Candidate, session: Session, port: int) -> list[Finding]:
        seen = await session.hello("EHLO")
        if not _accepts(seen):
            advice = "see what it says of our name or address"
            return [Finding(Level.FAILURE, about, f"refuses our EHLO: {seen.reply}", advice)]
        offered = [word for word in WANTED if word in session.extensions]
        found = [Finding(Level.OK, about, f"answers; it offers {', '.join(offered) or 'no extension'}")]
        if "STARTTLS" not in session.extensions:
            return [*found, Finding(Level.WARNING, f"TLS at {candidate.host}", "is not offered: mail goes in clear")]
        return [*found, await self._encrypt(candidate, port)]

    async def _encrypt(self, candidate: Candidate, port: int) -> Finding:
        """On a connection of its own: a certificate that is refused ends it."""
        about = f"TLS at {candidate.host}"
        strict = TlsDemand(TlsPolicy.CONFIGURED, required=True, names=(candidate.host,))
        tls, trouble = await self._handshake(candidate, port, strict)
        if tls:
            return Finding(Level.OK, about, f"{tls}, and the certificate is valid for its name")
        tls, _ = await self._handshake(candidate, port, TlsDemand())
        if tls:
            return Finding(Level.NOTE, about, f"{tls}, but the certificate proves nothing: {trouble}")
        return Finding(Level.WARNING, about, f"fails: {trouble}", "mail goes in clear, and where TLS is required not at all")

    async def _handshake(self, candidate: Candidate, port: int, demand: TlsDemand) -> tuple[str, str]:
        """Protocol and cipher, or what went wrong."""
        session, seen = await self.connector.connect(candidate.host, candidate.address, port)
        if session is None:
            return "", str(seen.reply)
        try:
            for seen in (await session.hello("EHLO"), await session.starttls(demand)):
                if not _accepts(seen):
                    return "", str(seen.reply)
            return session.tls, ""
        finally:
            await session.quit()


def _accepts(seen: Observation) -> bool:
    code = seen.reply.code if seen.reply is not None else 200
    return seen.seen is Seen.REPLY and code is not None and code < 400


def _unreached(about: str, seen: Observation) -> Finding:
    if seen.phase is Phase.CONNECT:
        return Finding(Level.FAILURE, about, f"can't be reached: {seen.reply}")
    return Finding(Level.FAILURE, about, f"turns us away: {seen.reply}", "see what it says of our address")
