"""The way out: whether the servers of a domain, or a relay, can be spoken to from here, and how well (RFC 5321 sections 3.1
and 5.1; RFC 3207; RFC 7672; RFC 8461). Nothing is sent but EHLO, STARTTLS and QUIT."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from mta.doctor.findings import Finding, Level
from mta.model.outcome import Disposition, Observation, Phase, Seen, Verdict
from mta.model.tls import TlsDemand, TlsPolicy
from mta.policy.candidates import Candidate
from mta.policy.tls import Plan, in_words
from mta.ports.smtp import Connector, Session

HOSTS_AT_MOST = 3
PATIENCE = 30.0
"""Seconds for one server and all that is tried with it; several are looked at together."""
WANTED = ("SIZE", "8BITMIME", "PIPELINING", "CHUNKING", "SMTPUTF8", "DSN", "REQUIRETLS", "AUTH")
"""What is told of an EHLO reply."""

Planner = Callable[[Candidate], Awaitable[Plan]]
"""How a session with a candidate would be encrypted."""


@dataclass(frozen=True, slots=True)
class WayOut:
    connector: Connector

    async def look(
        self, destination: str, candidates: Sequence[Candidate] | Verdict, plan: Planner
    ) -> list[Finding]:
        """`candidates` as they would be tried."""
        about = f"the way to {destination}"
        if isinstance(candidates, Verdict) and candidates.disposition is Disposition.TRANSIENT:
            what = f"can't be found now: {candidates.reply}"
            return [Finding(Level.WARNING, about, what, "see that the name servers answer ([dns] nameservers)")]
        if isinstance(candidates, Verdict):
            return [Finding(Level.FAILURE, about, f"there is none: {candidates.reply}", "see that the name is right")]
        hosts = list(dict.fromkeys(it.host for it in candidates))
        found = [Finding(Level.OK, about, f"leads to {', '.join(hosts)}")]
        tried = [next(it for it in candidates if it.host == host) for host in hosts[:HOSTS_AT_MOST]]
        reached = await asyncio.gather(*(self._look_in_time(it, plan) for it in tried))
        for findings in reached:
            found += findings
        if all(findings[0].level is Level.FAILURE for findings in reached):
            advice = (
                f"if port {tried[0].port} is closed for you, as at most clouds, ask for it to be opened or send by a relay "
                "([[route]])"
            )
            found.append(Finding(Level.FAILURE, about, "none of its servers can be spoken to", advice))
        return found

    async def _look_in_time(self, candidate: Candidate, plan: Planner) -> list[Finding]:
        about = f"{candidate.host} ({candidate.address}, port {candidate.port})"
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._look_at_host(about, candidate, await plan(candidate))
        except TimeoutError:
            what = f"is too slow: not all of it could be looked at within {PATIENCE:g} s"
            return [Finding(Level.FAILURE, about, what, "try again; mail is given more time")]

    async def _look_at_host(self, about: str, candidate: Candidate, plan: Plan) -> list[Finding]:
        session, observation = await self._connect(candidate, plan.demand)
        if session is None or not _accepts(observation):
            if session is not None:
                await session.quit()
            return [_unreached(about, observation)]
        try:
            return await self._greet(about, candidate, session, plan)
        finally:
            await session.quit()

    async def _connect(self, candidate: Candidate, demand: TlsDemand) -> tuple[Session | None, Observation]:
        implicit = candidate.relay is not None and candidate.relay.implicit_tls
        return await self.connector.connect(
            candidate.host,
            candidate.address,
            candidate.port,
            source=candidate.source,
            demand=demand if implicit else None,
        )

    async def _greet(self, about: str, candidate: Candidate, session: Session, plan: Plan) -> list[Finding]:
        seen = await session.hello("EHLO")
        if not _accepts(seen):
            advice = "see what it says of our name or address"
            return [Finding(Level.FAILURE, about, f"refuses our EHLO: {seen.reply}", advice)]
        offered = [word for word in WANTED if word in session.extensions]
        found = [Finding(Level.OK, about, f"answers; it offers {', '.join(offered) or 'no extension'}")]
        if session.tls:
            return [*found, Finding(Level.OK, f"TLS at {candidate.host}", f"{session.tls}, from the first octet")]
        return [*found, await self._encrypt(candidate, plan, offered="STARTTLS" in session.extensions)]

    async def _encrypt(self, candidate: Candidate, plan: Plan, *, offered: bool) -> Finding:
        """On connections of their own: a certificate that is refused ends one."""
        about = f"TLS at {candidate.host}"
        if plan.refusal is not None:
            return Finding(Level.FAILURE, about, f"no mail would be sent there: {plan.refusal.reply.text}", _ASK)
        if not offered:
            return _without_tls(about, plan)
        strict = plan.demand if plan.demand.verified else TlsDemand(TlsPolicy.CONFIGURED, True, names=(candidate.host,))
        tls, trouble = await self._handshake(candidate, strict)
        if tls:
            held = f" ({in_words(strict, tls, 'verified')})" if plan.demand.verified else ""
            return Finding(Level.OK, about, f"{tls}, and the server has proved its name{held}")
        if plan.demand.required and plan.demand.verified:
            return Finding(Level.FAILURE, about, f"no mail would be sent there ({plan.demand.policy}): {trouble}", _ASK)
        tls, _ = await self._handshake(candidate, TlsDemand())
        if tls:
            return Finding(Level.NOTE, about, f"{tls}, but the certificate proves nothing: {trouble}")
        return Finding(Level.WARNING, about, f"fails: {trouble}", "mail goes in clear, and where TLS is required not at all")

    async def _handshake(self, candidate: Candidate, demand: TlsDemand) -> tuple[str, str]:
        """Protocol and cipher, or what went wrong."""
        session, seen = await self._connect(candidate, demand)
        if session is None:
            return "", str(seen.reply)
        try:
            if _accepts(seen := await session.hello("EHLO")) and _accepts(seen := await session.starttls(demand)):
                return session.tls, ""
            return "", str(seen.reply)
        finally:
            await session.quit()


_ASK = "tell the administrator of that domain"


def _without_tls(about: str, plan: Plan) -> Finding:
    if plan.demand.required:
        return Finding(Level.FAILURE, about, f"is not offered, and is required ({plan.demand.policy})", _ASK)
    return Finding(Level.WARNING, about, "is not offered: mail goes in clear", "nothing to be done here")


def _accepts(seen: Observation) -> bool:
    code = seen.reply.code if seen.reply is not None else 200
    return seen.seen is Seen.REPLY and code is not None and code < 400


def _unreached(about: str, seen: Observation) -> Finding:
    if seen.phase is Phase.CONNECT:
        return Finding(Level.FAILURE, about, f"can't be reached: {seen.reply}", "see that nothing on the way forbids it")
    return Finding(Level.FAILURE, about, f"turns us away: {seen.reply}", "see what it says of our address")
