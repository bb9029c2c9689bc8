"""What `status --check` makes of the spool's state."""

import pytest

from mta.control.health import HealthRules, Level, Limits, health
from mta.model.envelope import MailClass
from mta.model.lifecycle import Status
from mta.spool.base import ClassCount, Overview

NOW = 1_800_000_000.0
RULES = HealthRules(
    warning=Limits(100, {MailClass.URGENT: 300.0, MailClass.NORMAL: 3600.0, MailClass.BULK: 0.0}),
    critical=Limits(1000, {MailClass.URGENT: 1800.0, MailClass.NORMAL: 0.0, MailClass.BULK: 0.0}),
)


def overview(waiting: int = 0, age: float = 0.0, mail_class: MailClass = MailClass.NORMAL, **more: object) -> Overview:
    recipients = {Status(name): number for name, number in more.items() if name in tuple(Status)}
    others = {name: number for name, number in more.items() if name not in tuple(Status)}
    classes = {mail_class: ClassCount(waiting, NOW - age if waiting else None)}
    return Overview(recipients, classes, **({"damaged": 0, "untold": 0, "held_destinations": (), "largest": ()} | others))


@pytest.mark.parametrize(
    ("state", "level", "reasons"),
    [
        (overview(), Level.OK, ()),
        (overview(99, 3599), Level.OK, ()),
        (overview(100), Level.WARNING, ("100 recipients waiting (limit 100)",)),
        (overview(1000), Level.CRITICAL, ("1000 recipients waiting (limit 1000)",)),
        (overview(1, 300, MailClass.URGENT), Level.WARNING, ("oldest urgent mail waits for 5 min (limit 5 min)",)),
        (overview(1, 1860, MailClass.URGENT), Level.CRITICAL, ("oldest urgent mail waits for 31 min (limit 30 min)",)),
        (overview(1, 3600), Level.WARNING, ("oldest normal mail waits for 1 h (limit 1 h)",)),
        (overview(1, 10**8), Level.WARNING, ("oldest normal mail waits for 1157 d 9 h (limit 1 h)",)),
        (overview(1, 10**8, MailClass.BULK), Level.OK, ()),
        (overview(dead=1), Level.WARNING, ("1 recipient given up (mta dead)",)),
        (overview(in_doubt=3), Level.OK, ()),
        (overview(held_doubts=2), Level.WARNING, ("2 recipients in doubt and held (mta dead)",)),
        (overview(damaged=1), Level.WARNING, ("1 message damaged (mta dead)",)),
        (overview(untold=4), Level.WARNING, ("4 failures could be told to nobody (mta dead)",)),
    ],
)
def test_a_state_and_its_level(state: Overview, level: Level, reasons: tuple[str, ...]) -> None:
    found = health(state, RULES, NOW)
    assert (found.level, found.reasons) == (level, reasons)


def test_the_worst_reason_is_told_first_and_no_cause_twice() -> None:
    found = health(overview(150, 1800, MailClass.URGENT, dead=2), RULES, NOW)
    assert found.level is Level.CRITICAL
    assert [reason.split()[0] for reason in found.reasons] == ["oldest", "150", "2"]


def test_nobody_who_could_be_told_is_a_warning() -> None:
    assert health(overview(), HealthRules(postmaster=False), NOW).level is Level.WARNING
