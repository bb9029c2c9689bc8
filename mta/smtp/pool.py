"""Open sessions between two transactions, and how many connections there are (RFC 5321 sections 4.1.1.10 and 4.5.4.1;
conformance CLI-15).

Rules: a session that is out of step, spoken to while idle, old or much used is never handed out; what idles too long is
ended with QUIT in the background, where it delays nobody but who would be one connection too many: a connection counts
until its end, and an idle one makes room. Idle sessions are kept by hop (a destination, or a relay) and carry mail of that
hop alone; connections are counted for all hops together that share their limits, as these are at the moment of asking.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mta.ports.smtp import Session, Share


@dataclass(frozen=True, slots=True)
class ReuseLimits:
    """Seconds of idling and of age, transactions per session where nothing else is said; how many idle at most, at all
    destinations together: mail for many destinations, a message each, would come to hold thousands of connections."""

    idle: float = 5.0
    age: float = 300.0
    transactions: int = 100
    kept: int = 200


def each_for_itself(hop: str) -> Share:
    return Share(hop, 20)


class SessionPool:
    """`ports.smtp.Sessions`. Belongs to one event loop. `limits` may be replaced: they hold from the next session on that
    comes to idle."""

    def __init__(self, limits: ReuseLimits, share: Callable[[str], Share] = each_for_itself) -> None:
        self.limits, self._share = limits, share
        self._loop = asyncio.get_running_loop()
        self._idle: dict[str, list[Session]] = {}
        self._until: dict[Session, tuple[str, float]] = {}
        """The hop of each idle session, and when it has idled for too long; the one that idles longest first."""
        self._alarm: asyncio.TimerHandle | None = None
        self._partings: set[asyncio.Task[None]] = set()
        self._open: Counter[str] = Counter()
        self._counted: dict[str, list[str]] = {}
        """By hop, under which name each of its connections that are not ending is counted: who shares with whom may
        change."""
        self._ending: Counter[str] = Counter()
        self._freed: dict[str, asyncio.Event] = {}
        self._renewed_at = -math.inf

    def open(self, destination: str) -> int:
        name = self._share(destination).name
        return self._open[name] - self._ending[name]

    async def room(self, destination: str) -> None:
        while self._open[(share := self._share(destination)).name] >= share.sessions:
            self._make_room(share.name)
            await self._freed.setdefault(share.name, asyncio.Event()).wait()
        self._open[share.name] += 1
        self._counted.setdefault(destination, []).append(share.name)

    def gone(self, destination: str) -> None:
        self._free(self._uncounted(destination))

    def _uncounted(self, destination: str, wanted: str = "") -> str:
        """The name under which one of its connections was counted: `wanted` if there is such a one, else one that somebody
        waits for."""
        names = self._counted[destination]
        name = min(names, key=lambda it: (it != wanted, it not in self._freed))
        names.remove(name)
        if not names:
            del self._counted[destination]
        return name

    def _free(self, name: str) -> None:
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]
        if freed := self._freed.pop(name, None):
            freed.set()

    def take(self, destination: str) -> Session | None:
        """The session used last, so that the others may expire."""
        while waiting := self._idle.get(destination):
            session = waiting.pop()
            if not waiting:
                del self._idle[destination]
            del self._until[session]
            if self._fit(session):
                return session
            self.dismiss(destination, session)
        return None

    def give(self, destination: str, session: Session) -> None:
        share = self._share(destination)
        if session.transactions >= (share.transactions or self.limits.transactions) or not self._fit(session):
            self.dismiss(destination, session)
            return
        until = self._loop.time() + self.limits.idle
        self._idle.setdefault(destination, []).append(session)
        self._until[session] = destination, until
        if self._alarm is None:
            self._alarm = self._loop.call_at(until, self._end_idle)
        while len(self._until) > self.limits.kept:
            self._expire(next(iter(self._until)))
        wanted = set[str]()
        if self._freed:
            wanted = self._freed.keys() & {share.name, *self._counted[destination]}  # who shares may have changed since
        if self._open[share.name] > share.sessions:
            wanted.add(share.name)
        for name in wanted:
            self._make_room(name)

    def dismiss(self, destination: str, session: Session) -> None:
        self._end(session, self._uncounted(destination))

    def _end(self, session: Session, name: str) -> None:
        task = self._loop.create_task(session.quit())
        self._partings.add(task)
        task.add_done_callback(self._partings.discard)
        self._ending[name] += 1
        task.add_done_callback(lambda _: self._ended(name))

    def renew(self) -> None:
        """Ends every idle session, and those in use after their transaction: what they were opened under has changed."""
        self._renewed_at = self._loop.time()
        for session in list(self._until):
            self._expire(session)

    async def close(self) -> None:
        """Ends every idle session and waits for all that are ending, as long as each QUIT may take."""
        self.renew()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._partings:
            await asyncio.wait(self._partings)

    def _ended(self, name: str) -> None:
        self._ending[name] -= 1
        if not self._ending[name]:
            del self._ending[name]
        self._free(name)

    def _make_room(self, name: str) -> None:
        """Ends the idle session that was used first, of any hop that is counted there."""
        hop = next((hop for hop in self._idle if name in self._counted.get(hop, ())), None)
        if hop is not None:
            self._expire(self._idle[hop][0], name)

    def _end_idle(self) -> None:
        """Those whose time has come: one timer for all."""
        self._alarm = None
        while self._until:
            session, (_, until) = next(iter(self._until.items()))
            if until > self._loop.time():
                self._alarm = self._loop.call_at(until, self._end_idle)
                return
            self._expire(session)

    def _expire(self, session: Session, wanted: str = "") -> None:
        """Idle for long enough, or in the way of another connection, of those that are counted as `wanted`."""
        hop, _ = self._until.pop(session)
        self._idle[hop].remove(session)
        if not self._idle[hop]:
            del self._idle[hop]
        self._end(session, self._uncounted(hop, wanted))

    def _fit(self, session: Session) -> bool:
        """Whether it is in step and not too old."""
        opened_at = session.opened_at
        young = self._renewed_at < opened_at and self._loop.time() - opened_at < self.limits.age
        return young and session.usable
