"""From verdicts to what is settled: next attempts, give-up, notices. Pure; the rules are `policy.schedule`'s and
`policy.notices`'."""

import math

from msgspec import Struct

from mta.model.category import Category
from mta.model.envelope import DeliverBy, Kind, MailClass, Notice
from mta.model.lifecycle import Event, Status
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy import schedule
from mta.policy.compose import date_time
from mta.policy.notices import notices_for
from mta.policy.schedule import RetryPolicy
from mta.policy.tls import Needs
from mta.policy.trace import remote_queue_id
from mta.policy.wisdom import category
from mta.spool.base import Claim, ClaimedRecipient, RecipientResult, Trial


class Conclusion(Struct, frozen=True):
    """A verdict on a recipient and where it was had. `refusals` as in `ClaimedRecipient`; `counted` False where nothing
    was tried: then it is due again after `at_least` seconds, whatever its schedule. `relayed`: with a delivery, that the
    sender is to be told of it (`policy.transaction.tells_relay`, `tells_success`). `signed`: the keys that signed it;
    `policy`: what the encryption had to satisfy, in words."""

    verdict: Verdict
    host: str = ""
    address: str = ""
    tls: str = ""
    refusals: int = 0
    counted: bool = True
    at_least: float = 0.0
    relayed: bool = False
    signed: str = ""
    policy: str = ""


class ResultRules(Struct, frozen=True):
    """`doubt_delay` is how long a doubt rests before it is sent again; None: a person decides. `alerts` as in
    `notices_for`."""

    policy: RetryPolicy
    doubt_delay: float | None
    alerts: tuple[Notice, ...] = (Notice.ALERT,)


def result(
    rules: ResultRules, claim: Claim, recipient: ClaimedRecipient, conclusion: Conclusion, now: float, chance: float
) -> RecipientResult:
    """What is recorded of one recipient after an attempt that ended at `now`."""
    kind = category(conclusion.verdict.reply, conclusion.verdict.phase)
    greylisted = kind is Category.GREYLISTING and _is_new(kind, recipient)
    event, at = _event(rules, claim, recipient, conclusion, now, chance, greylisted=greylisted)
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
        category=kind,
        signed=conclusion.signed,
        policy=conclusion.policy,
        notices=notices_for(
            claim.kind,
            claim.reverse_path,
            event,
            held_doubt=held,
            warn=warn,
            alerts=rules.alerts,
            relayed=conclusion.relayed,
            notify=recipient.notify,
        ),
    )


def _is_new(kind: Category, recipient: ClaimedRecipient) -> bool:
    """Whether what was answered last was of another kind."""
    return recipient.reply is None or category(recipient.reply, "") is not kind


def _event(
    rules: ResultRules,
    claim: Claim,
    recipient: ClaimedRecipient,
    conclusion: Conclusion,
    now: float,
    chance: float,
    *,
    greylisted: bool,
) -> tuple[Event, float | None]:
    verdict = conclusion.verdict
    if verdict.disposition is Disposition.DELIVERED:
        return Event.DELIVERED, None
    if verdict.disposition is Disposition.PERMANENT:
        return Event.REFUSED, None
    if verdict.in_doubt and rules.doubt_delay is None:
        return Event.DOUBTED, None
    deadline = claim.deliver_by.at if claim.deliver_by is not None and claim.deliver_by.fails else None
    if not conclusion.counted:
        spent = schedule.used_up(rules.policy, recipient.attempts, claim.expires_at, now)
        wait_over = schedule.before_deadline(now, now + conclusion.at_least, deadline)
        at = None if spent else min(wait_over, claim.expires_at)
    else:
        at_least = (rules.doubt_delay or 0.0) if verdict.in_doubt else 0.0
        attempts = recipient.attempts + 1
        wait = schedule.greylist_wait(rules.policy, chance) if greylisted else None
        at = schedule.next_attempt(rules.policy, attempts, claim.expires_at, now, chance, at_least, deadline, wait)
    if at is None:
        return Event.GAVE_UP, None
    return (Event.DOUBTED if verdict.in_doubt else Event.DEFERRED), at


def rests_heeded(claim: Claim, now: float) -> float:
    """For how many seconds an attempt heeds the rest of a host: not at all in the last one, before the give-up or the
    deadline; for a moment where it is urgent."""
    by = claim.deliver_by
    if now >= claim.expires_at or (by is not None and by.fails and by.at - now < 2 * schedule.LAST_TRY):
        return 0.0
    return schedule.URGENT_REST if claim.mail_class is MailClass.URGENT else math.inf


def given_up_in_doubt(claim: Claim, policy: RetryPolicy, now: float) -> bool:
    """A give-up, by age or by attempts, that came while in doubt ends the doubt without one more copy (interface.md
    section 4)."""
    for it in claim.recipients:
        if it.status is not Status.IN_DOUBT or not schedule.used_up(policy, it.attempts, claim.expires_at, now):
            return False
    return True


def needs(claim: Claim) -> Needs:
    """A report of what became of a message goes on without what the message needed (RFC 8689 section 5)."""
    return Needs(claim.require_tls and claim.kind is not Kind.DSN, claim.tls_optional, claim.kind is not Kind.TLS_REPORT)


# ---------------------------------------------------------------- deadlines
def too_late(claim: Claim, recipient: ClaimedRecipient, last: Trial | None, now: float) -> Conclusion:
    """The deadline came while a host was being looked for, `last` the one that was tried in vain: nothing is begun, and
    what is left of the time is waited for. An attempt where a host was tried."""
    left = max(0.0, claim.deliver_by.at - now) if claim.deliver_by is not None else 0.0
    if last is None:
        reply = recipient.reply or finding("4.4.7", "no time was left for an attempt")
        verdict = Verdict(Disposition.TRANSIENT, Scope.TRANSACTION, reply.status, reply, Phase.MAIL)
        return Conclusion(verdict, counted=False, at_least=left)
    verdict = Verdict(Disposition.TRANSIENT, Scope.TRANSACTION, last.reply.status, last.reply, Phase(last.phase))
    return Conclusion(verdict, last.host, last.address, last.tls, at_least=left)


def expired(claim: Claim, recipient: ClaimedRecipient, deliver_by: DeliverBy) -> RecipientResult:
    """What is recorded of one recipient whose deadline has passed unmet: the end, or, where it only asks for a word, that
    word (RFC 2852 sections 4.1.2 and 4.1.3)."""
    last = f"; the last answer was: {recipient.reply}" if recipient.reply is not None else ""
    text = f"not delivered by {date_time(deliver_by.at)}, the time asked for{last}"
    if deliver_by.fails:
        notices = notices_for(
            claim.kind, claim.reverse_path, Event.REFUSED, held_doubt=False, warn=False, notify=recipient.notify
        )
        return RecipientResult(recipient.id, Event.REFUSED, finding("5.4.7", text), counted=False, notices=notices)
    return RecipientResult(
        recipient.id,
        Event.DEFERRED,
        finding("4.4.7", text),
        next_attempt_at=recipient.next_at,
        counted=False,
        refusals=recipient.refusals,
        notices=notices_for(
            claim.kind, claim.reverse_path, Event.DEFERRED, held_doubt=False, warn=False, late=True, notify=recipient.notify
        ),
    )
