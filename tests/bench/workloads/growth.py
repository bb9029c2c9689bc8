"""How the cost grows with destinations, sessions and size: a table each."""

import statistics
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import count

from tests.bench.peers import Peer, Setup, running
from tests.bench.plan import Plan
from tests.bench.rounds import in_turns, measured, warm_up
from tests.bench.table import Goal, Row, Table
from tests.bench.traffic import SmtpSink, submit, submit_to_many
from tests.support.ports import free_port

DESTINATIONS = (1, 100, 1_000, 10_000)
SESSIONS = (1, 20, 100, 200)
SIZES = {"1 KiB": 1 << 10, "10 KiB": 10 << 10, "100 KiB": 100 << 10, "1 MiB": 1 << 20, "25 MiB": 26_000_000}
"""The last is what fits the limit of 25 MiB with what is added on the way."""
MESSAGES = 2_000
"""Of a round at most, or one for each destination."""
OCTETS = 400 << 20
"""Of a round at most: there are fewer of large messages."""
CLIFF = 0.5
"""A point of at least this part of the one before is no cliff."""
MOST_EACH = 5
"""A point that takes so many times more messages than asked for is left out."""
Work = Callable[[tuple[str, int]], Coroutine[object, object, None]]


async def run(plan: Plan) -> list[Table]:
    fewer = min(MESSAGES, plan.messages)
    used = count(step=max(DESTINATIONS))
    setup = Setup(free_port(), by_dns=True)
    async with SmtpSink(plan.folder, setup.port) as sink, running(plan.peers[:2], plan.folder, setup) as peers:
        await warm_up(peers, [sink] * len(peers))

        async def rounds(messages: int, work: Work) -> list[list[float]]:
            async def one(peer: Peer) -> float:
                return (await measured(peer, messages, work(peer.endpoint), sink)).delivered

            return await in_turns(peers, plan.rounds, one)

        names = [peer.name for peer in peers]
        tables = [Table(f"Delivered/s by {what}", names) for what in ("destinations", "sessions in", "size")]
        for number in (it for it in DESTINATIONS if it <= MOST_EACH * plan.messages):
            messages = max(fewer, number)
            _add(tables[0], f"{number:,}", await rounds(messages, partial(_to_many, messages, number, used)))
        for number in SESSIONS:
            work = partial(submit, messages=fewer, sessions=number)
            _add(tables[1], str(number), await rounds(fewer, work))
        for name, size in SIZES.items():
            messages = min(fewer, OCTETS // size)
            rates = await rounds(messages, partial(submit, messages=messages, size=size))
            tables[2].rows.append(Row(f"{name}, messages/s", rates))
            _add(tables[2], f"{name}, MiB/s", [[it * size / (1 << 20) for it in own] for own in rates], back=2)
    return tables


async def _to_many(messages: int, number: int, used: Iterator[int], endpoint: tuple[str, int]) -> None:
    """To destinations that nobody has mail for yet."""
    first = next(used)
    await submit_to_many(endpoint, messages, range(first, first + number))


def _add(table: Table, what: str, values: Sequence[Sequence[float]], back: int = 1) -> None:
    """A row that is not to fall off against the one `back` before it, counted from the end of the table."""
    goal = None
    if len(table.rows) >= back:
        least = CLIFF * statistics.median(table.rows[-back].values[0])
        goal = Goal(f"≥ {CLIFF:g} × the point before", lambda own, _: own >= least)
    table.rows.append(Row(what, values, goal))
