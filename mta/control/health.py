"""How the daemon is, in one word, as monitoring plugins have it. Pure.

Rules: the daemon judges, by its own configuration; who asks only passes it on. All reasons are told, the worst first. A
cause that is told as critical is not told as a warning too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mta.control.words import count, span
from mta.model.envelope import MailClass
from mta.model.lifecycle import Status
from mta.spool.base import ClassCount, Overview


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Limits:
    """`pending` recipients that wait, and the age of the oldest of a class in seconds, from which on it is worth telling;
    zero: never."""

    pending: int = 0
    oldest: Mapping[MailClass, float] | None = None


@dataclass(frozen=True, slots=True)
class HealthRules:
    """`postmaster`: whether there is one who gets reports and alerts."""

    warning: Limits = Limits()
    critical: Limits = Limits()
    postmaster: bool = True


@dataclass(frozen=True, slots=True)
class Health:
    level: Level
    reasons: tuple[str, ...]


def health(overview: Overview, rules: HealthRules, now: float) -> Health:
    """`now` in seconds since the epoch."""
    critical = dict(_beyond(overview, rules.critical, now))
    warned = {cause: text for cause, text in _beyond(overview, rules.warning, now) if cause not in critical}
    reasons = (*critical.values(), *warned.values(), *_standing(overview, rules))
    level = Level.CRITICAL if critical else Level.WARNING if reasons else Level.OK
    return Health(level, reasons)


def _beyond(overview: Overview, limits: Limits, now: float) -> Iterator[tuple[str, str]]:
    """What is beyond a limit, and how it is told."""
    waiting = sum(found.pending for found in overview.classes.values())
    if limits.pending and waiting >= limits.pending:
        yield "pending", f"{count(waiting, 'recipient')} waiting (limit {limits.pending})"
    for mail_class, limit in (limits.oldest or {}).items():
        since = overview.classes.get(mail_class, ClassCount(0, None)).oldest_at
        if limit and since is not None and now - since >= limit:
            yield mail_class.label, f"oldest {mail_class.label} mail waits for {span(now - since)} (limit {span(limit)})"


def _standing(overview: Overview, rules: HealthRules) -> Iterator[str]:
    """What waits for a person."""
    if dead := overview.recipients.get(Status.DEAD, 0):
        yield f"{count(dead, 'recipient')} given up (mta dead)"
    if overview.held_doubts:
        yield f"{count(overview.held_doubts, 'recipient')} in doubt and held (mta dead)"
    if overview.damaged:
        yield f"{count(overview.damaged, 'message')} damaged (mta dead)"
    if overview.untold:
        yield f"{count(overview.untold, 'failure')} could be told to nobody (mta dead)"
    if not rules.postmaster:
        yield "no postmaster who gets reports and alerts"
