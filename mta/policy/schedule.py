"""When to try again, when to warn, when to give up (RFC 5321 section 4.5.4.1).

Rules: a message's age counts from its own acceptance, never from its host's trouble; the last attempt is made when the
age is used up, not one interval before; nothing is given up without an attempt at or after that instant, so a clock
that leaps forward costs one early attempt and no mail.
"""

from dataclasses import dataclass

REST_LIMIT = 300.0
"""The longest rest of a destination that could not be reached, in seconds: it is probed at least so often."""
URGENT_REST = 1.0
"""The rest for urgent mail, in seconds: a code is not to wait for what befell a newsletter, and nobody is hammered."""
LAST_TRY = 1.0
"""Seconds before a deadline within which no further try is planned."""
GREYLIST_WAIT = 300.0
"""Seconds after which a server that greylists us is tried again for the first time: what most of them ask for."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """One class's schedule; seconds. The wait after attempt n is min(first_retry * factor**(n-1), max_interval), times a
    factor drawn evenly from [1-jitter, 1+jitter]. `max_attempts` 0: no cap but the age. `warn_after` 0: never. `deadline` is
    what mail without one of its own gets, counted from its release; 0: none."""

    first_retry: float
    factor: float
    max_interval: float
    jitter: float
    give_up_after: float
    max_attempts: int
    warn_after: float
    deadline: float = 0.0

    def expires_at(self, accepted_at: float) -> float:
        return accepted_at + self.give_up_after

    @property
    def longest(self) -> float:
        """The longest wait between two attempts."""
        return self.max_interval * (1 + self.jitter)

    def deliver_by_at(self, start: float) -> float | None:
        return start + self.deadline if self.deadline else None

    def warn_at(self, accepted_at: float) -> float | None:
        return accepted_at + self.warn_after if self.warn_after else None


DEFAULTS = {
    "urgent": RetryPolicy(1, 2.0, 300, 0.5, 3600, 0, 600),
    "normal": RetryPolicy(60, 2.0, 4 * 3600, 0.5, 5 * 86400, 0, 4 * 3600),
    "bulk": RetryPolicy(300, 2.0, 8 * 3600, 0.5, 3 * 86400, 0, 0),
}


def interval(policy: RetryPolicy, attempt: int, chance: float) -> float:
    """The wait after attempt number `attempt` (from 1), in seconds; `chance` is from [0, 1)."""
    exponent = min(attempt - 1, 64)  # factor**64 is past every max_interval and still a float
    wait = min(policy.first_retry * policy.factor**exponent, policy.max_interval)
    return wait * (1 - policy.jitter + 2 * policy.jitter * chance)


def greylist_wait(policy: RetryPolicy, chance: float) -> float:
    """The wait before the first retry at a server that greylists us, in seconds; at most a tenth longer than that, and never
    shorter, since whoever comes too early may have to begin anew."""
    return min(GREYLIST_WAIT, policy.max_interval) * (1 + chance / 10)


def used_up(policy: RetryPolicy, attempts: int, expires_at: float, now: float) -> bool:
    """Whether age or attempts (those made so far) are spent."""
    return now >= expires_at or bool(policy.max_attempts and attempts >= policy.max_attempts)


def next_attempt(
    policy: RetryPolicy,
    attempt: int,
    expires_at: float,
    now: float,
    chance: float,
    at_least: float = 0.0,
    deadline: float | None = None,
    wait: float | None = None,
) -> float | None:
    """When to try again after attempt number `attempt` failed for the time being at `now`; None: give up. `at_least` is a
    wait that the failure itself demands (a doubt), `wait` one in place of the schedule's. Never later than `expires_at`. A
    wait that would pass `deadline` is half of what is left instead, as long as that is a second: so there is a last try
    before it."""
    if used_up(policy, attempt, expires_at, now):
        return None
    own = interval(policy, attempt, chance) if wait is None else wait
    at = before_deadline(now, now + max(own, at_least), deadline)
    return min(at, expires_at)


def before_deadline(now: float, at: float, deadline: float | None) -> float:
    """The next try at `at`, or earlier, so that it does not sleep past a deadline."""
    if deadline is None or at < deadline:
        return at
    left = deadline - now
    return now + left / 2 if left / 2 >= LAST_TRY else max(deadline, now)


def rest(policy: RetryPolicy, failures: int, chance: float) -> float:
    """How long a destination or host rests after its `failures`-th failure in a row (from 1), in seconds."""
    return min(interval(policy, failures, chance), REST_LIMIT)


def warning_due(warn_at: float | None, warned: bool, now: float) -> bool:
    """Whether the "delayed" DSN is due with a failure at `now`."""
    return warn_at is not None and not warned and now >= warn_at
