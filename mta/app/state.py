"""What `status` says of the running daemon: `control.state.DaemonState` from the scheduler and the counters."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from mta.control.state import DestinationState, LimitState
from mta.delivery.hosts import HostMemory
from mta.observe.lag import LoopLag
from mta.observe.metrics import Metrics
from mta.policy.standings import DestinationStanding
from mta.ports.system import Clock
from mta.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class RunningState:
    scheduler: Scheduler
    hosts: HostMemory
    metrics: Metrics
    lag: LoopLag
    clock: Clock
    started: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def uptime(self) -> float:
        return asyncio.get_running_loop().time() - self.started

    def destinations(self) -> Mapping[str, DestinationState]:
        now = self.clock.now()
        return {
            name: DestinationState(
                it.sessions, now + it.rests_for if it.rests_for else None, it.last_reply, _limit(it, now)
            )
            for name, it in self.scheduler.standings().items()
        }

    def rates(self) -> Mapping[str, float]:
        return self.metrics.snapshot().per_minute

    def categories(self) -> Mapping[str, int]:
        return self.metrics.snapshot().categories

    def loop_lag(self) -> float:
        return self.lag.greatest()

    def wake(self, destination: str) -> None:
        self.hosts.revive()
        self.scheduler.wake_destination(destination)


def _limit(it: DestinationStanding, now: float) -> LimitState:
    return LimitState(
        allowed=it.allowed,
        cap=it.cap,
        learned=it.learned,
        configured=it.configured,
        rate=str(it.rate) if it.rate is not None else "",
        next_at=now + it.next_in if it.next_in is not None else None,
        group=it.group,
    )
