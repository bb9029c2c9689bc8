"""What the scheduler keeps in the spool."""

from collections.abc import Collection, Mapping

import pytest

from mta.ledger import Ledger
from mta.policy.agenda import Agenda, Caps
from mta.policy.lanes import LaneRules
from mta.policy.shares import Shares
from mta.spool.base import Memory, SpoolError
from tests.support.submission import FixedClock


class Memories:
    """As much of a spool as remembers; it fails while it is `broken`."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.broken = False

    async def remember(self, kind: Memory, values: Mapping[str, str], expires_at: float | None, now: float) -> None:
        if self.broken:
            raise SpoolError("no space")
        self.kept.update(values)

    async def forget(self, kind: Memory, names: Collection[str]) -> None:
        for name in names:
            self.kept.pop(name, None)


async def test_ceilings_that_could_not_be_kept_are_all_kept_later() -> None:
    spool, shares = Memories(), Shares()
    agenda = Agenda(Caps(20, LaneRules()), shares)
    ledger = Ledger(spool, FixedClock(), agenda, shares.ceilings)  # type: ignore[arg-type]  # it asks for no more
    names = {"a.test", "b.test", "c.test"}
    for name in names:
        shares.ceilings.refused(name, 2, "421 too many connections")
        shares.ceilings.got_through(name, 0.0, wanted=True)
    spool.broken = True
    with pytest.raises(SpoolError):
        await ledger.keep(1.0)
    spool.broken = False
    assert ledger.due
    await ledger.keep(2.0)
    assert spool.kept.keys() == names and not ledger.due
