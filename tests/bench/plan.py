"""What a run of the benchmark is asked for, and what a workload is."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers import Kind, Peer
from tests.bench.table import Table


@dataclass(frozen=True, slots=True)
class Plan:
    """`folder` is the workload's own, on the disk; `messages` are those of a round; `peers` are ours, Postfix, and perhaps a
    further one, which only the workloads that say so measure. `backlogs` are numbers of messages that wait."""

    folder: Path
    peers: Sequence[Kind[Peer]]
    messages: int
    rounds: int
    singles: int
    backlogs: Sequence[int]
    urgent: int


Workload = Callable[[Plan], Awaitable[list[Table]]]
KEPT_OPEN = {True: "connections kept open", False: "a connection per message"}
