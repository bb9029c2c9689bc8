"""A process that uses a spool and may be killed: `python -m tests.spool.daemon syncs|work PATH FIRST`."""

import asyncio
import ctypes
import sys
from pathlib import Path

from mta.doorbell import Doorbell
from mta.model.envelope import Notice
from mta.model.lifecycle import Event
from mta.spool.base import DoubtPolicy, Spool
from mta.spool.sqlite import open_sqlite
from tests.spool.making import LATER, NOW, mark, message, outcome, put


def synced() -> int:
    return int(ctypes.CDLL(None).sync_calls())


async def syncs(spool: Spool, first: int) -> None:
    """Prints how often the disk was waited for in each of a message's durable points."""
    before = synced()
    await put(spool, message(first))
    accepted = synced()
    claim = await spool.claim("example.org", 10, NOW)
    assert claim is not None
    searched = synced()
    await mark(spool, claim)
    marked = synced()
    await spool.settle(outcome(claim, Event.DELIVERED), NOW)
    print(accepted - before, searched - accepted, marked - searched, synced() - marked, flush=True)


async def work(spool: Spool, first: int) -> None:
    """Accepts, marks, settles, reports and purges without end; says what was accepted, after it was."""

    async def submit(number: int) -> None:
        while True:
            await put(spool, message(number, ["a@example.org", "b@example.org"]), b"x" * (number * 997 % 300_000 + 1))
            print("accepted", number, flush=True)
            number += 4

    async def send() -> None:
        while True:
            claim = await spool.claim("example.org", 1, NOW)
            if claim is None:
                await asyncio.sleep(0)
                continue
            await mark(spool, claim)
            event = [Event.DELIVERED, Event.DEFERRED, Event.DOUBTED, Event.REFUSED][claim.id % 4]
            notices = [Notice.DSN_FAILED] if event is Event.REFUSED else []
            await spool.settle(outcome(claim, event, LATER, next_at=NOW, notices=notices), NOW)

    async def forget() -> None:
        while True:
            await spool.report([one.id for one in await spool.notices(Notice, 5, NOW)], None, None, NOW)
            await spool.purge(NOW + 1, 0, 5, NOW)

    await asyncio.gather(*(submit(first + n) for n in range(4)), *(send() for _ in range(4)), forget())


async def main(job: str, path: str, first: str) -> None:
    spool, _ = await open_sqlite(Path(path), doubts=DoubtPolicy(True, 0), now=NOW, doorbell=Doorbell())
    await {"syncs": syncs, "work": work}[job](spool, int(first))
    await spool.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
