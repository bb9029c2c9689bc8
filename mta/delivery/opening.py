"""From an address to a session that may carry a transaction: TCP, greeting, EHLO or HELO, STARTTLS, EHLO again, and at
a relay AUTH.

Rules: `policy.classify` decides every step; a change it asks for is made at most once per host and attempt; TLS is
opportunistic (RFC 3207, RFC 7435): its failure costs the encryption, not the delivery, and is remembered; unless the route
demands it: then nothing goes in clear.
"""

from mta.delivery.hosts import HostMemory
from mta.model.outcome import Action, Change, Disposition, Observation, Phase, Ruling, Scope, Verdict
from mta.model.reply import finding
from mta.model.tls import OPPORTUNISTIC, TlsDemand
from mta.policy.classify import Situation, classify
from mta.policy.destinations import Relay
from mta.policy.relays import no_login, offers_login
from mta.policy.routing import Candidate
from mta.ports import NO_SUCH_SOURCE, Connector, Session, Sessions


class Opener:
    """Opens sessions; knows which hosts are to be spoken to in clear."""

    def __init__(self, connector: Connector, sessions: Sessions, hosts: HostMemory) -> None:
        self._connector, self._sessions, self._hosts = connector, sessions, hosts

    async def open(self, destination: str, candidate: Candidate, changes: set[Change]) -> Session | Verdict:
        """A session of `destination`, or the verdict on this host. `changes` are those already made with it in this
        attempt; more are added here."""
        demand = candidate.demand or OPPORTUNISTIC
        while True:
            session, observation = await self._connect(destination, candidate)
            if _is_our_fault(observation):
                return _unable(observation)
            ruling = classify(observation, Situation(tls_required=demand.required, repeated=frozenset(changes)))
            try:
                if session is not None and ruling.action is Action.GO:
                    ruling = await self._introduce(session, changes, demand)
                    if ruling.action is Action.GO and candidate.relay is not None and candidate.relay.user:
                        ruling = await self._log_in(session, candidate.relay)
                    if ruling.action is Action.GO:
                        kept, session = session, None
                        return kept
            finally:
                if session is not None:  # also where the attempt is cancelled
                    self._sessions.dismiss(destination, session)
            if ruling.action is not Action.SAME or ruling.change is None:
                return _verdict(ruling)
            changes.add(ruling.change)

    async def _connect(self, destination: str, candidate: Candidate) -> tuple[Session | None, Observation]:
        """As one of the destination's connections; without a session it is none any more."""
        await self._sessions.room(destination)
        session = None
        try:
            implicit = candidate.relay is not None and candidate.relay.implicit_tls
            session, observation = await self._connector.connect(
                candidate.host,
                candidate.address,
                candidate.port,
                source=candidate.source,
                demand=candidate.demand if implicit else None,
            )
        finally:
            if session is None:
                self._sessions.gone(destination)
        return session, observation

    async def secure(self, session: Session, changes: set[Change], demand: TlsDemand = OPPORTUNISTIC) -> Ruling:
        """STARTTLS and EHLO again. GO: encrypted, or go on in clear; else as the ruling says."""
        if demand.required and "STARTTLS" not in session.extensions:
            return Ruling(Action.NEXT, verdict=_no_tls())
        observation = await session.starttls(demand)
        ruling = classify(observation, _situation(session, changes, demand))
        if ruling.change in (Change.CLEAR, Change.RECONNECT_CLEAR):
            self._hosts.remember_clear(session.address)
        if ruling.change is Change.CLEAR:
            return Ruling(Action.GO)
        if ruling.action is not Action.GO:
            return ruling
        return classify(await session.hello("EHLO"), _situation(session, changes, demand))

    async def _introduce(self, session: Session, changes: set[Change], demand: TlsDemand) -> Ruling:
        verb = "HELO" if Change.RECONNECT_HELO in changes else "EHLO"
        observation = await session.hello(verb)
        ruling = classify(observation, _situation(session, changes, demand))
        if ruling.change is Change.HELO:
            ruling = classify(await session.hello("HELO"), _situation(session, changes, demand))
        if ruling.action is not Action.GO or not self._wants_tls(session, changes, demand):
            return ruling
        return await self.secure(session, changes, demand)

    def _wants_tls(self, session: Session, changes: set[Change], demand: TlsDemand) -> bool:
        if session.tls:
            return False
        if demand.required:
            return True
        if not demand.wanted or "STARTTLS" not in session.extensions or Change.RECONNECT_CLEAR in changes:
            return False
        return not self._hosts.speaks_clear(session.address)

    @staticmethod
    async def _log_in(session: Session, relay: Relay) -> Ruling:
        if not offers_login(session.extensions):
            return Ruling(Action.NEXT, verdict=no_login(session.extensions))
        return classify(await session.authenticate(relay.user, relay.password), Situation(relay=True))


def _situation(session: Session, changes: set[Change], demand: TlsDemand) -> Situation:
    return Situation(
        tls_required=demand.required,
        tls=bool(session.tls),
        starttls_offered="STARTTLS" in session.extensions,
        repeated=frozenset(changes),
    )


def _no_tls() -> Verdict:
    reply = finding("4.7.10", "the server offers no TLS, which is required here")
    return Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.7.10", reply, Phase.STARTTLS)


def _is_our_fault(observation: Observation) -> bool:
    """The connection was not even begun."""
    reply = observation.reply
    return observation.phase is Phase.CONNECT and reply is not None and reply.status == NO_SUCH_SOURCE


def _unable(observation: Observation) -> Verdict:
    assert observation.reply is not None  # noqa: S101 - `_is_our_fault` has looked
    return Verdict(Disposition.TRANSIENT, Scope.SESSION, NO_SUCH_SOURCE, observation.reply, Phase.CONNECT)


def _verdict(ruling: Ruling) -> Verdict:
    if ruling.verdict is None:
        raise AssertionError(f"a ruling that ends a host has a verdict: {ruling}")
    return ruling.verdict

