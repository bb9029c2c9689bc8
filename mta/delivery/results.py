"""From verdicts to what is settled: next attempts, give-up, notices. Pure; the rules are `policy.schedule`'s and
`policy.notices`'."""

from dataclasses import dataclass

from mta.model.envelope import Notice
from mta.model.lifecycle import Event, Status
from mta.model.outcome import Disposition, Verdict
from mta.policy import schedule
from mta.policy.notices import notices_for
from mta.policy.schedule import RetryPolicy
from mta.policy.trace import remote_queue_id
from mta.spool.base import Claim, ClaimedRecipient, RecipientResult


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A verdict on a recipient and where it was had. `refusals` as in `ClaimedRecipient`; `counted` False where nothing
    was tried: then it is due again after `at_least` seconds, whatever its schedule."""

    verdict: Verdict
    host: str = ""
    address: str = ""
    tls: str = ""
    refusals: int = 0
    counted: bool = True
    at_least: float = 0.0


@dataclass(frozen=True, slots=True)
class ResultRules:
    """`doubt_delay` is how long a doubt rests before it is sent again; None: a person decides. `alerts` as in
    `notices_for`."""

    policy: RetryPolicy
    doubt_delay: float | None
    alerts: tuple[Notice, ...] = (Notice.ALERT,)


def result(
    rules: ResultRules, claim: Claim, recipient: ClaimedRecipient, conclusion: Conclusion, now: float, chance: float
) -> RecipientResult:
    """What is recorded of one recipient after an attempt that ended at `now`."""
    event, at = _event(rules, claim, recipient, conclusion, now, chance)
    held = event is Event.DOUBTED and at is None
    warn = event in (Event.DEFERRED, Event.DOUBTED) and schedule.warning_due(claim.warn_at, recipient.warned, now)
    return RecipientResult(
        recipient_id=recipient.id,
        event=event,
        reply=conclusion.verdict.reply,
        next_attempt_at=at,
        counted=conclusion.counted,
        phase=conclusion.verdict.phase,
        host=conclusion.host,
        address=conclusion.address,
        tls=conclusion.tls,
        remote_id=remote_queue_id(conclusion.verdict.reply.text) if event is Event.DELIVERED else "",
        refusals=conclusion.refusals,
        doubted=conclusion.verdict.in_doubt,
        notices=notices_for(claim.kind, claim.reverse_path, event, held_doubt=held, warn=warn, alerts=rules.alerts),
    )


def _event(
    rules: ResultRules, claim: Claim, recipient: ClaimedRecipient, conclusion: Conclusion, now: float, chance: float
) -> tuple[Event, float | None]:
    verdict = conclusion.verdict
    if verdict.disposition is Disposition.DELIVERED:
        return Event.DELIVERED, None
    if verdict.disposition is Disposition.PERMANENT:
        return Event.REFUSED, None
    if verdict.in_doubt and rules.doubt_delay is None:
        return Event.DOUBTED, None
    if not conclusion.counted:
        spent = schedule.used_up(rules.policy, recipient.attempts, claim.expires_at, now)
        at = None if spent else min(now + conclusion.at_least, claim.expires_at)
    else:
        at_least = (rules.doubt_delay or 0.0) if verdict.in_doubt else 0.0
        at = schedule.next_attempt(rules.policy, recipient.attempts + 1, claim.expires_at, now, chance, at_least)
    if at is None:
        return Event.GAVE_UP, None
    return (Event.DOUBTED if verdict.in_doubt else Event.DEFERRED), at


def given_up_in_doubt(claim: Claim, policy: RetryPolicy, now: float) -> bool:
    """A give-up, by age or by attempts, that came while in doubt ends the doubt without one more copy (interface.md
    section 4)."""
    return all(
        it.status is Status.IN_DOUBT and schedule.used_up(policy, it.attempts, claim.expires_at, now)
        for it in claim.recipients
    )
