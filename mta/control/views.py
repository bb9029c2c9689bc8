"""What the spool shows, as JSON documents: names, order and form as interface.md section 5 pins them.

Rules: the pinned keys come first, in their order; what we add stands behind them. Null where there is nothing. Times are
RFC 3339 in UTC with milliseconds.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from mta.control.health import HealthRules, health
from mta.control.state import DaemonState, DestinationState, LimitState
from mta.model.envelope import MailClass
from mta.model.instant import rfc3339
from mta.model.lifecycle import Status
from mta.model.reply import Reply
from mta.spool.base import Changed, ClassCount, MessageView, Overview, RecipientView, TimelineEntry

Json = dict[str, Any]

DESTINATIONS_SHOWN = 50
CHANGES_SHOWN = 1000


# ---------------------------------------------------------------- messages
def message_document(view: MessageView, *, timeline: bool) -> Json:
    """As `show` prints it, and each of `queue` (without its timeline)."""
    document: Json = {
        "queue_id": view.queue_id,
        "message_id": view.message_id or None,
        "idempotency_key": view.key or None,
        "sender": view.reverse_path,
        "subject": view.subject or None,
        "size": view.size,
        "class": view.mail_class.label,
        "accepted_at": rfc3339(view.accepted_at),
        "expires_at": rfc3339(view.expires_at),
        "deliver_by": rfc3339(view.deliver_by.at) if view.deliver_by else None,
        "not_before": rfc3339(view.not_before),
        "recipients": [_recipient(recipient) for recipient in view.recipients],
    }
    if timeline:
        document["timeline"] = [_entry(entry) for entry in view.timeline]
    return document | {
        "kind": view.kind.value,
        "damaged": view.damaged or None,
        "deliver_by_mode": view.deliver_by.mode.value if view.deliver_by else None,
        "priority": view.priority,
        "ret": view.ret or None,
        "envid": view.envid or None,
        "submitter": view.submitter or None,
        "require_tls": view.require_tls,
        "tls_optional": view.tls_optional,
        "untold": view.untold,
    }


def _recipient(view: RecipientView) -> Json:
    return {
        "address": view.address,
        "status": view.status.value,
        "attempts": view.attempts,
        "doubts": view.doubts,
        "next_attempt_at": rfc3339(view.next_attempt_at),
        "finished_at": rfc3339(view.finished_at),
        "remote_host": view.remote_host or None,
        "remote_address": view.remote_address or None,
        "remote_id": view.remote_id or None,
        "reply": reply_document(view.reply),
        "original": view.original or None,
        "held_by_order": view.standing_hold or None,
        "notify": view.notify or None,
        "orcpt": view.orcpt or None,
        "category": view.category or None,
    }


def reply_document(reply: Reply | None) -> Json | None:
    return {"code": reply.code, "enhanced": reply.enhanced, "text": reply.text} if reply else None


def _entry(entry: TimelineEntry) -> Json:
    own = {"at": rfc3339(entry.at), "event": entry.event, "recipient": entry.recipient or None}
    return own | {name: _detail(name, value) for name, value in entry.detail.items() if name not in own}


def _detail(name: str, value: object) -> object:
    return rfc3339(value) if name.endswith("_at") and isinstance(value, int | float) else value


# ---------------------------------------------------------------- status
def status_document(
    overview: Overview, state: DaemonState, rules: HealthRules, *, version: str, hostname: str, now: float
) -> Json:
    judged = health(overview, rules, now)
    present = state.destinations()
    return {
        "version": version,
        "uptime_s": round(state.uptime(), 1),
        "hostname": hostname,
        "recipients": {status.value: overview.recipients.get(status, 0) for status in Status},
        "classes": {mail_class.label: _class_count(overview, mail_class, now) for mail_class in MailClass},
        "destinations": _destinations(overview, present),
        "sessions": sum(destination.sessions for destination in present.values()),
        "rates": {name: round(rate, 1) for name, rate in state.rates().items()},
        "categories": dict(state.categories()),
        "held": list(overview.held_destinations),
        "damaged": overview.damaged,
        "untold": overview.untold,
        "health": {"level": judged.level.value, "reasons": list(judged.reasons)},
        "loop_lag": round(state.loop_lag(), 3),
    }


def _class_count(overview: Overview, mail_class: MailClass, now: float) -> Json:
    count = overview.classes.get(mail_class, ClassCount(0, None))
    oldest = None if count.oldest_at is None else round(max(now - count.oldest_at, 0), 1)
    return {"pending": count.pending, "oldest_s": oldest}


def _destinations(overview: Overview, present: Mapping[str, DestinationState]) -> list[Json]:
    """Those with waiting recipients, then those with a session or at rest: the spool tells of the largest only, but of
    all where it tells of fewer than are shown."""
    rows = [
        _destination(view.destination, view.waiting, view.last_reply, present.get(view.destination))
        for view in overview.largest
    ]
    waiting = {view.destination for view in overview.largest}
    others = (_destination(name, 0, "", state) for name, state in present.items() if name not in waiting)
    return [*rows, *islice(others, DESTINATIONS_SHOWN - len(rows))]


def _destination(name: str, pending: int, last_reply: str, state: DestinationState | None) -> Json:
    return {
        "domain": name,
        "pending": pending,
        "sessions": state.sessions if state else 0,
        "suspended_until": rfc3339(state.suspended_until) if state else None,
        "last_reply": (state.last_reply if state else "") or last_reply or None,
        "limit": _limit(state.limit) if state and state.limit else None,
    }


def _limit(limit: LimitState) -> Json:
    return {
        "allowed": limit.allowed,
        "cap": limit.cap,
        "why": "learned" if limit.learned else "configured" if limit.configured else "default",
        "learned_from": limit.learned or None,
        "rate": limit.rate or None,
        "next_message_at": rfc3339(limit.next_at),
        "shared_as": limit.group or None,
    }


# ---------------------------------------------------------------- what a verb did
def changes_document(changes: Sequence[Changed]) -> Json:
    """`queue_id` is null where a whole destination was meant, which then stands for the recipient."""
    return {
        "changed": [
            {
                "queue_id": change.queue_id or None,
                "recipient": change.address,
                "before": change.before.value,
                "after": change.after.value,
                "note": change.note or None,
            }
            for change in changes[:CHANGES_SHOWN]
        ],
        "total": len(changes),
    }
