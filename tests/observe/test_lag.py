"""How late the event loop is: what `status` shows, and when the log says so."""

import asyncio
import time

import pytest

from mta.model.events import Fact, Trouble
from mta.observe import lag
from mta.observe.lag import INTERVAL, WINDOW, LoopLag


def play(*lags: float) -> tuple[LoopLag, list[str]]:
    """Looked at in turn; what was told."""
    facts: list[Fact] = []
    watch = LoopLag(facts.append)
    for number, found in enumerate(lags):
        watch.note(found, number * INTERVAL)
    assert all(isinstance(fact, Trouble) and fact.severity == "warning" for fact in facts)
    return watch, [fact.what for fact in facts if isinstance(fact, Trouble)]


def test_the_greatest_lag_is_that_of_the_last_minute() -> None:
    looks = round(WINDOW / INTERVAL)
    assert play()[0].greatest() == 0
    assert play(0.2, 0.7, 0.1)[0].greatest() == 0.7
    assert play(0.7, *[0.1] * (looks - 1))[0].greatest() == 0.7
    assert play(0.7, *[0.1] * looks)[0].greatest() == 0.1
    assert play(-0.001)[0].greatest() == 0


def test_a_loop_that_was_held_is_told_of_once_a_minute_with_the_worst() -> None:
    assert play(0.9, 1.0)[1] == []
    assert play(0.9, 1.44)[1] == ["the event loop was held for 1.4 s"]
    minute = round(WINDOW / INTERVAL)
    begin = (1.44, 1.5, 30.0, 1.2)
    assert len(play(*begin, *[0.0] * (minute - 4))[1]) == 1
    told = ["the event loop was held for 1.4 s", "the event loop was held for 30.0 s"]
    assert play(*begin, *[0.0] * (minute * 3))[1] == told


async def test_what_holds_the_loop_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "INTERVAL", 0.01)
    watch = LoopLag(print)
    watching = asyncio.create_task(watch.watch())
    await asyncio.sleep(0)
    time.sleep(0.1)
    while not watch.greatest():
        await asyncio.sleep(0)
    assert watch.greatest() >= 0.08
    watching.cancel()
