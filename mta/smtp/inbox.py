"""What a server has sent, matched with what it was asked (RFC 5321 section 4.3.1, RFC 2920 section 3.1).

Rules: a reply that was received counts, also when the connection has ended since; one more reply than commands puts the
session out of step for good; a reply has one timeout as a whole, not one for each octet. Whichever protocol holds the
transport, the dialogue's or the transaction's, feeds the same inbox.
"""

import asyncio

from mta.model.outcome import Seen
from mta.smtp.replies import Answer, ReplyParser


def _saying(seen: Seen, text: str) -> Answer:
    return Answer(seen, None, (text.encode(),))


def no_reply(timeout: float) -> Answer:
    """The answer that did not come in time."""
    return _saying(Seen.TIMEOUT, f"no reply within {timeout:g} s")


class Inbox:
    """Answers that came and those that are owed."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = ReplyParser()
        self._owed = 0
        self._ended: str | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    # ------------------------------------------------ from the protocols
    def feed(self, data: bytes) -> None:
        if not self.surplus:  # what stands behind an unasked reply says nothing, and is not to fill the memory
            self._parser.feed(data)
        self.wake()

    def end(self, reason: str) -> None:
        """The connection has ended; the first reason is kept."""
        self._ended = self._ended or reason
        self.wake()

    def wake(self, in_time: bool = True) -> None:
        """Whoever waits for `changed` looks again."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(in_time)

    # ------------------------------------------------ to the session
    @property
    def surplus(self) -> bool:
        """More has come than was asked for."""
        parser = self._parser
        count = len(parser.answers)
        return count > self._owed or (count == self._owed and bool(parser.rest or parser.lines))

    @property
    def in_step(self) -> bool:
        """Connected, nothing owed, nothing unasked."""
        parser = self._parser
        return not (self._owed or parser.answers or parser.rest or parser.lines or parser.broken or self._ended)

    @property
    def broken(self) -> bool:
        return self._parser.broken

    @property
    def interrupted(self) -> bool:
        """There is something to take: an answer or the end."""
        return bool(self._parser.answers) or self._ended is not None

    def expect(self, replies: int = 1) -> None:
        """So many commands are about to be sent."""
        self._owed += replies

    def take(self) -> Answer | None:
        """The next answer if it is there, or the end of the connection."""
        if self._parser.answers:
            if self._owed:
                self._owed -= 1
            return self._parser.answers.popleft()
        return self._lost() if self._ended is not None else None

    async def answer(self, timeout: float) -> Answer:
        """The next answer; LOST or TIMEOUT if there is none within `timeout` seconds."""
        until, in_time = self._loop.time() + timeout, True
        while (answer := self.take()) is None:
            if not in_time:
                return no_reply(timeout)
            in_time = await self.changed(until)
        return answer

    def changed(self, until: float) -> "asyncio.Future[bool]":
        """Done with the next `wake`; False where `until`, by the loop's clock, comes first. One waits at a time."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._waiter = self._loop.create_future()
        self._alarm = self._loop.call_at(until, self.wake, False)
        return self._waiter

    def unasked(self) -> Answer:
        """Why no command may be sent: not in step. A 421 that came by itself is a reply (RFC 5321 section 3.8)."""
        answer = self.take()
        if answer is None:
            return _saying(Seen.MALFORMED, "the session is out of step")
        if answer.seen is not Seen.REPLY or answer.code == 421:
            return answer
        return Answer(Seen.MALFORMED, None, (b"a reply to no command:", str(answer.code).encode(), *answer.lines))

    def _lost(self) -> Answer:
        words = (self._ended or "").encode()
        fragment = self._parser.fragment
        return Answer(Seen.LOST, None, (words, b"after", *fragment) if fragment else (words,))
