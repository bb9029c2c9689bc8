"""Open sessions between two transactions, and how many connections each destination has (RFC 5321 sections 4.1.1.10 and
4.5.4.1; conformance CLI-15).

Rules: a session that is out of step, spoken to while idle, old or much used is never handed out; what idles too long is
ended with QUIT in the background, where it delays nobody but who would be one connection too many: a connection counts
until its end, and an idle one makes room.
"""

import asyncio
import math
from collections import Counter
from dataclasses import dataclass

from mta.ports import Session


@dataclass(frozen=True, slots=True)
class ReuseLimits:
    """Seconds of idling and of age, transactions per session, connections per destination."""

    idle: float = 5.0
    age: float = 300.0
    transactions: int = 100
    per_destination: int = 20


@dataclass(frozen=True, slots=True)
class _Idle:
    session: Session
    expiry: asyncio.TimerHandle


class SessionPool:
    """`ports.Sessions`. Belongs to one event loop; `limits` may be replaced."""

    def __init__(self, limits: ReuseLimits) -> None:
        self.limits = limits
        self._idle: dict[str, list[_Idle]] = {}
        self._partings: set[asyncio.Task[None]] = set()
        self._open: Counter[str] = Counter()
        self._freed: dict[str, asyncio.Event] = {}
        self._renewed_at = -math.inf

    async def room(self, destination: str) -> None:
        while self._open[destination] >= self.limits.per_destination:
            if idle := self._idle.get(destination):
                self._expire(destination, idle[0].session)
            await self._freed.setdefault(destination, asyncio.Event()).wait()
        self._open[destination] += 1

    def gone(self, destination: str) -> None:
        self._open[destination] -= 1
        if not self._open[destination]:
            del self._open[destination]
        if freed := self._freed.pop(destination, None):
            freed.set()

    def take(self, destination: str) -> Session | None:
        """The session used last, so that the others may expire."""
        while waiting := self._idle.get(destination):
            kept = waiting.pop()
            if not waiting:
                del self._idle[destination]
            kept.expiry.cancel()
            if self._fit(kept.session):
                return kept.session
            self.dismiss(destination, kept.session)
        return None

    def give(self, destination: str, session: Session) -> None:
        if not self._fit(session):
            self.dismiss(destination, session)
            return
        expiry = asyncio.get_running_loop().call_later(self.limits.idle, self._expire, destination, session)
        self._idle.setdefault(destination, []).append(_Idle(session, expiry))

    def dismiss(self, destination: str, session: Session) -> None:
        task = asyncio.get_running_loop().create_task(session.quit())
        self._partings.add(task)
        task.add_done_callback(self._partings.discard)
        task.add_done_callback(lambda _: self.gone(destination))

    def renew(self) -> None:
        """Ends every idle session, and those in use after their transaction: what they were opened under has changed."""
        self._renewed_at = asyncio.get_running_loop().time()
        for destination in list(self._idle):
            for kept in self._idle.pop(destination):
                kept.expiry.cancel()
                self.dismiss(destination, kept.session)

    async def close(self) -> None:
        """Ends every idle session and waits for all that are ending, as long as each QUIT may take."""
        self.renew()
        if self._partings:
            await asyncio.wait(self._partings)

    def _expire(self, destination: str, session: Session) -> None:
        """Idle for long enough, or in the way of another connection."""
        for kept in self._idle[destination]:
            if kept.session is session:
                kept.expiry.cancel()
        left = [kept for kept in self._idle[destination] if kept.session is not session]
        if left:
            self._idle[destination] = left
        else:
            del self._idle[destination]
        self.dismiss(destination, session)

    def _fit(self, session: Session) -> bool:
        age = asyncio.get_running_loop().time() - session.opened_at
        young = age < self.limits.age and session.opened_at > self._renewed_at
        return young and session.usable and session.transactions < self.limits.transactions
