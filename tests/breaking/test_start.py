"""Signals that come while the daemon starts."""

import signal

from tests.e2e.world import World
from tests.support.daemon import toml, until

SLOW_OPENING = """
import asyncio, pathlib
import mta.spool.process.server
opened = mta.spool.process.server.open_sqlite
async def slowly(path, **how):
    path.with_name("opening").touch()
    while path.with_name("opening").exists():
        await asyncio.sleep(0.01)
    return await opened(path, **how)
mta.spool.process.server.open_sqlite = slowly
"""


async def test_a_sighup_during_the_start_is_obeyed_after_it(world: World) -> None:
    """The manager does not hear READY before it is true, and the new configuration holds."""
    daemon, opening = world.daemon, world.folder / "opening"
    daemon.preamble = SLOW_OPENING
    await daemon.launch()
    await until(opening.exists)
    world.configure("submission", max_recipients=1)
    daemon.file.write_text(toml(daemon.config))
    daemon.send(signal.SIGHUP)
    opening.unlink()
    await until(lambda: daemon.logged("daemon", what="the configuration was read again"))
    assert [line["what"] for line in daemon.logged("daemon")] == ["ready", "the configuration was read again"]
    async with await daemon.client() as client:
        replies = [await client.command(line) for line in ("EHLO c", "MAIL FROM:<a@b.test>", "RCPT TO:<a@c.test>")]
        replies.append(await client.command("RCPT TO:<b@c.test>"))
    assert [reply[:3] for reply in replies] == ["250", "250", "250", "452"]
