"""One claim, host after host, until every recipient has a verdict or no host is left.

Rules: a session at hand is used first; a doubt is sent to the host of the doubt first; every usable address is tried
once, in the order of the route; a change that Table A allows ("the same host again, with ...") is made once per host.
One content is sent per claim: recipients a server wants in the next transaction are claimed again at once. The deadline is
looked at before each host and just before MAIL (RFC 2852 section 4.1): what it leaves no time for goes back.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from mta.delivery.complaints import Complaints
from mta.delivery.hosts import Endpoint, HostMemory
from mta.delivery.letter import Letters
from mta.delivery.opening import Opener
from mta.delivery.results import Conclusion, too_late
from mta.delivery.route import Router
from mta.delivery.transaction import Mark, Result, Transaction, parameters
from mta.model.outcome import Action, Change, Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.candidates import Candidate
from mta.policy.classify import Situation, classify
from mta.policy.crowding import crowded
from mta.policy.exhausted import exhausted
from mta.policy.relays import softened
from mta.policy.tls import NO_NEEDS, Needs, in_words
from mta.policy.transaction import no_time_left, recipients_per_transaction, tells_relay, tells_success
from mta.policy.utf8 import together
from mta.ports.scheduling import Crowded
from mta.ports.smtp import NO_SUCH_SOURCE, Session, Sessions
from mta.ports.system import Clock
from mta.spool.base import Claim, ClaimedRecipient, Spool, Trial

TIME_LIMIT = 900.0
"""Seconds after which an attempt goes to no further host."""
WAIT = 10.0
"""Seconds after which mail that found a crowd is tried again at the latest; the sessions before it end sooner or later."""


@dataclass(frozen=True, slots=True)
class Means:
    """What every attempt uses."""

    spool: Spool
    letters: Letters
    sessions: Sessions
    opener: Opener
    router: Router
    hosts: HostMemory
    complaints: Complaints


class Attempt(Struct, eq=False):
    """`run` once. `conclusions` by recipient id, `trials` the hosts that were tried in vain on the way."""

    means: Means
    claim: Claim
    mark: Mark
    clock: Clock
    rest: Callable[[int], float]
    """How long a host rests after its n-th failure in a row, in seconds."""
    heeds: float
    """For how many seconds the rest of a host is heeded: 0 in the last attempt, which is a real one."""
    needs: Needs
    brief: float = 0.0
    """How long mail waits that found too many of our sessions there, in seconds."""
    conclusions: dict[int, Conclusion] = {}
    trials: list[Trial] = []
    trouble: Verdict | None = None
    """The verdict on the destination as a whole."""
    contents: int = 0
    """How often content was sent."""
    crowding: Crowded | None = None
    """The last refusal because of our own other sessions."""
    hop: str = ""
    """What the latest session belongs to in `means.sessions`."""
    _session: Session | None = None
    _kept: tuple[Session, bool] | None = None
    _later: bool = False
    _required: bool = False
    """Encryption with the host that is being tried."""
    _unfit: dict[tuple[str, str], Verdict] = {}
    """By hop and address: hosts that can't take this mail."""

    async def run(self) -> None:
        try:
            destination, router = self.claim.destination, self.means.router
            hop = router.hop(destination)
            if (session := self._at_hand(hop)) and self._is_said(session, await self._with_session(session, set())):
                return
            candidates = await router.candidates(destination)
            if isinstance(candidates, Verdict):
                self._conclude_rest(candidates, Conclusion(candidates))
                return
            ordered = self._doubtful_host_first(candidates)
            other = self._hop_of(ordered[0])
            session = self._at_hand(other) if other != hop else None
            if session and self._is_said(session, await self._with_session(session, set())):
                return
            await self._walk(ordered)
        finally:
            if self._session is not None:  # an exception or a cancellation: nothing is known of its state
                self._session.abort()
                self.means.sessions.dismiss(self.hop, self._session)

    @property
    def open(self) -> list[ClaimedRecipient]:
        """The recipients without a conclusion."""
        return [it for it in self.claim.recipients if it.id not in self.conclusions]

    @property
    def _done(self) -> bool:
        return self._later or len(self.conclusions) == len(self.claim.recipients)

    # ------------------------------------------------ hosts
    def _hop_of(self, candidate: Candidate) -> str:
        return candidate.hop or self.claim.destination

    def _at_hand(self, hop: str) -> Session | None:
        """An idle session that can carry the mail. One that others opened is not for mail with needs of its own."""
        self.hop = hop
        session = self.means.sessions.take(hop) if self.needs == NO_NEEDS else None
        if session is None:
            return None
        doubtful = self.claim.recipients[0].remote_address
        enough = self.means.opener.may_use(session, hop, self.claim.destination)
        if not enough or (doubtful and doubtful != session.address):
            self.means.sessions.dismiss(hop, session)
            return None
        return session

    def _is_said(self, session: Session, verdict: Verdict | None) -> bool:
        """Whether all is, after a session at hand came to `verdict`: that it has ended meanwhile is no host's failure."""
        if verdict is not None and verdict.phase is Phase.MAIL:
            if verdict.disposition is Disposition.PERMANENT:  # ours, from what it offers: it need not be asked again
                self._unfit[self.hop, session.address] = verdict
            else:
                self.trials.pop()
        return self._done

    async def _walk(self, candidates: Sequence[Candidate]) -> None:
        end = asyncio.get_running_loop().time() + TIME_LIMIT
        all_rest = all(self.means.hosts.dead(it.endpoint) for it in candidates)
        heeds = self.heeds if all_rest or not self.heeds else math.inf
        verdicts: list[Verdict] = []
        waits: list[float] = []
        for candidate in candidates:
            if unfit := self._unfit.get((self._hop_of(candidate), candidate.address)):
                verdicts.append(unfit)
                continue
            if resting := self.means.hosts.resting(candidate.endpoint, heeds):
                verdicts.append(resting[0])
                waits.append(resting[1])
                continue
            if asyncio.get_running_loop().time() >= end:
                break
            if self._out_of_time(self.clock.now()):
                return
            verdict = await self._at_host(candidate)
            if self._done or verdict is None:
                return
            verdicts.append(verdict)
            self.means.complaints.hear(candidate, verdict)
            if self._out_of_time(self.clock.now()):
                return
            if not self._met_crowd(verdict):
                self._blame(candidate, verdict)
        self._exhausted(verdicts, waits if len(waits) == len(verdicts) else [])

    async def _at_host(self, candidate: Candidate) -> Verdict | None:
        """Tries one address, again with each change that is asked for. The verdict if the host is of no use."""
        changes: set[Change] = set()
        while True:
            session = await self._open(candidate, changes)
            if isinstance(session, Verdict):
                self._look_for_crowd(session)
                self._tried(candidate.host, candidate.address, "", session)
                if session.phase is Phase.EHLO_TLS and self._goes_clear(candidate.endpoint, session, changes):
                    continue
                return session
            self.means.hosts.absolve(candidate.endpoint)
            verdict = await self._with_session(session, changes)
            if self._done or verdict is not None:
                return verdict

    async def _open(self, candidate: Candidate, changes: set[Change]) -> Session | Verdict:
        """A session, or the verdict on this host; a deadline that comes first is not waited out with it."""
        by = self.claim.deliver_by
        self.hop = self._hop_of(candidate)
        try:
            async with asyncio.timeout(by.at - self.clock.now() if by is not None and by.fails else None):
                destination, opener = self.claim.destination, self.means.opener
                plan = await opener.plan(destination, candidate, self.needs)
                self._required = plan.demand.required
                return await opener.open(destination, self.hop, candidate, changes, plan, self.needs)
        except TimeoutError:
            reply = finding("4.4.7", "the deadline came before the server was ready")
            return Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.4.7", reply, Phase.CONNECT)

    async def _with_session(self, session: Session, changes: set[Change]) -> Verdict | None:
        """Transactions on `session` until all is said or the session is of no more use. The verdict if the host is to be
        left; None with recipients open: the same host again, over a new connection."""
        self._session, self._required = session, session.demand.required
        while True:
            todo = await self._prepared(session, changes)
            result = todo if isinstance(todo, Result) else await todo.run()
            self._record(result, session)
            if result.change is None or not await self._changed(session, result.change, changes):
                break
        self._leave(session, result)
        if result.host is None:
            return None
        self._look_for_crowd(result.host, session)
        self._tried(session.host, session.address, session.tls, result.host)
        young = session.tls and session.transactions == 1  # one that has carried mail only idled too long
        return None if young and self._goes_clear(session.endpoint, result.host, changes) else result.host

    def _goes_clear(self, endpoint: Endpoint, verdict: Verdict, changes: set[Change]) -> bool:
        """A session that ended inside TLS before it was of use, and not for the first time: the same host again, in clear
        (RFC 7435 section 4.1)."""
        again = any(it.attempts for it in self.claim.recipients)
        if verdict.status != "4.4.2" or not again or self._required or Change.RECONNECT_CLEAR in changes:
            return False
        self.means.hosts.remember_clear(endpoint)
        changes.add(Change.RECONNECT_CLEAR)
        return True

    async def _changed(self, session: Session, change: Change, changes: set[Change]) -> bool:
        """Makes a change on this connection; False: it needs a new one."""
        changes.add(change)
        if change in (Change.WITHOUT_PARAMETERS, Change.RESET):
            return await self._reset(session)
        if change is Change.WITH_TLS:
            return (await self.means.opener.secure(session, changes)).action is Action.GO and session.usable
        return False

    def _leave(self, session: Session, result: Result) -> None:
        """A session that goes on is kept until the result is recorded (`part`), another one let go."""
        if result.host is None and result.change is None:
            self._kept = session, result.open_transaction
        else:
            self.means.sessions.dismiss(self.hop, session)
        self._session = None

    async def part(self) -> None:
        """What is said to the server after the result is recorded: RSET where a transaction is open, QUIT if the session
        has done its share."""
        if self._kept is None:
            return
        (session, is_open), self._kept = self._kept, None
        if self.needs.lifts:  # what it was opened under is less than other mail may need
            self.means.sessions.dismiss(self.hop, session)
        elif not is_open or await self._reset(session):
            self.means.sessions.give(self.hop, session)
        else:
            self.means.sessions.dismiss(self.hop, session)

    @staticmethod
    async def _reset(session: Session) -> bool:
        """RSET; whether the session may go on (Table A, RSET)."""
        return session.usable and classify(await session.reset(), Situation()).action is Action.GO

    def _blame(self, candidate: Candidate, verdict: Verdict) -> None:
        if verdict.status == NO_SUCH_SOURCE:  # ours alone
            return
        if verdict.phase in (Phase.CONNECT, Phase.BANNER, Phase.AUTH) and verdict.disposition is Disposition.TRANSIENT:
            failures = self.means.hosts.failures(candidate.endpoint) + 1
            self.means.hosts.blame(candidate.endpoint, verdict, self.rest(failures))

    def _look_for_crowd(self, verdict: Verdict, session: Session | None = None) -> None:
        """`session`: the one it was said on, where it had begun. With no other connection there is no crowd, whatever is
        said."""
        if crowded(verdict, fresh=session is None or session.transactions <= 1):
            others = self.means.sessions.open(self.hop) - (self._session is not None)
            if others > 0:
                self.crowding = Crowded(self.hop, others, str(verdict.reply))

    def _met_crowd(self, verdict: Verdict) -> bool:
        return self.crowding is not None and crowded(verdict)

    def _doubtful_host_first(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        doubtful = self.claim.recipients[0].remote_address
        candidates = self.means.hosts.living_first(candidates)
        return sorted(candidates, key=lambda it: it.address != doubtful) if doubtful else candidates

    # ------------------------------------------------ transactions
    async def _prepared(self, session: Session, changes: set[Change]) -> Transaction | Result:
        """What is to be sent on `session`; or why nothing is."""
        claim = self.claim
        recipients = together(self.open, message=claim.utf8)[: recipients_per_transaction(session.extensions)]
        letter = await self.means.letters.write(claim, recipients, session.extensions)
        now = self.clock.now()  # some of it may have gone by with the letter
        if self._out_of_time(now):
            return Result()
        if isinstance(letter, Verdict):
            return _not_here(letter, recipients)
        asked = parameters(claim, recipients, letter, session, changes, now)
        if isinstance(asked, Verdict):
            return _not_here(asked, recipients)
        of_mail, of_rcpts = asked
        traced = tells_relay(claim.deliver_by, of_mail, now)
        relayed = [it.id for it, of in zip(recipients, of_rcpts, strict=True) if traced or tells_success(it.notify, of)]
        return Transaction(
            claim,
            letter,
            session,
            recipients,
            of_mail,
            of_rcpts,
            frozenset(changes),
            self.hop != claim.destination,
            self.mark,
            Result(relayed=frozenset(relayed), signed=letter.signed),
        )

    def _record(self, result: Result, session: Session) -> None:
        self.contents += result.content
        for recipient_id, verdict in result.verdicts.items():
            self._look_for_crowd(verdict, session)
            self.conclusions[recipient_id] = Conclusion(
                verdict,
                session.host,
                session.address,
                session.tls,
                relayed=recipient_id in result.relayed,
                signed=result.signed,
                policy=in_words(session.demand, session.tls, session.verified),
            )
            if verdict.scope is Scope.DESTINATION and verdict.disposition is Disposition.TRANSIENT:
                self.trouble = verdict
        unsaid = len(self.conclusions) < len(self.claim.recipients)
        self._later = unsaid and result.host is None and result.change is None

    def _tried(self, host: str, address: str, tls: str, verdict: Verdict) -> None:
        self.trials.append(Trial(host, address, tls, verdict.phase, verdict.reply))

    # ------------------------------------------------ the end
    def _exhausted(self, verdicts: Sequence[Verdict], waits: Sequence[float]) -> None:
        """No host is left. `waits`: all of them rest, nothing was tried, for so long."""
        if self.means.router.route(self.claim.destination).relayed:
            verdicts = [softened(it) for it in verdicts]
        verdict, refusals = exhausted(verdicts, max(it.refusals for it in self.claim.recipients))
        if self.needs != NO_NEEDS:  # other mail may be let in
            verdict = replace(verdict, scope=Scope.TRANSACTION)
        last = self.trials.pop() if self.trials else None
        self._conclude_rest(
            verdict,
            Conclusion(
                verdict,
                host=last.host if last else "",
                address=last.address if last else "",
                tls=last.tls if last else "",
                refusals=refusals,
                counted=not (waits or self._met_crowd(verdict)),
                at_least=min(waits, default=self.brief if self._met_crowd(verdict) else 0.0),
            ),
        )

    def _conclude_rest(self, verdict: Verdict, conclusion: Conclusion) -> None:
        for recipient in self.open:
            self.conclusions[recipient.id] = conclusion
        if verdict.disposition is Disposition.TRANSIENT and verdict.scope is Scope.DESTINATION:
            self.trouble = verdict

    def _out_of_time(self, now: float) -> bool:
        """Whether the deadline leaves no time for one more transaction: then what is open goes back, to be ended there.
        Hosts tried before count as an attempt, and what was answered last is kept."""
        if not no_time_left(self.claim.deliver_by, now):
            return False
        last = self.trials.pop() if self.trials else None
        for recipient in self.open:
            self.conclusions[recipient.id] = too_late(self.claim, recipient, last, now)
        return True


def _not_here(verdict: Verdict, recipients: Sequence[ClaimedRecipient]) -> Result:
    """What is not for this host, or for no host."""
    if verdict.scope is Scope.SESSION:
        return Result(host=verdict)
    return Result(verdicts={it.id: verdict for it in recipients})
