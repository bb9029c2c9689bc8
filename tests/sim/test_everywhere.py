"""A crash at each place where there can be one: before each step of the daemon's code, before each statement of SQL, after
each commit, before each write to a connection; of the process, and of the power.
"""

import gc
from collections.abc import Iterator

import pytest

from tests.sim.computer import Computer
from tests.sim.scenario import Crash, DomainPlan, Email, HostPlan, Scenario, Settings
from tests.sim.world import play

MANY = 10**9
HEALS_AT = 900.0
"""Seconds: the daemon has long done everything by then."""
LEAST = {"step": 400, "statement": 170, "commit": 14, "send": 22}
"""Events that there are at least."""


def domain(name: str, host: str, address: str, character: str) -> DomainPlan:
    plan = HostPlan(f"{host}.{name}", address, 10, ("PIPELINING", "8BITMIME"), "none")
    return DomainPlan(name, (plan,), character, 0.0, None)


DOMAINS = (
    domain("good.example", "mx", "198.51.100.1", "honest"),
    domain("bad.example", "mx0", "198.51.100.2", "blocklisting"),  # of that name: refuses each recipient for good
    domain("grey.example", "mx", "198.51.100.3", "greylisting"),
)
RECIPIENTS = (0, "good.example"), (1, "bad.example"), (2, "grey.example")
EMAIL = Email(1, 1.0, "sender@good.example", RECIPIENTS, key="the-only-one", tries=10)


def scenario(crash: Crash, in_doubt: str) -> Scenario:
    """One submission, a delivery, a refusal and its bounce, a deferral and the second attempt, in an hour."""
    return Scenario(1, 1 / 24, HEALS_AT, Settings(in_doubt=in_doubt), DOMAINS, (EMAIL,), (crash,))


@pytest.fixture(autouse=True)
def _quick_collections() -> Iterator[None]:
    """Each run ends with one; what the other tests have left need not be looked through each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def events(kind: str, in_doubt: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many there are of a kind when nothing goes wrong."""
    left: list[int] = []
    disarm = Computer.disarm

    def look(computer: Computer) -> None:
        assert computer.machine is not None and computer.machine.armed is not None
        left.append(computer.machine.armed[1])
        disarm(computer)

    monkeypatch.setattr(Computer, "disarm", look)
    run = play(scenario(Crash(0.0, kind, MANY, 5.0, False), in_doubt))
    monkeypatch.undo()
    assert run.violation is None
    told = "took a mail of the daemon's for sender@good.example"
    for event in ("event=sent", "event=failed", "event=bounced", "event=deferred", told):
        assert any(event in line for line in run.trace), f"not in the trace: {event}"
    return MANY - left[0]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("in_doubt", ["retry", "hold"])
@pytest.mark.parametrize("silently", [False, True], ids=["crash", "power-cut"])
@pytest.mark.parametrize("kind", LEAST)
def test_a_crash_anywhere_breaks_no_promise(
    monkeypatch: pytest.MonkeyPatch, kind: str, silently: bool, in_doubt: str
) -> None:
    count = events(kind, in_doubt, monkeypatch)
    assert count >= LEAST[kind]
    for n in range(1, count + 1):
        run = play(scenario(Crash(0.0, kind, n, 5.0, silently), in_doubt))
        assert run.crashes == 1, f"no crash at {kind} {n}"
        assert run.violation is None, f"{kind} {n}: {run.violation}"
