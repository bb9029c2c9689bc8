"""Counters since start and over the last minute."""

import pytest
from msgspec.structs import replace

from mta.model.events import Accepted, Fact, Ordered, Refused, Reported, Settled, Trouble
from mta.observe.metrics import NAMES, Metrics


class Ticks:
    def __init__(self) -> None:
        self.at = 5000.5

    def __call__(self) -> float:
        return self.at


def settled(outcome: str) -> Settled:
    return Settled("q", "", "a@b", outcome, 1, "", "", "", None, "", None, 0.0)


OUTCOMES = ("sent", "deferred", "failed", "dead", "in_doubt", "held", "cancelled")


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (Accepted("q", "", "<m>", "", 3, 1, "normal", "mail", "c"), "accepted"),
        (Refused("c", "554", "r"), "refused"),
        (Reported("q", "", "dsn", "a@b", 1), "reports"),
        (Trouble("warning", "w"), "troubles"),
        *((settled(outcome), outcome) for outcome in OUTCOMES),
    ],
)
def test_each_fact_counts_once(fact: Fact, name: str):
    metrics = Metrics(Ticks())
    metrics(fact)
    shown = metrics.snapshot()
    assert shown.since_start == shown.per_minute == {key: int(key == name) for key in NAMES}


def test_what_is_no_event_of_the_path_counts_nothing():
    metrics = Metrics(Ticks())
    metrics(Ordered("hold", "q", "a@b", "held"))
    metrics(Trouble("debug", "details"))
    metrics(settled("never heard of"))
    assert set(metrics.snapshot().since_start.values()) == {0}


def test_the_rate_forgets_what_is_older_than_a_minute():
    ticks = Ticks()
    metrics = Metrics(ticks)
    seen = []
    for _ in range(90):
        metrics(settled("sent"))
        ticks.at += 1
        seen.append(metrics.snapshot().per_minute["sent"])
    assert seen[:3] == [1, 2, 3]
    assert seen[-1] == 59
    ticks.at += 58
    assert metrics.snapshot().per_minute["sent"] == 1
    ticks.at += 10_000
    shown = metrics.snapshot()
    assert (shown.since_start["sent"], shown.per_minute["sent"]) == (90, 0)


def test_refusals_are_counted_by_their_kind():
    metrics = Metrics(Ticks())
    for kind in ("mailbox-full", "greylisting", "greylisting", ""):
        metrics(replace(settled("deferred"), category=kind))
    assert list(metrics.snapshot().categories.items()) == [("greylisting", 2), ("mailbox-full", 1)]
