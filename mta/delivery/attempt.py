"""One claim, host after host, until every recipient has a verdict or no host is left.

Rules: a session at hand is used first; a doubt is sent to the host of the doubt first; every usable address is tried
once, in the order of the route; a change that Table A allows ("the same host again, with ...") is made once per host.
One content is sent per claim: recipients a server wants in the next transaction are claimed again at once. The deadline is
looked at before each host and just before MAIL (RFC 2852 section 4.1): what it leaves no time for goes back.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from mta.delivery.complaints import Complaints
from mta.delivery.crowd import Crowd
from mta.delivery.hosts import HostMemory
from mta.delivery.letter import Letters
from mta.delivery.opening import Opener
from mta.delivery.results import Conclusion, too_late
from mta.delivery.route import Router
from mta.delivery.transaction import Result, Transaction, parameters
from mta.model.envelope import Kind
from mta.model.outcome import Action, Change, Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.classify import Situation, classify
from mta.policy.exhausted import exhausted
from mta.policy.relays import softened
from mta.policy.routing import Candidate
from mta.policy.tls import NO_NEEDS, Needs, in_words
from mta.policy.transaction import no_time_left, recipients_per_transaction, tells_relay, tells_success
from mta.policy.utf8 import together
from mta.ports import NO_SUCH_SOURCE, Clock, Session, Sessions
from mta.spool.base import Claim, ClaimedRecipient, Spool, Trial

TIME_LIMIT = 900.0
"""Seconds after which an attempt goes to no further host."""

Mark = Callable[[Sequence[ClaimedRecipient], Session, str], Awaitable[None]]
"""The gate before the final dot, with the keys that signed the content: durable, or it raises."""


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


@dataclass(slots=True)
class Attempt:
    """`run` once. `conclusions` by recipient id, `trials` the hosts that were tried in vain on the way."""

    means: Means
    claim: Claim
    mark: Mark
    clock: Clock
    rest: Callable[[int], float]
    """How long a host rests after its n-th failure in a row, in seconds."""
    heeds: float
    """For how many seconds the rest of a host is heeded: 0 in the last attempt, which is a real one."""
    brief: float = 0.0
    """How long mail waits that found too many of our sessions there, in seconds."""
    conclusions: dict[int, Conclusion] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    trouble: Verdict | None = None
    """The verdict on the destination as a whole."""
    contents: int = 0
    """How often content was sent."""
    crowd: Crowd = field(default_factory=Crowd)
    _session: Session | None = None
    _hop: str = ""
    """What the session at work belongs to in `means.sessions`."""
    _kept: tuple[Session, bool] | None = None
    _later: bool = False
    _required: bool = False
    """Encryption with the host that is being tried."""
    _unfit: dict[str, Verdict] = field(default_factory=dict)
    """By address: hosts that can't take this mail."""

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self._session is not None:  # an exception or a cancellation: nothing is known of its state
                self._session.abort()
                self.means.sessions.dismiss(self._hop, self._session)

    async def _run(self) -> None:
        hop = self.means.router.hop(self.claim.destination)
        if await self._with_session_at_hand(hop):
            return
        candidates = await self.means.router.candidates(self.claim.destination)
        if isinstance(candidates, Verdict):
            self._conclude_rest(candidates, Conclusion(candidates))
            return
        ordered = self._doubtful_host_first(candidates)
        if (other := self._hop_of(ordered[0])) != hop and await self._with_session_at_hand(other):
            return
        await self._walk(ordered)

    @property
    def open(self) -> list[ClaimedRecipient]:
        """The recipients without a conclusion."""
        return [it for it in self.claim.recipients if it.id not in self.conclusions]

    @property
    def _needs(self) -> Needs:
        """A report of what became of a message goes on without what the message needed (RFC 8689 section 5)."""
        kind = self.claim.kind
        required = self.claim.require_tls and kind is not Kind.DSN
        return Needs(required, self.claim.tls_optional, kind is not Kind.TLS_REPORT)

    @property
    def _done(self) -> bool:
        return self._later or not self.open

    @property
    def _relayed(self) -> bool:
        return self.means.router.route(self.claim.destination).relayed

    # ------------------------------------------------ hosts
    def _hop_of(self, candidate: Candidate) -> str:
        return candidate.hop or self.claim.destination

    async def _with_session_at_hand(self, hop: str) -> bool:
        """An idle session carries the mail if it can; that it has ended meanwhile is no host's failure. Whether all is
        said. One that others opened is not for mail with needs of its own."""
        self._hop = hop
        session = self.means.sessions.take(hop) if self._needs == NO_NEEDS else None
        if session is None:
            return False
        if not self.means.opener.may_use(session, hop, self.claim.destination):
            self.means.sessions.dismiss(hop, session)
            return False
        doubtful = self.claim.recipients[0].remote_address
        if doubtful and doubtful != session.address:
            self.means.sessions.dismiss(hop, session)
            return False
        verdict = await self._with_session(session, set())
        if verdict is not None and verdict.phase is Phase.MAIL:
            if verdict.disposition is Disposition.PERMANENT:  # ours, from what it offers: it need not be asked again
                self._unfit[session.address] = verdict
            else:
                self.trials.pop()
        return self._done

    async def _walk(self, candidates: Sequence[Candidate]) -> None:
        end = asyncio.get_running_loop().time() + TIME_LIMIT
        all_rest = all(self.means.hosts.dead(it.address) for it in candidates)
        heeds = self.heeds if all_rest or not self.heeds else math.inf
        verdicts: list[Verdict] = []
        waits: list[float] = []
        for candidate in candidates:
            if unfit := self._unfit.get(candidate.address):
                verdicts.append(unfit)
                continue
            if resting := self.means.hosts.resting(candidate.address, heeds):
                verdicts.append(resting[0])
                waits.append(resting[1])
                continue
            if asyncio.get_running_loop().time() >= end:
                break
            if self._out_of_time():
                return
            verdict = await self._at_host(candidate)
            if self._done or verdict is None:
                return
            verdicts.append(verdict)
            self.means.complaints.hear(candidate, verdict)
            if self._out_of_time():
                return
            if not self.crowd.met(verdict):
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
                if session.phase is Phase.EHLO_TLS and self._goes_clear(candidate.address, session, changes):
                    continue
                return session
            self.means.hosts.absolve(candidate.address)
            verdict = await self._with_session(session, changes)
            if self._done or verdict is not None:
                return verdict

    async def _open(self, candidate: Candidate, changes: set[Change]) -> Session | Verdict:
        """A session, or the verdict on this host; a deadline that comes first is not waited out with it."""
        by = self.claim.deliver_by
        self._hop = self._hop_of(candidate)
        try:
            async with asyncio.timeout(by.at - self.clock.now() if by is not None and by.fails else None):
                destination, opener = self.claim.destination, self.means.opener
                plan = await opener.plan(destination, candidate, self._needs)
                self._required = plan.demand.required
                return await opener.open(destination, self._hop, candidate, changes, plan, self._needs)
        except TimeoutError:
            reply = finding("4.4.7", "the deadline came before the server was ready")
            return Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.4.7", reply, Phase.CONNECT)

    async def _with_session(self, session: Session, changes: set[Change]) -> Verdict | None:
        """Transactions on `session` until all is said or the session is of no more use. The verdict if the host is to be
        left; None with recipients open: the same host again, over a new connection."""
        self._session, self._required = session, session.demand.required
        while True:
            result = Result() if self._out_of_time() else await self._transaction(session, changes)
            self._record(result, session)
            if result.change is None or not await self._changed(session, result.change, changes):
                break
        self._leave(session, result)
        if result.host is None:
            return None
        self._look_for_crowd(result.host, session)
        self._tried(session.host, session.address, session.tls, result.host)
        young = session.tls and session.transactions == 1  # one that has carried mail only idled too long
        return None if young and self._goes_clear(session.address, result.host, changes) else result.host

    def _goes_clear(self, address: str, verdict: Verdict, changes: set[Change]) -> bool:
        """A session that ended inside TLS before it was of use, and not for the first time: the same host again, in clear
        (RFC 7435 section 4.1)."""
        again = any(it.attempts for it in self.claim.recipients)
        if verdict.status != "4.4.2" or not again or self._required or Change.RECONNECT_CLEAR in changes:
            return False
        self.means.hosts.remember_clear(address)
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
        """A session in step is kept until the result is recorded (`part`), another one let go."""
        if session.usable and result.host is None and result.change is None:
            self._kept = session, result.open_transaction
        else:
            self.means.sessions.dismiss(self._hop, session)
        self._session = None

    async def part(self) -> None:
        """What is said to the server after the result is recorded: RSET where a transaction is open, QUIT if the session
        has done its share."""
        if self._kept is None:
            return
        (session, is_open), self._kept = self._kept, None
        if self._needs.lifts:  # what it was opened under is less than other mail may need
            self.means.sessions.dismiss(self._hop, session)
        elif not is_open or await self._reset(session):
            self.means.sessions.give(self._hop, session)
        else:
            self.means.sessions.dismiss(self._hop, session)

    @staticmethod
    async def _reset(session: Session) -> bool:
        """RSET; whether the session may go on (Table A, RSET)."""
        return session.usable and classify(await session.reset(), Situation()).action is Action.GO

    def _blame(self, candidate: Candidate, verdict: Verdict) -> None:
        if verdict.status == NO_SUCH_SOURCE:  # ours alone
            return
        if verdict.phase in (Phase.CONNECT, Phase.BANNER, Phase.AUTH) and verdict.disposition is Disposition.TRANSIENT:
            failures = self.means.hosts.failures(candidate.address) + 1
            self.means.hosts.blame(candidate.address, verdict, self.rest(failures))

    def _look_for_crowd(self, verdict: Verdict, session: Session | None = None) -> None:
        """`session`: the one it was said on, where it had begun."""

        def others() -> int:
            return self.means.sessions.open(self._hop) - (self._session is not None)

        self.crowd.look(verdict, others, fresh=session is None or session.transactions <= 1)

    def _doubtful_host_first(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        doubtful = self.claim.recipients[0].remote_address
        candidates = self.means.hosts.living_first(candidates)
        return sorted(candidates, key=lambda it: it.address != doubtful) if doubtful else candidates

    # ------------------------------------------------ transactions
    async def _transaction(self, session: Session, changes: set[Change]) -> Result:
        recipients = together(self.open, message=self.claim.utf8)[: recipients_per_transaction(session.extensions)]
        letter = await self.means.letters.write(self.claim, recipients, session.extensions)
        if isinstance(letter, Verdict):
            return _not_here(letter, recipients)
        asked = parameters(self.claim, recipients, letter, session, changes, self.clock.now())
        if isinstance(asked, Verdict):
            return _not_here(asked, recipients)
        traced = tells_relay(self.claim.deliver_by, asked[0], self.clock.now())
        relayed = [it.id for it, of in zip(recipients, asked[1], strict=True) if traced or tells_success(it.notify, of)]
        transaction = Transaction(
            self.claim,
            letter,
            session,
            recipients,
            *asked,
            frozenset(changes),
            self._hop != self.claim.destination,
            lambda accepted: self.mark(accepted, session, letter.signed),
        )
        result = await transaction.run()
        result.relayed, result.signed = frozenset(relayed), letter.signed
        if not (result.verdicts or result.later or result.host or result.change):
            result.host = _senseless()
        return result

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
        self._later = result.host is None and result.change is None and bool(self.open)

    def _tried(self, host: str, address: str, tls: str, verdict: Verdict) -> None:
        self.trials.append(Trial(host, address, tls, verdict.phase, verdict.reply))

    # ------------------------------------------------ the end
    def _exhausted(self, verdicts: Sequence[Verdict], waits: Sequence[float]) -> None:
        """No host is left. `waits`: all of them rest, nothing was tried, for so long."""
        if self._relayed:
            verdicts = [softened(it) for it in verdicts]
        verdict, refusals = exhausted(verdicts, max(it.refusals for it in self.claim.recipients))
        if self._needs != NO_NEEDS:  # other mail may be let in
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
                counted=not (waits or self.crowd.met(verdict)),
                at_least=min(waits, default=self.brief if self.crowd.met(verdict) else 0.0),
            ),
        )

    def _conclude_rest(self, verdict: Verdict, conclusion: Conclusion) -> None:
        for recipient in self.open:
            self.conclusions[recipient.id] = conclusion
        if verdict.disposition is Disposition.TRANSIENT and verdict.scope is Scope.DESTINATION:
            self.trouble = verdict

    def _out_of_time(self) -> bool:
        """Whether the deadline leaves no time for one more transaction: then what is open goes back, to be ended there.
        Hosts tried before count as an attempt, and what was answered last is kept."""
        now = self.clock.now()
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


def _senseless() -> Verdict:
    reply = finding("4.5.0", "the server's replies decide nothing about the recipients")
    return Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.5.0", reply, Phase.DATA)
