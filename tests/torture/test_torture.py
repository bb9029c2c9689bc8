"""Never twice, never lost: at least 100 kills in every run of the tests, with another seed each time (B57, B58, B60).

`python -m tests.torture --seed N --in-doubt ...` repeats the random choices of a run, if not its timing.
"""

import secrets
from collections.abc import Callable

import pytest

from tests.torture.burst import burst
from tests.torture.load import Figure, Plan, torture

Record = Callable[[str, object], None]

UNMARKED = """
from mta.spool.sqlite import SqliteSpool
async def nothing(self, *words): pass
SqliteSpool.mark_in_doubt = nothing
"""
IMPATIENT = """
from mta.spool.base import DoubtPolicy
DoubtPolicy.rest_of = lambda self, order: self.rest
"""
UNSTORED = """
from mta.spool.sqlite import SqliteSpool
async def nothing(self, message, content, now): content.close()
SqliteSpool.accept = nothing
"""
FORGETFUL = """
from msgspec.structs import replace
from mta.spool.sqlite import SqliteSpool
accept = SqliteSpool.accept
async def without_key(self, message, content, now): return await accept(self, replace(message, key=""), content, now)
SqliteSpool.accept = without_key
"""


def seed() -> int:
    """Another one each time; said at once, for a run that does not come to its figure."""
    chosen = secrets.randbelow(10**6)
    print(f"torture: seed {chosen}")
    return chosen


def judge(figure: Figure, record: Record) -> None:
    """The figure stands at the end of the tests' output, and in front of what is wrong."""
    record("figure", str(figure))
    assert not figure.faults, "\n".join([str(figure), *figure.faults[:20]])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kills", "hold"), [(35, True), (40, False), (25, True)], ids=["hold", "retry", "hold again"])
async def test_b57_b60_none_is_lost_and_none_twice_under_kill_9(kills: int, hold: bool, record_property: Record) -> None:
    figure = await torture(Plan(seed(), kills, hold=hold))
    judge(figure, record_property)
    assert figure.kills == kills


@pytest.mark.timeout(300)
async def test_one_key_submitted_twenty_times_at_once_is_one_message_under_kill_9(record_property: Record) -> None:
    figure = await burst(seed(), rounds=200, kill_every=10)
    judge(figure, record_property)
    assert (figure.kills, figure.messages) == (20, 200)


@pytest.mark.parametrize(
    ("preamble", "hold", "complaint"),
    [
        pytest.param(UNMARKED, False, "2 copies of", id="no mark before the dot"),
        pytest.param(IMPATIENT, True, "2 copies of", id="a doubt is not held"),
        pytest.param(UNSTORED, True, "was acknowledged as", id="nothing stored"),
        pytest.param(FORGETFUL, True, " and ", id="keys not kept"),
    ],
)
async def test_a_daemon_that_breaks_its_promise_is_found_out(preamble: str, hold: bool, complaint: str) -> None:
    figure = await torture(Plan(seed(), kills=3, hold=hold, preamble=preamble))
    assert any(complaint in fault for fault in figure.faults)
