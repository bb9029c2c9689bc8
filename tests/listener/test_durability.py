"""The listener on the real spool: 250 stands for what is on disk, and for all of it."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mta.doorbell import Doorbell
from mta.spool.base import DoubtPolicy
from mta.spool.buffer import SpillBuffer
from mta.spool.sqlite import SqliteSpool, open_sqlite
from tests.support.smtp_client import SmtpClient, stuffed
from tests.support.submission import NOW

Start = Callable[..., Any]


async def opened(path: Path) -> SqliteSpool:
    spool, _ = await open_sqlite(path, doubts=DoubtPolicy(True, 600), now=NOW, doorbell=Doorbell())
    return spool


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[SqliteSpool]:
    spool = await opened(tmp_path / "spool.db")
    yield spool
    await spool.close()


async def stored(spool: SqliteSpool, queue_id: str) -> bytes:
    return b"".join([chunk async for chunk in spool.content(queue_id)])


async def test_spl01_what_got_250_is_on_disk_whole(start: Start, spool: SqliteSpool, tmp_path: Path) -> None:
    running = await start(spool=spool)
    async with await SmtpClient.connect(running.endpoint) as client:
        reply = await client.submit(b"Subject: x\r\n\r\n..x\r\n", recipients=["ann@example.org", "bob@example.net"])
        queue_id = reply.split()[-1]
        with contextlib.closing(sqlite3.connect(tmp_path / "spool.db")) as other:
            seen = other.execute("SELECT count(*) FROM recipients")
            assert seen.fetchone() == (2,), "another connection sees it before the client does anything else"
    view = await spool.show(queue_id)
    assert view is not None
    assert [recipient.address for recipient in view.recipients] == ["ann@example.org", "bob@example.net"]
    assert (await stored(spool, queue_id)).endswith(b"\r\n\r\n.x\r\n")


async def test_a_large_message_is_stored_octet_by_octet(start: Start, spool: SqliteSpool) -> None:
    running = await start(spool=spool)
    body = b"".join(b"%08d .line\r\n.dot\r\n" % number for number in range(200_000))
    async with await SmtpClient.connect(running.endpoint) as client:
        reply = await client.submit(stuffed(b"Subject: x\r\n\r\n" + body))
    content = await stored(spool, reply.split()[-1])
    assert content.partition(b"\r\n\r\n")[2] == body


async def test_b01_spl02_a_session_cancelled_in_its_commit_stores_all_or_nothing(
    start: Start, spool: SqliteSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon's end, when its patience is over: the spool's thread is in the middle of the content."""
    loop = asyncio.get_running_loop()
    entered, cancelled = asyncio.Event(), threading.Event()
    chunks = SpillBuffer.chunks

    def slow_chunks(buffer: SpillBuffer) -> Iterator[bytes]:
        for chunk in chunks(buffer):
            yield chunk
            loop.call_soon_threadsafe(entered.set)
            cancelled.wait(5)

    monkeypatch.setattr(SpillBuffer, "chunks", slow_chunks)
    running = await start(spool=spool)
    body = b"x" * 78 + b"\r\n"
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.envelope()
        await client.send(b"Message-ID: <big@shop.test>\r\n\r\n" + body * 40_000 + b".\r\n")
        await entered.wait()
        for session in tuple(running.listener._sessions):
            session.task.cancel()
        assert await client.at_end()
        cancelled.set()
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.submit(b"Message-ID: <next@shop.test>\r\n\r\n")
    contents = [await stored(spool, queue_id) for queue_id in await spool.find("<big@shop.test>")]
    assert all(content.endswith(b"\r\n\r\n" + body * 40_000) for content in contents)
