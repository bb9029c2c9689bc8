"""How the session with each candidate is to be encrypted: asks the resolver and the MTA-STS policies, `policy.tls` decides;
tells what came of it (RFC 7672, RFC 8461, RFC 8460 section 4.3).

Rules: whatever is published is asked for anew with each candidate, so that a policy holds from the moment it is known; the
resolver and `StsPolicies` keep what they know. Every session that is tried, and every host that is skipped, is one fact.
"""

import asyncio
from dataclasses import dataclass, field

from mta.model.events import Encrypted
from mta.model.tls import StsMode, StsPolicy, TlsResult
from mta.policy.candidates import Candidate
from mta.policy.destinations import Destinations
from mta.policy.tls import Needs, Peer, Plan, asks_sts, asks_tlsa, meets, plan, tlsa_bases
from mta.ports.names import Lookup, Resolver, TlsaAnswer
from mta.ports.smtp import Session
from mta.ports.sts import StsPolicies
from mta.ports.system import Observer


@dataclass(frozen=True, slots=True)
class SecurityRules:
    """`dane`: TLSA records are followed wherever DNSSEC vouches for them, not only where the configuration demands it."""

    destinations: Destinations = field(default_factory=Destinations)
    dane: bool = True


@dataclass(slots=True)
class Security:
    """`policies` None: MTA-STS is not followed. `rules` and `policies` may be replaced."""

    resolver: Resolver
    policies: StsPolicies | None
    rules: SecurityRules
    observer: Observer

    async def plan(self, destination: str, candidate: Candidate, port: int, needs: Needs) -> Plan:
        """Tells of a host that is to be skipped; of others whoever opens the session."""
        level = self.rules.destinations.rule(destination).tls
        base, tlsa = "", None
        sts = self._sts(destination) if asks_sts(level, needs, destination) else _no_policy()
        if asks_tlsa(level, needs, secure=candidate.secure, dane=self.rules.dane):
            (base, tlsa), policy = await asyncio.gather(self._tlsa(candidate, port), sts)
        else:
            policy = await sts
        peer = Peer(destination, candidate.host, level, candidate.secure_name, candidate.secure, base, tlsa, policy)
        found = plan(peer, needs)
        if found.refusal is not None and found.flaw is not None and needs.counted:
            self.tell(destination, candidate, found, found.flaw, found.refusal.reply.text)
        return found

    def is_enough(self, session: Session, destination: str, *, relayed: bool) -> bool:
        """A policy may have come to be known since it was opened; at a relay none is looked at."""
        level = self.rules.destinations.rule(destination).tls
        sts = self.policies.known(destination) if self.policies is not None and not relayed else None
        return meets(level, session.tls, session.verified, enforced=sts is not None and sts.mode is StsMode.ENFORCE)

    async def _tlsa(self, candidate: Candidate, port: int) -> tuple[str, TlsaAnswer | None]:
        """Of the first name that has records, or can't be asked."""
        answer = TlsaAnswer(Lookup.NODATA)
        base = candidate.host
        for base in tlsa_bases(candidate.host, candidate.canonical):
            answer = await self.resolver.tlsa(base, port)
            if answer.lookup not in (Lookup.NODATA, Lookup.NXDOMAIN):
                break
        return base, answer

    async def _sts(self, destination: str) -> StsPolicy | None:
        return await self.policies.of(destination) if self.policies is not None else None

    def tell(self, destination: str, candidate: Candidate, planned: Plan, result: TlsResult, detail: str = "") -> None:
        """How encryption went; at an address literal there is nobody to be told of it. What was wrong with a policy from the
        beginning is not made good by a handshake."""
        if destination.startswith("["):
            return
        if result is TlsResult.SUCCESS:
            result = planned.flaw or result
        fact = Encrypted(destination, planned.policies, result, candidate.host, candidate.address, detail)
        self.observer(fact)


async def _no_policy() -> StsPolicy | None:
    return None
