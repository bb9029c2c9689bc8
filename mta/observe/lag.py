"""How late the event loop comes to what is due: who holds it, or a machine without time for it, keeps everybody waiting.

Rules: one timer, constant memory. The loop is looked at from within, so what holds it is seen when it is over, and up to
`INTERVAL` of it is not: the figures are lower bounds.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf

from mta.model.events import Fact, Trouble

INTERVAL = 0.5
"""Seconds from one look to the next."""
WINDOW = 60.0
"""Seconds that the greatest lag is taken over, and from one warning to the next at least."""
WORTH_TELLING = 1.0
"""Seconds."""
_WHY = "the machine is overloaded or was stopped, or the daemon did too much at once; meanwhile everybody waited"


class LoopLag:
    def __init__(self, observer: Callable[[Fact], None]) -> None:
        self._observer = observer
        self._recent = deque[float](maxlen=round(WINDOW / INTERVAL))
        self._untold = 0.0
        self._told_at = -inf

    def greatest(self) -> float:
        """Seconds, within the last minute; 0 where nobody watches."""
        return max(self._recent, default=0.0)

    async def watch(self) -> None:
        """For ever, in the loop that is watched."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL
            await asyncio.sleep(INTERVAL)
            self.note(loop.time() - due, loop.time())

    def note(self, lag: float, now: float) -> None:
        """The loop came `lag` seconds late, `now` by its clock. What is worth telling within a minute of the last warning
        is told after it."""
        self._recent.append(max(lag, 0.0))
        if lag > WORTH_TELLING:
            self._untold = max(self._untold, lag)
        if self._untold and now - self._told_at >= WINDOW:
            self._observer(Trouble("warning", f"the event loop was held for {self._untold:.1f} s", _WHY))
            self._untold, self._told_at = 0.0, now
