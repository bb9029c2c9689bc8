"""Open sessions between two transactions (RFC 5321 section 4.1.1.10; conformance CLI-15).

Rules: a session that is out of step, spoken to while idle, old or much used is never handed out; what idles too long is
ended with QUIT in the background, where it delays nobody.
"""

import asyncio
from dataclasses import dataclass

from mta.ports import Session


@dataclass(frozen=True, slots=True)
class ReuseLimits:
    """Seconds of idling and of age, transactions per session, idle sessions per destination."""

    idle: float = 5.0
    age: float = 300.0
    transactions: int = 100
    per_destination: int = 20


@dataclass(frozen=True, slots=True)
class _Idle:
    session: Session
    expiry: asyncio.TimerHandle


class SessionPool:
    """`ports.Sessions`. Belongs to one event loop."""

    def __init__(self, limits: ReuseLimits) -> None:
        self._limits = limits
        self._idle: dict[str, list[_Idle]] = {}
        self._partings: set[asyncio.Task[None]] = set()

    def take(self, destination: str) -> Session | None:
        """The session used last, so that the others may expire."""
        while waiting := self._idle.get(destination):
            kept = waiting.pop()
            if not waiting:
                del self._idle[destination]
            kept.expiry.cancel()
            if self._fit(kept.session):
                return kept.session
            self.dismiss(kept.session)
        return None

    def give(self, destination: str, session: Session) -> None:
        waiting = self._idle.get(destination, [])
        if not self._fit(session) or len(waiting) >= self._limits.per_destination:
            self.dismiss(session)
            return
        expiry = asyncio.get_running_loop().call_later(self._limits.idle, self._expire, destination, session)
        self._idle.setdefault(destination, waiting).append(_Idle(session, expiry))

    def dismiss(self, session: Session) -> None:
        task = asyncio.get_running_loop().create_task(session.quit())
        self._partings.add(task)
        task.add_done_callback(self._partings.discard)

    async def close(self) -> None:
        """Ends every idle session and waits for all that are ending, as long as each QUIT may take."""
        for destination in list(self._idle):
            for kept in self._idle.pop(destination):
                kept.expiry.cancel()
                self.dismiss(kept.session)
        if self._partings:
            await asyncio.wait(self._partings)

    def _expire(self, destination: str, session: Session) -> None:
        left = [kept for kept in self._idle[destination] if kept.session is not session]
        if left:
            self._idle[destination] = left
        else:
            del self._idle[destination]
        self.dismiss(session)

    def _fit(self, session: Session) -> bool:
        age = asyncio.get_running_loop().time() - session.opened_at
        return session.usable and session.transactions < self._limits.transactions and age < self._limits.age
