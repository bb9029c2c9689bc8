"""What the daemon's own event loop does otherwise than asyncio's, which most tests run on."""

import asyncio

import uvloop

from mta.model.events import Accepted, Trouble
from tests.support.daemon import until
from tests.support.smtp_client import SmtpClient
from tests.support.submission import MemorySpool, bench


async def _client_that_goes_while_its_message_is_stored() -> None:
    spool = MemorySpool()
    entered, released = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        entered.set()
        await released.wait()

    spool.before_accept = slow
    async with bench(spool=spool) as running:
        client = await SmtpClient.connect(running.endpoint)
        await client.envelope()
        await client.send(b"\r\nx\r\n.\r\n")
        await entered.wait()
        (session,) = running.listener._sessions
        client.reset()
        await until(lambda: session._is_lost)
        released.set()
        await until(lambda: running.listener.sessions == 0)
        assert [type(fact) for fact in running.facts if isinstance(fact, Accepted | Trouble)] == [Accepted]


def test_a_client_that_resets_is_no_trouble_of_ours() -> None:
    uvloop.run(_client_that_goes_while_its_message_is_stored())
