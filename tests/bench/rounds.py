"""Rounds: so many messages handed to a peer, timed until each has its 250 and, where it delivers, until each has arrived."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.bench.machine import Unfit
from tests.bench.peers import Peer
from tests.bench.table import Goal, Row
from tests.bench.traffic import Counter, arrived, submit

WARM_UP = 200
"""Messages of each peer before anything is measured."""
REST = 0.3
"""Seconds after the last delivery for what a peer still has to write down: its CPU time counts, its time doesn't."""
P = TypeVar("P", bound=Peer)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Round:
    """Messages per second by their 250s, and end to end (0 where nothing is delivered); CPU seconds per message,
    None where this machine can't tell."""

    accepted: float
    delivered: float
    cpu: float | None


async def measured(peer: Peer, messages: int, work: Coroutine[object, object, None], sink: Counter | None) -> Round:
    """One round of what `work` submits, until it has arrived at `sink`; None: it is not delivered."""
    loop = asyncio.get_running_loop()
    before, cpu, begin = sink.messages if sink else 0, peer.cpu_seconds(), loop.time()

    async def rate(part: Awaitable[None]) -> float:
        await part
        return messages / (loop.time() - begin)

    parts = [work, *([arrived(sink, before + messages)] if sink else [])]
    tasks = [asyncio.create_task(rate(part)) for part in parts]
    try:
        accepted, delivered = [*await asyncio.gather(*tasks), 0.0][:2]
    finally:
        for task in tasks:
            task.cancel()
    await asyncio.sleep(REST)
    if sink and (excess := sink.messages - before - messages) > 0:
        raise Unfit(f"{peer.name} has delivered {excess} messages twice")
    used = peer.cpu_seconds()
    per_message = None if cpu is None or used is None else (used - cpu) / messages
    return Round(accepted, delivered, per_message)


async def warm_up(peers: Sequence[Peer], sinks: Sequence[Counter | None]) -> None:
    for peer, sink in zip(peers, sinks, strict=True):
        await measured(peer, WARM_UP, submit(peer.endpoint, WARM_UP), sink)


async def in_turns(peers: Sequence[P], rounds: int, one: Callable[[P], Awaitable[T]]) -> list[list[T]]:
    """The peers' rounds A B A B, by peer."""
    found: list[list[T]] = [[] for _ in peers]
    for _ in range(rounds):
        for peer, own in zip(peers, found, strict=True):
            own.append(await one(peer))
    return found


def accepted(what: str, rounds: Sequence[Sequence[Round]], goal: Goal | None = None) -> Row:
    return Row(f"{what}, accepted/s", [[it.accepted for it in own] for own in rounds], goal)


def delivered(what: str, rounds: Sequence[Sequence[Round]], goal: Goal | None = None) -> Row:
    return Row(f"{what}, delivered/s end to end", [[it.delivered for it in own] for own in rounds], goal)


def cpu(what: str, rounds: Sequence[Sequence[Round]], goal: Goal | None = None) -> Row:
    return Row(
        f"{what}, CPU s per 1,000 messages", [[it.cpu * 1000 for it in own if it.cpu is not None] for own in rounds], goal
    )
