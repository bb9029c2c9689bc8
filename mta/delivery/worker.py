"""Delivers the next claim of a destination and settles it; knows what is in flight and ends it in order.

Rules: the result is durable before anything else is done with the session's host; a settlement, or a claim that comes
back, is given to the spool until it sticks; no exception of one delivery reaches another: it becomes a counted attempt.
What was stopped before the final dot goes back uncounted; what is past it is awaited (RFC 1047).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mta.delivery.alarms import Alarms
from mta.delivery.attempt import WAIT, Attempt, Means
from mta.delivery.results import Conclusion, ResultRules, expired, given_up_in_doubt, needs, rests_heeded, result
from mta.model.envelope import MailClass
from mta.model.events import Attempted, Settled, Trouble
from mta.model.lifecycle import Status
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy import schedule
from mta.policy.schedule import RetryPolicy
from mta.ports.scheduling import DeliveryOutcome
from mta.ports.smtp import Session
from mta.ports.system import Clock, Observer, Randomness
from mta.spool.base import (
    Claim,
    ClaimedRecipient,
    DoubtPolicy,
    RecipientResult,
    Settlement,
    Spool,
    SpoolError,
    Trial,
)
from mta.spool.base import Settled as SettledRecipient

T = TypeVar("T")

CLAIM_LIMIT = 100
"""Recipients claimed at a time (RFC 5321 section 4.5.3.1.8)."""
UNRECORDED_LIMIT = 10
"""Results waiting to be recorded with which nothing new is begun: the spool is in trouble. Fewer may be the fault of their
own rows, and are not to stop other mail."""
GRACE = 2.0
"""Seconds in which what a stop has ended gives its claim back, also where it waits for nothing else."""
PERSIST_INTERVAL = 1.0
"""Seconds between two tries to record a result."""
OUTCOMES = {it: it.value for it in Status} | {Status.PENDING: "deferred"}
"""What a settled status is called in the log."""


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    classes: dict[MailClass, RetryPolicy]
    doubts: DoubtPolicy


@dataclass(slots=True)
class _Flight:
    claim: Claim
    task: asyncio.Task[object]
    must_finish: bool = False
    """The final dot may be out, or the result is being recorded."""


Learn = Callable[[Claim, Sequence[RecipientResult]], Awaitable[None]]
"""Told what an attempt came to, once that is recorded. Never raises."""


async def _learn_nothing(claim: Claim, results: Sequence[RecipientResult]) -> None:
    return


class Delivery:
    """`deliver` is what the scheduler calls, many at once."""

    def __init__(
        self,
        settings: DeliverySettings,
        means: Means,
        clock: Clock,
        chance: Randomness,
        observer: Observer,
        learn: Learn = _learn_nothing,
    ) -> None:
        self.settings = settings
        self._means, self._clock, self._chance, self._observer = means, clock, chance, observer
        self._spool: Spool = means.spool
        self._flights: dict[int, _Flight] = {}
        self._telling: set[int] = set()
        self._alarms = Alarms()
        self._learn = learn
        self._unrecorded = 0
        self._stopping = False

    @property
    def claims(self) -> frozenset[int]:
        """Ids of the claims that are being worked on."""
        return frozenset(self._flights) | self._telling

    async def deliver(
        self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
    ) -> DeliveryOutcome:
        """The next claim of a class at `destination`, from the spool and back into it. Raises `SpoolError` where nothing
        could be claimed, or the mark before the dot could not be made: the claim has been given back then."""
        if (claim := await self._claim(destination, mail_class)) is None:
            return DeliveryOutcome(idle=True)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has one
        flight = self._flights[claim.id] = _Flight(claim, task)
        try:
            claimed(claim.following)
            now = self._clock.now()
            if given_up_in_doubt(claim, self.settings.classes[claim.mail_class], now):
                flight.must_finish = True
                in_doubt = {it.id: _still_in_doubt(it) for it in claim.recipients}
                await self._record(claim, self._results(claim, in_doubt), ())
                return DeliveryOutcome(contents=0)
            attempt = self._attempt(flight, now)
            try:
                await attempt.run()
            except BaseException as error:
                await self._broken_off(flight, attempt, error)
            flight.must_finish = True
            try:
                await self._record(claim, self._results(claim, attempt.conclusions), attempt.trials)
            finally:
                await attempt.part()
            return DeliveryOutcome(
                trouble=attempt.trouble,
                mail_class=claim.mail_class,
                contents=attempt.contents,
                hop=attempt.hop,
                crowded=attempt.crowding,
            )
        finally:
            del self._flights[claim.id]

    async def tell_overdue(self, destination: str, verdict: Verdict) -> None:
        """Gives up, or warns about, what can't wait at a destination that rests after `verdict`. What is only warned about
        is due as before."""
        told: set[int] = set()
        while claim := await self._spool.claim_overdue(destination, CLAIM_LIMIT, self._clock.now()):
            ids = {it.id for it in claim.recipients}
            self._telling.add(claim.id)
            try:
                if ids <= told:  # nothing came of telling it: better late than for ever
                    await self._give_back(claim)
                    return
                told |= ids
                now = self._clock.now()
                conclusions = {
                    it.id: Conclusion(verdict, counted=False, at_least=max(0.0, (it.next_at or now) - now))
                    for it in claim.recipients
                }
                await self._record(claim, self._results(claim, conclusions), ())
            finally:
                self._telling.remove(claim.id)

    async def expire(self, claim: Claim) -> None:
        """Ends, or tells of, recipients whose deadline has passed (a claim of `Spool.claim_expired`)."""
        if (deliver_by := claim.deliver_by) is None:
            await self._give_back(claim)
            return
        self._telling.add(claim.id)
        try:
            await self._record(claim, [expired(claim, it, deliver_by) for it in claim.recipients], ())
        finally:
            self._telling.remove(claim.id)

    async def stop(self, timeout: float) -> None:
        """Ends what has not come to its final dot, waits up to `timeout` seconds for the rest. A doubt that remains is
        found by the next start. A claim that is only now on its way from the spool goes back."""
        self._stopping = True
        for flight in list(self._flights.values()):
            if not flight.must_finish:
                flight.task.cancel()
        if self._flights:
            await asyncio.wait([flight.task for flight in self._flights.values()], timeout=timeout)
        if left := [flight.task for flight in self._flights.values()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=GRACE)

    # ------------------------------------------------ one claim
    async def _claim(self, destination: str, mail_class: MailClass) -> Claim | None:
        if self._unrecorded >= UNRECORDED_LIMIT:
            raise SpoolError("results can't be recorded; no new deliveries until they are")
        claim = await self._spool.claim(destination, CLAIM_LIMIT, self._clock.now(), (mail_class,))
        if claim is not None and self._stopping:
            await self._give_back(claim)
            return None
        return claim

    def _attempt(self, flight: _Flight, now: float) -> Attempt:
        claim = flight.claim
        return Attempt(
            means=self._means,
            claim=claim,
            mark=partial(self._mark, flight),
            clock=self._clock,
            rest=partial(self._rest, claim.mail_class),
            heeds=rests_heeded(claim, now),
            needs=needs(claim),
            brief=min(WAIT, self.settings.classes[claim.mail_class].first_retry),
        )

    def _mark(
        self, flight: _Flight, accepted: Sequence[ClaimedRecipient], session: Session, signed: str
    ) -> Awaitable[None]:
        flight.must_finish = True
        ids = [it.id for it in accepted]
        return self._spool.mark_in_doubt(flight.claim, ids, session.host, session.address, self._clock.now(), signed)

    def _rest(self, mail_class: MailClass, failures: int) -> float:
        """A host that is down rests for other mail; urgent mail heeds it where another lives, and goes on to that one."""
        return schedule.rest(self.settings.classes[max(mail_class, MailClass.NORMAL)], failures, self._chance.random())

    async def _broken_off(self, flight: _Flight, attempt: Attempt, error: BaseException) -> None:
        """Raises `error` again, but for a bug of ours: this mail waits then, no other is touched."""
        claim = flight.claim
        if isinstance(error, asyncio.CancelledError):
            if not flight.must_finish:  # else the dot may be out: the mark stays, for the next start to find
                await asyncio.shield(self._let_go(claim))
            raise error
        if isinstance(error, SpoolError):
            await self._give_back(claim)
        if isinstance(error, SpoolError) or not isinstance(error, Exception):
            raise error
        self._observer(Trouble("error", f"delivery of {claim.queue_id} failed inside", repr(error)))
        verdict = _failed_inside(flight.must_finish)
        attempt.conclusions.update({it.id: Conclusion(verdict) for it in attempt.open})

    async def _let_go(self, claim: Claim) -> None:
        """At a stop: nothing was sent, and where this fails too, claims end with the daemon."""
        with suppress(SpoolError):
            await self._spool.release(claim, self._clock.now())

    # ------------------------------------------------ results
    async def _give_back(self, claim: Claim) -> None:
        await self._persist(f"{claim.queue_id} can't be given back", partial(self._spool.release, claim))

    def _results(self, claim: Claim, conclusions: dict[int, Conclusion]) -> list[RecipientResult]:
        now = self._clock.now()
        doubts = self.settings.doubts
        rules = ResultRules(self.settings.classes[claim.mail_class], doubts.rest_of(claim.in_doubt), doubts.alerts)
        chance = self._chance.random()  # one for all: what waits together goes in one transaction again
        results = [
            result(rules, claim, it, conclusions[it.id], now, chance)
            for it in claim.recipients
            if it.id in conclusions
        ]
        return self._alarms.raised(claim, results, doubts.alerts, now)

    async def _record(self, claim: Claim, results: Sequence[RecipientResult], trials: Sequence[Trial]) -> None:
        settlement = Settlement(claim, tuple(results), tuple(trials))
        settled = await self._persist(
            f"the result of {claim.queue_id} can't be recorded", partial(self._spool.settle, settlement)
        )
        self._tell(claim, results, trials, settled)
        await self._learn(claim, results)

    async def _persist(self, failing: str, end: Callable[[float], Awaitable[T]]) -> T:
        """The end of a claim is a fact: it is given to the spool until it sticks."""
        failed = False
        try:
            while True:
                try:
                    return await end(self._clock.now())
                except SpoolError as error:
                    if not failed:
                        failed = True
                        self._unrecorded += 1
                        self._observer(Trouble("error", f"{failing}; trying until it can", str(error)))
                    await asyncio.sleep(PERSIST_INTERVAL)
        finally:
            self._unrecorded -= failed

    def _tell(
        self,
        claim: Claim,
        results: Sequence[RecipientResult],
        trials: Sequence[Trial],
        settled: Sequence[SettledRecipient],
    ) -> None:
        for trial in trials:
            self._observer(
                Attempted(claim.queue_id, claim.key, claim.destination, trial.host, trial.address, trial.phase, trial.reply)
            )
        states = {it.recipient_id: it for it in settled}
        addresses = {it.id: it.address for it in claim.recipients}
        now = self._clock.now()
        for it in results:
            if (state := states.get(it.recipient_id)) is None:
                continue
            self._observer(
                Settled(
                    queue_id=claim.queue_id,
                    key=claim.key,
                    recipient=addresses[it.recipient_id],
                    outcome=OUTCOMES[state.status],
                    attempt=state.attempts,
                    host=it.host,
                    address=it.address,
                    tls=it.tls,
                    reply=it.reply,
                    remote_id=it.remote_id,
                    next_attempt_at=it.next_attempt_at,
                    delay=max(0.0, now - claim.accepted_at),
                    category=it.category,
                )
            )


def _still_in_doubt(recipient: ClaimedRecipient) -> Conclusion:
    reply = recipient.reply or finding("4.4.2", "the reply to the final dot was never read")
    verdict = Verdict(Disposition.TRANSIENT, Scope.TRANSACTION, reply.status, reply, Phase.FINAL)
    return Conclusion(verdict, recipient.remote_host, recipient.remote_address, counted=False)


def _failed_inside(in_doubt: bool) -> Verdict:
    reply = finding("4.3.0", "internal error; the log has the details")
    return Verdict(Disposition.TRANSIENT, Scope.TRANSACTION, "4.3.0", reply, Phase.FINAL, in_doubt)
