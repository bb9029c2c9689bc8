"""Whose turn is next."""

import random

import pytest

from mta.model.envelope import MailClass
from mta.policy.agenda import Agenda, Caps, Turn
from mta.policy.concurrency import Window
from mta.policy.destinations import DestinationRule, Destinations, Relay, RouteRule
from mta.policy.lanes import LaneRules, reserve
from mta.policy.rates import Rate
from mta.policy.shares import Shares
from mta.ports.scheduling import Crowded

URGENT, NORMAL, BULK = MailClass
DEFAULTS = LaneRules()


def agenda(sessions: int = 20, per_destination: int = 20, rules: LaneRules = DEFAULTS) -> Agenda:
    return Agenda(Caps(sessions, rules), Shares(sessions=per_destination))


def begun(one: Agenda, now: float = 0.0) -> list[Turn]:
    """All that may begin, each with more behind it."""
    turns = []
    while turn := one.begin(now):
        turns.append(turn)
        one.more(turn, now)
    return turns


def progressed(one: Agenda, destination: str, times: int) -> None:
    for _ in range(times):
        one.progress(destination, 0.0)


def proven(one: Agenda, destination: str, sessions: int) -> None:
    """It was found to bear so many."""
    one.news(destination, BULK, 0.0)
    one.destinations[destination].site.window = Window(sessions)


def test_what_a_ring_makes_due_is_one_turn_and_a_claim_with_more_behind_it_two() -> None:
    one = agenda()
    one.news("a.test", BULK, 0.0)
    one.news("a.test", BULK, 0.0)
    first = one.begin(0.0)
    assert first is not None and one.begin(0.0) is None
    one.more(first, 0.0)
    assert one.begin(0.0) and one.begin(0.0) and one.begin(0.0) is None


def test_a_turn_that_found_nothing_ends_what_was_believed_unless_there_was_news() -> None:
    one = agenda()
    one.news("a.test", BULK, 0.0)
    turn = one.begin(0.0)
    assert turn is not None
    one.news("a.test", BULK, 0.0)
    one.no_more(turn, 0.0)
    second = one.begin(0.0)
    assert second is not None, "what was rung while it looked is not lost"
    one.no_more(second, 0.0)
    one.end(turn, 0.0)
    one.end(second, 0.0)
    assert not one.is_due(second) and one.begin(0.0) is None


@pytest.mark.parametrize("cap", [1, 2, 3, 4, 10, 20])
def test_bulk_has_all_but_the_reserve_and_urgent_mail_the_reserve(cap: int) -> None:
    one = agenda(100, cap)
    proven(one, "a.test", cap)
    one.news("a.test", BULK, 0.0)
    assert len(begun(one)) == cap - reserve(DEFAULTS, cap)
    one.news("a.test", URGENT, 0.0)
    assert [it.mail_class for it in begun(one)] == [URGENT] * reserve(DEFAULTS, cap)


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_after_trouble_the_reserve_is_of_what_is_allowed(allowed: int) -> None:
    one = agenda(100, 20)
    one.trouble("a.test", 0.0, 60.0)
    progressed(one, "a.test", allowed - 1)
    one.news("a.test", BULK, 61.0)
    bulk = begun(one, 61.0)
    assert len(bulk) == allowed - reserve(DEFAULTS, allowed)
    one.news("a.test", URGENT, 61.0)
    assert len(begun(one, 61.0)) == reserve(DEFAULTS, allowed)
    one.end(bulk[0], 61.0)
    assert [it.mail_class for it in begun(one, 61.0)] == [URGENT], "the next free session goes to the highest class"


@pytest.mark.parametrize("seed", range(20))
def test_the_turns_that_a_class_is_owed_are_not_another_ones_of_the_same_destination(seed: int) -> None:
    """One destination has endless normal and bulk mail, many a single normal one: each has its turn before the one has had
    a few more than there are sessions."""
    chance = random.Random(seed)
    one, running, passed = agenda(4, 5, LaneRules(0.2, 0.3)), [], dict[str, int]()
    for mail_class in (NORMAL, BULK):
        one.news("endless.test", mail_class, 0)
    for number in range(500):
        if chance.random() < 0.4:
            one.news(f"d{number}.test", NORMAL, 0)
            passed[f"d{number}.test"] = 0
        while turn := one.begin(0):
            running.append(turn)
            passed.pop(turn.destination, None)
            if turn.destination == "endless.test":
                one.more(turn, 0)
            if turn.destination == "endless.test" and turn.mail_class is NORMAL:
                passed = {name: count + 1 for name, count in passed.items()}
            assert max(passed.values(), default=0) <= 4 + 5, passed
        one.end(running.pop(chance.randrange(len(running))), 0)


def test_a_rest_is_over_when_it_is_over_for_each_class_at_its_time() -> None:
    one = agenda()
    for mail_class in MailClass:
        one.news("a.test", mail_class, 0.0)
    one.trouble("a.test", 0.0, 60.0)
    assert (one.next_change, one.begin(0.9)) == (1.0, None)
    one.end_rests(1.0)
    turn = one.begin(1.0)
    assert turn is not None and turn.mail_class is URGENT
    one.trouble("a.test", 1.5, 60.0)
    one.end(turn, 1.5)
    one.end_rests(60.0)
    assert [it.mail_class for it in (one.begin(60.0),) if it] == [NORMAL]


