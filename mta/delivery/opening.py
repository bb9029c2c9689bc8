"""From an address to a session that may carry a transaction: TCP, greeting, EHLO or HELO, STARTTLS, EHLO again.

Rules: `policy.classify` decides every step; a change it asks for is made at most once per host and attempt; TLS is
opportunistic (RFC 3207, RFC 7435): its failure costs the encryption, not the delivery, and is remembered.
"""

from mta.delivery.hosts import HostMemory
from mta.model.outcome import Action, Change, Observation, Ruling, Verdict
from mta.policy.classify import Situation, classify
from mta.policy.routing import Candidate
from mta.ports import Connector, Session, Sessions


class Opener:
    """Opens sessions; knows which hosts are to be spoken to in clear."""

    def __init__(self, connector: Connector, sessions: Sessions, hosts: HostMemory, port: int) -> None:
        self._connector, self._sessions, self._hosts, self._port = connector, sessions, hosts, port

    async def open(self, destination: str, candidate: Candidate, changes: set[Change]) -> Session | Verdict:
        """A session of `destination`, or the verdict on this host. `changes` are those already made with it in this
        attempt; more are added here."""
        while True:
            session, observation = await self._connect(destination, candidate)
            ruling = classify(observation, Situation(repeated=frozenset(changes)))
            try:
                if session is not None and ruling.action is Action.GO:
                    ruling = await self._introduce(session, changes)
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
            session, observation = await self._connector.connect(candidate.host, candidate.address, self._port)
        finally:
            if session is None:
                self._sessions.gone(destination)
        return session, observation

    async def secure(self, session: Session, changes: set[Change]) -> Ruling:
        """STARTTLS and EHLO again. GO: encrypted, or go on in clear; else as the ruling says."""
        observation = await session.starttls()
        ruling = classify(observation, _situation(session, changes))
        if ruling.change in (Change.CLEAR, Change.RECONNECT_CLEAR):
            self._hosts.remember_clear(session.address)
        if ruling.change is Change.CLEAR:
            return Ruling(Action.GO)
        if ruling.action is not Action.GO:
            return ruling
        return classify(await session.hello("EHLO"), _situation(session, changes))

    async def _introduce(self, session: Session, changes: set[Change]) -> Ruling:
        verb = "HELO" if Change.RECONNECT_HELO in changes else "EHLO"
        observation = await session.hello(verb)
        ruling = classify(observation, _situation(session, changes))
        if ruling.change is Change.HELO:
            ruling = classify(await session.hello("HELO"), _situation(session, changes))
        if ruling.action is not Action.GO or not self._wants_tls(session, changes):
            return ruling
        return await self.secure(session, changes)

    def _wants_tls(self, session: Session, changes: set[Change]) -> bool:
        if "STARTTLS" not in session.extensions or Change.RECONNECT_CLEAR in changes:
            return False
        return not self._hosts.speaks_clear(session.address)


def _situation(session: Session, changes: set[Change]) -> Situation:
    return Situation(
        tls=bool(session.tls), starttls_offered="STARTTLS" in session.extensions, repeated=frozenset(changes)
    )


def _verdict(ruling: Ruling) -> Verdict:
    if ruling.verdict is None:
        raise AssertionError(f"a ruling that ends a host has a verdict: {ruling}")
    return ruling.verdict

