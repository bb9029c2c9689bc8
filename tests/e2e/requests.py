"""Submissions with MAIL parameters, and servers that take their time."""

import asyncio
import time
from collections.abc import Callable, Sequence

from tests.e2e.world import SENDER
from tests.support.daemon import Daemon
from tests.support.mx import Hold


async def reply_to(daemon: Daemon, recipient: str, parameters: str, headers: Sequence[str] = ()) -> str:
    """The first reply that refuses, or the one to the final dot."""
    head = "\r\n".join([f"From: {SENDER}", f"To: {recipient}", "Subject: hello", *headers])
    async with await daemon.client() as client:
        await client.command("EHLO client.test")
        for line in (f"MAIL FROM:<{SENDER}> {parameters}", f"RCPT TO:<{recipient}>", "DATA"):
            reply = await client.command(line)
            if reply[0] not in "23":
                return reply
        return await client.command(f"{head}\r\n\r\nhello\r\n.")


async def submit_by(daemon: Daemon, recipient: str, parameters: str, headers: Sequence[str] = ()) -> str:
    """The queue id of what must be accepted."""
    reply = await reply_to(daemon, recipient, parameters, headers)
    assert reply.startswith("250 2.0.0 Ok: queued as "), reply
    return reply.split()[-1]


def taking(seconds: float, log: list[float] | None = None) -> Callable[[str], Hold]:
    """A step that replies to each final dot after `seconds`; the instants of the replies go into `log`."""

    def step(line: str) -> Hold:
        hold = Hold("250 2.0.0 Ok: queued as SLOW")
        asyncio.get_running_loop().call_later(seconds, hold.release)
        if log is not None:
            log.append(time.time() + seconds)
        return hold

    return step
