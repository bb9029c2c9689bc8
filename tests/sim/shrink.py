"""From a failing scenario to a small one that breaks the same promise (delta debugging; Zeller and Hildebrandt, 2002)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tests.sim.scenario import DomainPlan, Scenario
from tests.sim.world import play

T = TypeVar("T")
PLAYS = 400
"""Scenarios that are tried."""


def shrink(scenario: Scenario, told: Callable[[Scenario], None] = lambda _: None) -> Scenario:
    """The smallest that was found; `told` hears of each on the way. Raises ValueError if `scenario` breaks no promise."""
    violation = play(scenario).violation
    if violation is None:
        raise ValueError("the scenario breaks no promise")
    search = _Search(violation.name, told)
    before = None
    while before != scenario and search.left:
        before = scenario
        scenario = search.shrink_part(scenario, "faults")
        scenario = search.shrink_part(scenario, "emails")
        scenario = search.calm_domains(scenario)
    return scenario


class _Search:
    def __init__(self, name: str, told: Callable[[Scenario], None]) -> None:
        self._name, self._told = name, told
        self.left = PLAYS

    def fails(self, scenario: Scenario) -> bool:
        if not self.left:
            return False
        self.left -= 1
        violation = play(scenario).violation
        if violation is None or violation.name != self._name:
            return False
        self._told(scenario)
        return True

    def shrink_part(self, scenario: Scenario, part: str) -> Scenario:
        """Without what is not needed of a part, by halves, quarters and so on."""
        items: Sequence[Any] = getattr(scenario, part)
        step = len(items)
        while step >= 1:
            start = 0
            while start < len(items):
                fewer = (*items[:start], *items[start + step :])
                smaller = msgspec.structs.replace(scenario, **{part: fewer})
                if len(fewer) < len(items) and self.fails(smaller):
                    scenario, items = smaller, fewer
                else:
                    start += step
            step //= 2
        return scenario

    def calm_domains(self, scenario: Scenario) -> Scenario:
        """Honest ones, where it makes no difference."""
        for place, domain in enumerate(scenario.domains):
            calm = DomainPlan(domain.name, domain.hosts, latency=domain.latency)
            if domain == calm:
                continue
            smaller = msgspec.structs.replace(
                scenario, domains=(*scenario.domains[:place], calm, *scenario.domains[place + 1 :])
            )
            if self.fails(smaller):
                scenario = smaller
        return scenario
