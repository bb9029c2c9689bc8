"""Submissions with MAIL parameters, servers that take their time, and what came of it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.e2e.world import SENDER, World
from tests.support.daemon import Daemon, until
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


async def sent(world: World, queue_id: str, address: str = "") -> dict[str, Any]:
    found: dict[str, Any] = await until(lambda: world.daemon.has(queue_id, "sent", address))
    return found


async def replied(world: World, queue_id: str) -> dict[str, Any]:
    """The recipient, once something was said of it."""

    async def look() -> dict[str, Any] | None:
        found = await world.daemon.recipient(queue_id)
        return found if found["reply"] else None

    found: dict[str, Any] = await until(look)
    return found


async def policies(world: World, queue_id: str) -> list[str]:
    return [it["policy"] for it in (await world.daemon.show(queue_id))["timeline"] if it["event"] == "sent"]
