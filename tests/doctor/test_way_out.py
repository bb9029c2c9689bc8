"""The servers of a domain as the doctor meets them: each gets its time, none gets more."""

import asyncio
from typing import NoReturn

import pytest

from mta.doctor import way_out
from mta.doctor.findings import Level
from mta.doctor.way_out import WayOut
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.candidates import Candidate
from mta.policy.tls import Plan


class Silent:
    """A network in which nobody ever answers."""

    async def connect(self, *_: object, **__: object) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError


async def test_servers_that_never_come_to_an_end_are_left_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way_out, "PATIENCE", 0.05)

    async def plan(candidate: Candidate) -> Plan:
        return Plan()

    hosts = [Candidate(f"mx{n}.friends.test", f"192.0.2.{n}", 10) for n in range(3)]
    found = await WayOut(Silent()).look("friends.test", hosts, plan)
    slow = [it for it in found if "is too slow" in it.what]
    assert [it.level for it in slow] == [Level.FAILURE] * 3


async def test_name_servers_that_do_not_answer_are_not_the_name_s_fault() -> None:
    reply = finding("4.4.3", "friends.test: MX lookup failed: no answer")
    verdict = Verdict(Disposition.TRANSIENT, Scope.DESTINATION, "4.4.3", reply, Phase.ROUTE)

    async def plan(candidate: Candidate) -> Plan:
        return Plan()

    (found,) = await WayOut(Silent()).look("friends.test", verdict, plan)
    assert found.level is Level.WARNING
    assert "no answer" in found.what and "name servers" in found.advice
