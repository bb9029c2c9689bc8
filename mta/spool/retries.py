"""A retry of everything at some destinations: many destinations at a time, each in slices, so that neither memory nor a
transaction follows the backlog."""

import asyncio
from collections.abc import Sequence

from mta.model.lifecycle import Status
from mta.spool import orders
from mta.spool.base import Changed
from mta.spool.batch import GroupCommit
from mta.spool.orders import Sooner

AT_ONCE = 20
"""Destinations whose retries share commits: one commit for each takes a minute for 20,000, all in one hold up the others."""


async def retry(destinations: Sequence[str], sooner: Sooner, commits: GroupCommit, now: float) -> list[Changed]:
    """One `Changed` without queue id for each destination where something is due now that was not."""
    changed = []
    for start in range(0, len(destinations), AT_ONCE):
        group = destinations[start : start + AT_ONCE]
        totals = await asyncio.gather(*(_retry_one(destination, sooner, commits, now) for destination in group))
        changed += [
            Changed("", destination, Status.PENDING, Status.PENDING, f"{total} recipients due now")
            for destination, total in zip(group, totals, strict=True)
            if total
        ]
    return changed


async def _retry_one(destination: str, sooner: Sooner, commits: GroupCommit, now: float) -> int:
    """How many recipients are due now."""
    total = part = await _retry_slice(destination, sooner, commits, now)
    while part == orders.SLICE:
        part = await _retry_slice(destination, sooner, commits, now)
        total += part
    return total


async def _retry_slice(destination: str, sooner: Sooner, commits: GroupCommit, now: float) -> int:
    return await commits.run(lambda db, effects: orders.retry_slice(db, effects, destination, sooner), now)
