"""Another configuration while the daemon runs, is down, or is just coming up."""

import msgspec
import pytest

from mta.app import reload
from mta.spool.base import DoubtPolicy
from tests.sim.faults import RELAY
from tests.sim.history import LONGEST, History
from tests.sim.mutations import MUTATIONS
from tests.sim.scenario import (
    Crash,
    DiskTrouble,
    DomainPlan,
    Email,
    Fault,
    HostPlan,
    Limits,
    Reload,
    Restart,
    Scenario,
    Settings,
)
from tests.sim.test_determinism import small
from tests.sim.world import Run, play

READ = "the configuration was read again"


def queue(character: str, settings: Settings, *faults: Fault) -> Scenario:
    """Ten emails to one server, from the first second on."""
    scenario = small()
    domain = msgspec.structs.replace(scenario.domains[0], character=character, until=1000.0)
    emails = tuple(Email(n, 1.0 + n / 10, "app@d0.example", ((0, "d0.example"),)) for n in range(10))
    return msgspec.structs.replace(
        scenario, days=0.1, heals_at=1000.0, settings=settings, domains=(domain,), emails=emails, faults=faults
    )


def lines(run: Run, *words: str) -> list[str]:
    return [line.partition(" ")[2] for line in run.trace if any(word in line for word in words)]


# ---------------------------------------------------------------- limits
def test_a_cap_that_is_lowered_while_a_queue_waits_is_kept() -> None:
    """And who did not hear of it is found out."""
    lowered = queue("crawling", Settings(), Reload(10.0, Settings(max_sessions_per_destination=1)))
    assert play(lowered).violation is None
    with MUTATIONS["reload of limits"].off():
        found = play(lowered).violation
    assert found is not None
    assert found.name == "a destination's sessions are capped"


def test_a_cap_that_is_raised_is_used_at_once() -> None:
    alone = Settings(max_sessions_per_destination=1)
    as_it_was, raised = play(queue("crawling", alone)), play(queue("crawling", alone, Reload(10.0, Settings())))
    assert raised.violation is None
    assert as_it_was.copies == raised.copies == 10
    assert last_copy_at(raised) < last_copy_at(as_it_was) / 2


def test_a_rate_of_one_domain_holds_at_once() -> None:
    limited = Settings(limits={"d0.example": Limits(rate="6/1m", burst=1)})
    run = play(queue("honest", Settings(), Reload(0.5, limited)))
    assert run.violation is None
    assert run.copies == 10
    assert last_copy_at(run) > 60


def last_copy_at(run: Run) -> float:
    return max(float(line.partition(" ")[0]) for line in run.trace if " took " in line)


# ---------------------------------------------------------------- when
def test_a_start_reads_what_was_changed_while_the_daemon_was_down() -> None:
    """Nobody has to be told: what a reload does not reach is reached all the same."""
    faults = Restart(5.0, 60.0), Reload(30.0, Settings(max_sessions_per_destination=1))
    with MUTATIONS["reload of limits"].off():
        run = play(queue("crawling", Settings(), *faults))
    assert run.violation is None
    assert not lines(run, READ)


def test_who_is_just_coming_up_reads_it_when_it_is_up() -> None:
    slow = DiskTrouble(0.0, 50.0, "slow")
    run = play(queue("honest", Settings(), slow, Reload(1.0, Settings(max_sessions=2))))
    assert run.violation is None
    assert lines(run, READ, " starts", " ready") == ["run 1 starts", "ready", READ]


def test_who_crashes_before_it_was_read_has_it_from_the_next_start() -> None:
    crash = Crash(9.9, "step", 1, 5.0, False)
    run = play(queue("crawling", Settings(), crash, Reload(9.9, Settings(max_sessions_per_destination=1))))
    assert (run.violation, run.crashes) == (None, 1)
    assert not lines(run, READ)


# ---------------------------------------------------------------- routes
def test_mail_goes_by_the_route_of_the_moment() -> None:
    """Straight, then by the relay, then straight again."""
    straight, relayed = Settings(relayed=False), Settings()
    scenario = queue("honest", straight, Reload(50.0, relayed), Reload(150.0, straight))
    host = HostPlan(RELAY, "198.51.98.1", 10, ("PIPELINING",), "none")
    emails = sorted(
        (msgspec.structs.replace(it, at=1.0 + 100 * (it.number % 3)) for it in scenario.emails), key=lambda it: it.at
    )
    relay = DomainPlan(RELAY, (host,))
    run = play(msgspec.structs.replace(scenario, emails=tuple(emails), relay=relay, by_relay=("d0.example",)))
    assert run.violation is None
    takers = [line.partition(" took ")[0] for line in lines(run, " took ")]
    assert takers == ["mx.d0.example"] * 4 + [RELAY] * 3 + ["mx.d0.example"] * 3


# ---------------------------------------------------------------- encryption
def in_clear_at_first() -> Scenario:
    """The server has no TLS yet, and a queue takes minutes; encryption is asked for from the tenth second on."""
    may = Settings(limits={"d0.example": Limits(tls="may")}, max_sessions_per_destination=1)
    scenario = queue("crawling", may, Reload(10.0, Settings(max_sessions_per_destination=1)))
    domain = msgspec.structs.replace(scenario.domains[0], tls="encrypt")
    return msgspec.structs.replace(scenario, domains=(domain,))


def test_encryption_that_is_asked_for_while_a_session_is_open_in_clear_is_had() -> None:
    scenario = in_clear_at_first()
    run = play(scenario)
    assert run.violation is None
    assert lines(run, "encryption is required"), "what waited did not go in clear"
    assert run.copies == 10


def test_who_goes_on_in_clear_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "_secure_anew", lambda *_: None)
    found = play(in_clear_at_first()).violation
    assert found is not None
    assert found.name == "what needs TLS is never sent in clear"


# ---------------------------------------------------------------- doubts
def test_a_doubt_that_waits_for_a_person_waits_whatever_comes_to_be_configured() -> None:
    held = queue("drops the reply", Settings(in_doubt="hold"), Reload(900.0, Settings(in_doubt="retry")))
    run = play(held)
    assert run.violation is None
    assert lines(run, "event=in_doubt")
    assert run.copies <= 10


def test_a_doubt_that_is_sent_again_though_a_person_was_to_decide_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubtPolicy, "rest_of", lambda *_: 600.0)
    found = play(queue("drops the reply", Settings(in_doubt="hold"))).violation
    assert found is not None
    assert found.name == "a doubt that waits for a person is not sent again"


def test_a_doubt_rests_as_it_was_configured_when_it_arose() -> None:
    change = Reload(200.0, Settings(in_doubt_delay=60.0))
    run = play(queue("drops the reply", Settings(in_doubt_delay=3600.0), change))
    assert run.violation is None
    copies = [float(line.partition(" ")[0]) for line in run.trace if " took " in line]
    assert [it for it in copies if it < 200]
    assert 3600 < min(it for it in copies if it > 200) < 3700


def test_a_doubt_that_does_not_rest_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubtPolicy, "rest_of", lambda *_: 1.0)
    found = play(queue("drops the reply", Settings())).violation
    assert found is not None
    assert found.name == "a doubt rests before it is sent again"


# ---------------------------------------------------------------- what is known of it
def test_what_held_lately_is_known_for_an_hour() -> None:
    now, many, few = 0.0, Settings(), Settings(max_sessions=2)
    history = History(many, lambda: now)
    now = 10.0
    history.take(few)
    assert history.now == history.lately == [many, few]
    now = 10.1
    assert (history.now, history.lately) == ([few], [many, few])
    now += LONGEST
    assert history.lately == [few]
