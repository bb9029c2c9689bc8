"""From an address to a session that may carry a transaction: TCP, greeting, EHLO or HELO, STARTTLS, EHLO again, and at
a relay AUTH.

Rules: `policy.tls` says what the session has to satisfy, `policy.classify` decides every step; a change it asks for is made
at most once per host and attempt. Where encryption is not required (RFC 3207, RFC 7435), its failure costs the encryption,
not the delivery, and is remembered; where it is, nothing is sent without it.
"""

from collections.abc import Callable
from functools import partial

from mta.delivery.hosts import HostMemory
from mta.delivery.security import Security
from mta.model.outcome import Action, Change, Disposition, Observation, Phase, Ruling, Scope, Verdict
from mta.model.tls import OPPORTUNISTIC, TlsDemand, TlsResult
from mta.policy.candidates import Candidate
from mta.policy.classify import Situation, classify
from mta.policy.destinations import Relay
from mta.policy.relays import no_login, offers_login
from mta.policy.tls import Needs, Plan, at_relay, not_offered, of_host, weakened
from mta.ports.smtp import NO_SUCH_SOURCE, Connector, Session, Sessions

Tell = Callable[..., None]
"""`Security.tell` of one host: what came of the encryption, and the reason."""


class Opener:
    """Opens sessions; knows which hosts are to be spoken to in clear."""

    def __init__(self, connector: Connector, sessions: Sessions, hosts: HostMemory, security: Security) -> None:
        self._connector, self._sessions, self._hosts, self._security = connector, sessions, hosts, security

    async def plan(self, destination: str, candidate: Candidate, needs: Needs) -> Plan:
        """How a session for mail with these `needs` is to be encrypted."""
        if candidate.relay is not None:
            return at_relay(candidate.demand or OPPORTUNISTIC, candidate.host, needs)
        return await self._security.plan(destination, candidate, candidate.port, needs)

    def may_use(self, session: Session, hop: str, destination: str) -> bool:
        """Whether a session that is open already, one of those of `hop`, is enough for what is asked at `destination`."""
        return self._security.is_enough(session, destination, relayed=hop != destination)

    async def open(
        self, destination: str, hop: str, candidate: Candidate, changes: set[Change], plan: Plan, needs: Needs
    ) -> Session | Verdict:
        """A session as planned, one of those of `hop`, or the verdict on this host. `changes` are those already made with it
        in this attempt; more are added here."""
        if plan.refusal is not None:
            return plan.refusal
        demand = weakened(plan.demand) if Change.UNVERIFIED in changes else plan.demand
        tell: Tell = _keep_silent
        if needs.counted and candidate.relay is None:
            tell = partial(self._security.tell, destination, candidate, plan)
        while True:
            session, observation = await self._connect(hop, candidate, demand)
            if _is_our_fault(observation):
                return _unable(observation)
            ruling = classify(observation, Situation(tls_required=demand.required, repeated=frozenset(changes)))
            try:
                if session is not None and ruling.action is Action.GO:
                    session.demand = demand
                    ruling = await self._introduce(session, changes, tell)
                    if ruling.action is Action.GO and candidate.relay is not None and candidate.relay.user:
                        ruling = await self._log_in(session, candidate.relay)
                    if ruling.action is Action.GO:
                        kept, session = session, None
                        return kept
            finally:
                if session is not None:  # also where the attempt is cancelled
                    self._sessions.dismiss(hop, session)
            if ruling.change is Change.UNVERIFIED:
                demand = weakened(demand)
            elif ruling.action is not Action.SAME or ruling.change is None:
                return of_host(_verdict(ruling), demand, needs)
            changes.add(ruling.change)

    async def _connect(
        self, hop: str, candidate: Candidate, demand: TlsDemand
    ) -> tuple[Session | None, Observation]:
        """As one of the hop's connections; without a session it is none any more."""
        await self._sessions.room(hop)
        session = None
        try:
            implicit = candidate.relay is not None and candidate.relay.implicit_tls
            session, observation = await self._connector.connect(
                candidate.host,
                candidate.address,
                candidate.port,
                source=candidate.source,
                demand=demand if implicit else None,
            )
        finally:
            if session is None:
                self._sessions.gone(hop)
        return session, observation

    async def secure(self, session: Session, changes: set[Change]) -> Ruling:
        """STARTTLS and EHLO again. GO: encrypted, or go on in clear; else as the ruling says."""
        if not session.demand.wanted:
            return Ruling(Action.NEXT, verdict=not_offered(session.demand))
        return await self._after(await session.starttls(session.demand), session, changes)

    async def _after(self, observation: Observation, session: Session, changes: set[Change]) -> Ruling:
        """What follows from STARTTLS."""
        ruling = classify(observation, _situation(session, changes))
        if observation.tls is not None and ruling.action is Action.SAME:
            return Ruling(Action.SAME, Change.UNVERIFIED)
        if ruling.change in (Change.CLEAR, Change.RECONNECT_CLEAR):
            self._hosts.remember_clear(session.endpoint)
        if ruling.change is Change.CLEAR:
            return Ruling(Action.GO)
        if ruling.action is not Action.GO:
            return ruling
        return classify(await session.hello("EHLO"), _situation(session, changes))

    async def _introduce(self, session: Session, changes: set[Change], tell: Tell) -> Ruling:
        verb = "HELO" if Change.RECONNECT_HELO in changes else "EHLO"
        observation = await session.hello(verb)
        ruling = classify(observation, _situation(session, changes))
        if ruling.change is Change.HELO:
            ruling = classify(await session.hello("HELO"), _situation(session, changes))
        if ruling.action is not Action.GO or session.tls or not session.demand.wanted:
            return ruling
        if "STARTTLS" not in session.extensions:
            tell(TlsResult.STARTTLS_NOT_SUPPORTED)
            return Ruling(Action.NEXT, verdict=not_offered(session.demand)) if session.demand.required else ruling
        if self._is_to_be_clear(session, changes):
            return ruling
        observation = await session.starttls(session.demand)
        if Change.UNVERIFIED not in changes:  # told of already
            tell(_result(observation, session), "" if observation.reply is None else str(observation.reply))
        return await self._after(observation, session, changes)

    def _is_to_be_clear(self, session: Session, changes: set[Change]) -> bool:
        if session.demand.required:
            return False
        return Change.RECONNECT_CLEAR in changes or self._hosts.speaks_clear(session.endpoint)

    @staticmethod
    async def _log_in(session: Session, relay: Relay) -> Ruling:
        if not offers_login(session.extensions):
            return Ruling(Action.NEXT, verdict=no_login(session.extensions))
        return classify(await session.authenticate(relay.user, relay.password), Situation(relay=True))


def _keep_silent(*_: object) -> None:
    pass


def _result(observation: Observation, session: Session) -> TlsResult:
    if session.tls:
        return TlsResult.SUCCESS
    if observation.phase is Phase.STARTTLS:
        return TlsResult.STARTTLS_NOT_SUPPORTED
    return observation.tls or TlsResult.VALIDATION_FAILURE


def _situation(session: Session, changes: set[Change]) -> Situation:
    return Situation(
        tls_required=session.demand.required,
        tls=bool(session.tls),
        starttls_offered="STARTTLS" in session.extensions,
        repeated=frozenset(changes),
    )


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
