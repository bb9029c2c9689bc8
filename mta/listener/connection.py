"""One client's connection: octets in, replies out, and how much of both is kept.

aiosmtpd's protocol is the base, of which asyncio's flow control alone is left. Its command loop takes a bare LF for a line
end and is cancelled by a client who hangs up, in the middle of a commit; a stream reader and a task for each session cost a
turn of the loop for each line, and a sixth of what a connection costs. Here what arrives is dealt with where it arrives; a
task is there only while something has to be waited for.

Rules: what is waited for holds the session: nothing the client sends meanwhile is looked at, and beyond a limit nothing is
read. What is waited for is never cancelled. A client that takes no replies is not heard; one that sends without a pause
leaves others their turn. Replies wait for each other while complete commands are there (RFC 2920 section 3.2), and for
those of other sessions until the loop's turn is over: each write may wake a client that takes our place on the processor.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, cast

from aiosmtpd.smtp import SMTP

from mta.listener.inbox import LIMIT, Inbox

LINGER = 10.0
"""Seconds that a client has to take our last reply before the connection is cut."""
REPLIES_LIMIT = 16 * 1024
"""Octets of replies that wait for each other; beyond it nothing is heard until they are written."""


class Connection(SMTP, ABC):
    """`over` is done when nothing of it runs any more; `task` is what it waits for."""

    _paused: bool
    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # neither SMTP's nor the stream protocol's: they take 100 us, and keep limits in the class, for all sessions
        super(asyncio.StreamReaderProtocol, self).__init__(loop)
        self.loop = loop
        self.over = loop.create_future()
        self.task: asyncio.Task[None] | None = None
        self._inbox = Inbox()
        self._replies = bytearray()
        self._closing = loop.create_future()
        self._linger: asyncio.TimerHandle | None = None
        self._reads = True
        self._is_lost = self._has_eof = self._is_taking = self._will_write = self._ends = False
        self._rests = False

    @abstractmethod
    def _take(self) -> bool:
        """Deals with the next complete piece of what has come; whether there may be another."""

    @abstractmethod
    def _trouble(self, error: Exception) -> object:
        """Told of a mistake of our own, which ends the session."""

    @abstractmethod
    def _finish(self) -> None:
        """The end: nothing runs any more, and nothing more is said."""

    # ------------------------------------------------ the transport's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods alone

    def data_received(self, data: bytes) -> None:
        if not self._ends:
            self._inbox.octets += data
            self._go_on()

    def eof_received(self) -> bool:
        """The client sends no more, but may still read: what is complete is done and answered."""
        self._has_eof = True
        self._go_on()
        return True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._go_on()

    def connection_lost(self, error: Exception | None) -> None:
        """Whatever it was (TLS has errors of its own), it is over; what is waited for comes to its end."""
        self._is_lost = True
        self._hang_up()
        if self._linger is not None:
            self._linger.cancel()

    # ------------------------------------------------ what has come
    @property
    def _is_held(self) -> bool:
        is_silent = self._paused or len(self._replies) > REPLIES_LIMIT
        return self.task is not None or is_silent or self._rests or self._ends

    def _go_on(self) -> None:
        """As far as nothing has to be waited for."""
        if self._is_taking:  # a transport may tell within a write that it takes more
            return
        self._is_taking = True
        try:
            while not self._is_held and self._take():
                pass
            if self._replies and self.task is None:
                self._flush()
        except Exception as error:
            self._fail(error)
        finally:
            self._is_taking = False
        if (len(self._inbox.octets) > LIMIT) is self._reads:
            self._pace()
        if self._has_eof and not self._is_held:
            self._hang_up()

    def _rest(self) -> None:
        """Others have their turn before the next piece."""
        self._rests = True
        self.loop.call_soon(self._rested)

    def _rested(self) -> None:
        self._rests = False
        self._go_on()

    def _pace(self) -> None:
        """Reads while there is room."""
        self._reads = not self._reads
        if self._reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        self.task = self.loop.create_task(self._attend(work))

    async def _attend(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._fail(error)
        except BaseException:  # the loop ends
            self._hang_up()
            raise
        finally:
            self.task = None
            if self._ends:
                self._finish_once()
        self._go_on()

    # ------------------------------------------------ what is said
    def _flush(self) -> None:
        """At the end of the loop's turn."""
        if not self._will_write:
            self._will_write = True
            self.loop.call_soon(self._write)

    def _write(self) -> None:
        self._will_write = False
        if not self._replies or self._ends:
            return
        said = bytes(self._replies)
        self._replies.clear()
        self._transport.write(said)
        if len(said) > REPLIES_LIMIT:  # nothing was heard meanwhile
            self._rest()

    # ------------------------------------------------ the end
    def _fail(self, error: Exception) -> None:
        self._trouble(error)
        self._hang_up()

    def _hang_up(self) -> None:
        """Closes when all is written; a client that doesn't read is not waited for."""
        if self._ends:
            return
        if not self._is_lost:
            self._write()
        self._ends = True
        self._closing.set_result(None)
        self._transport.close()
        if not self._is_lost:
            self._linger = self.loop.call_later(LINGER, self._transport.abort)
        self._finish_once()

    def _finish_once(self) -> None:
        if self.task is None and not self.over.done():
            self.over.set_result(None)
            self._finish()