def test_forgotten_is_what_neither_waits_nor_rests_nor_has_failed() -> None:
    one = agenda()
    for name in ("idle.test", "due.test", "failed.test"):
        one.news(name, NORMAL, 0.0)
    idle = next(it for it in begun(one) if it.destination == "idle.test")
    one.no_more(idle, 0.0)
    for name in ("idle.test", "due.test"):
        one.forget(name)
    assert "idle.test" in one.destinations, "a turn runs there"
    one.trouble("failed.test", 0.0, 60.0)
    one.forget("failed.test")
    assert {"due.test", "failed.test"} <= set(one.destinations)


@pytest.mark.parametrize("seed", range(5))
def test_the_lines_are_what_the_rules_say_after_anything(seed: int) -> None:
    """No lane stands in line that may not begin, none that may is missing: whatever happened, in any order."""
    chance, now, running = random.Random(seed), 0.0, list[Turn]()
    one = agenda(chance.choice([2, 5, 20]), chance.choice([1, 3, 10]))
    for _ in range(2000):
        now += chance.choice([0.0, 0.0, 0.1, 2.0])
        name = f"d{chance.randrange(4)}.test"
        one.end_rests(now)
        act = chance.randrange(6)
        if act == 0:
            one.news(name, chance.choice(list(MailClass)), now)
        elif act == 1 and (turn := one.begin(now)):
            running.append(turn)
            one.more(turn, now)
        elif act == 2 and running:
            turn = running.pop(chance.randrange(len(running)))
            one.no_more(turn, now)
            one.end(turn, now)
        elif act == 3:
            one.trouble(name, now, chance.uniform(0, 30))
        elif act == 4:
            one.progress(name, now)
        elif act == 5:
            one.wake(name, now)
        for name, it in one.destinations.items():
            assert [name in line for line in it.group.lines] == [it.waits(of, now) for of in MailClass]
        for name, group in one.groups.items():
            own = one._own_order(group, now).classes
            assert [name in line for line in one._lines] == [of in own for of in MailClass]
            assert group.members == sum(it.group is group for it in one.destinations.values())
    assert sum(one.running) == len(running)


TABLES = (
    Destinations(),
    Destinations((DestinationRule(("d0.test", "d1.test"), max_sessions=2, shared=True, rate=Rate(5, 10, 3)),)),
    Destinations((DestinationRule(("d1.test", "d2.test"), max_sessions=3, by_servers=True), DestinationRule(("*",), 4))),
    Destinations((), (RouteRule(("d2.test", "d3.test"), (Relay("relay.test", 25),)),)),
)


@pytest.mark.parametrize("seed", range(20))
def test_no_cap_and_no_rate_is_passed_whatever_happens_and_whoever_shares(seed: int) -> None:
    """RTY-05: turns, trouble, refusals, routing that is learned, reloads, in any order; and in the end all get through."""
    chance, now, running, names = random.Random(seed), 0.0, list[Turn](), [f"d{n}.test" for n in range(4)]
    shares, caps = Shares(chance.choice(TABLES), 5), Caps(8, LaneRules())
    one = Agenda(caps, shares)
    for step in range(3000):
        now += chance.choice([0.0, 0.0, 0.1, 2.0])
        name, act = chance.choice(names), chance.randrange(9)
        one.end_rests(now)
        if act == 0:
            one.news(name, chance.choice(list(MailClass)), now)
        elif act <= 2 and (turn := one.begin(now)):
            running.append(turn)
            one.more(turn, now)
            cap = shares.cap(turn.group.name, turn.group.limits).sessions
            assert sum(turn.group.running) <= cap and sum(one.running) <= 8
            assert turn.allowance is None or turn.allowance.ready >= 0
        elif act <= 4 and running:
            turn = running.pop(chance.randrange(len(running)))
            other = sum(turn.group.running) - 1
            if chance.random() < 0.2 and other:
                shares.crowded(Crowded(turn.destination, other, "421"))
            if chance.random() < 0.5:
                one.trouble(turn.destination, now, 30)
            else:
                one.progress(turn.destination, now)
            one.end(turn, now, chance.choice([0, 1, 1, 1, 2]))
            one.forget(turn.destination)
        elif act == 5 and one.allowances.thirsty:
            asked = one.allowances.ask(now)
            one.granted(asked, now) if chance.random() < 0.8 else one.allowances.withdraw(asked)
        elif act == 6:
            shares.routed(name, ["mx.test"])
        elif act == 7 and step % 10 == 0:
            shares.reconfigure(chance.choice(TABLES), 5)
            one.reconfigure(caps, now)
        elif act == 8:
            one.forget_idle(lambda name: False, now)
    for turn in running:
        one.end(turn, now)
    for name in names:
        one.news(name, NORMAL, now)
    served = set()
    for _ in range(100):
        now += 10
        one.end_rests(now)
        one.granted(one.allowances.ask(now), now)
        while turn := one.begin(now):
            served.add(turn.destination)
            one.no_more(turn, now)
            one.progress(turn.destination, now)
            one.end(turn, now)
    assert served == set(names), "nobody is forgotten"


def test_one_server_that_has_too_many_is_no_limit_for_all_that_share_a_table() -> None:
    tables = Destinations((DestinationRule(("*",), max_sessions=50, shared=True),))
    shares = Shares(tables)
    one = Agenda(Caps(100, DEFAULTS), shares)
    for name in ("a.test", "b.test"):
        one.news(name, NORMAL, 0.0)
    begun(one)
    shares.crowded(Crowded("a.test", 1, "421 too many connections"))
    one.progress("b.test", 0.0)
    assert one.cap("b.test").sessions == 50
