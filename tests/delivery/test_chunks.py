"""Large content to servers that take chunks: RFC 3030 through a whole delivery."""

from pathlib import Path
from typing import Any

import pytest

from mta.model.lifecycle import Status
from mta.policy.transaction import CHUNKED_FROM
from tests.delivery.house import CONTENT, House, house
from tests.support.mx import EXTENSIONS, Close, ScriptedMx

CHUNKING = (*EXTENSIONS, "CHUNKING")
LARGE = CONTENT + (b".%077d\r\n" % 0) * 2000
"""150 KiB."""


def one_mx(home: House) -> None:
    home.names.zones["example.org"] = [(10, "mx1.example.org", "127.0.0.1")]


@pytest.mark.parametrize("without", ["", "PIPELINING"])
async def test_large_content_goes_in_chunks_and_its_size_is_what_is_sent(without: str, tmp_path: Path):
    extensions = [it for it in CHUNKING if it != without]
    async with ScriptedMx(extensions=extensions) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", content=LARGE)
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.remote_id) == (Status.SENT, "MX123")
    [message] = mx.messages
    assert message.content == LARGE and len(message.chunks) > 1
    assert f"SIZE={len(LARGE)}" in message.mail
    assert "DATA" not in mx.connections[0].verbs


async def test_small_content_goes_by_data(tmp_path: Path):
    """As long as it is not larger than `CHUNKED_FROM`."""
    content = CONTENT + b"x" * (CHUNKED_FROM - len(CONTENT) - 2) + b"\r\n"
    async with ScriptedMx(extensions=CHUNKING) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        for it in (content, b"X: y\r\n" + content):
            await home.submit("ann@example.org", content=it)
            await home.deliver()
    assert [bool(it.chunks) for it in mx.messages] == [False, True]


async def test_nothing_is_sent_where_nobody_is_accepted(tmp_path: Path):
    """And the session carries the next mail."""
    script = {"RCPT": ["550 5.1.1 no such user"]}
    async with ScriptedMx(script, extensions=CHUNKING) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        refused = await home.submit("nobody@example.org", content=LARGE)
        await home.deliver()
        sent = await home.submit("ann@example.org", content=LARGE)
        await home.deliver()
        assert (await home.recipient(refused)).status is Status.FAILED
        assert (await home.recipient(sent)).status is Status.SENT
    assert mx.connections[0].verbs[:6] == ["EHLO", "MAIL", "RCPT", "RSET", "MAIL", "RCPT"]
    assert len(mx.messages) == 1


async def test_b57_the_doubt_is_recorded_before_the_last_chunk_and_behind_the_others(tmp_path: Path, monkeypatch):
    """SPL-06: and the copy that is sent later is the same."""
    said: list[list[str]] = []
    async with ScriptedMx({"FINAL": [Close()]}, extensions=CHUNKING) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        mark = home.spool.mark_in_doubt

        async def marked(*arguments: Any) -> None:
            said.append([line for line in mx.commands if line.startswith("BDAT")])
            await mark(*arguments)

        monkeypatch.setattr(home.spool, "mark_in_doubt", marked)
        queue_id = await home.submit("ann@example.org", content=LARGE)
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.doubts) == (Status.IN_DOUBT, 1)
        assert len(said[0]) == 2 and not any("LAST" in line for line in said[0])
        home.clock.at += 601
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
    assert [it.content for it in mx.messages] == [LARGE, LARGE]


async def test_a_refused_chunk_leaves_a_session_for_other_mail(tmp_path: Path):
    """Table A: stop, RSET; the recipients wait."""
    async with ScriptedMx({"BDAT": ["452 4.3.1 no room"]}, extensions=CHUNKING) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        waits = await home.submit("ann@example.org", content=LARGE)
        await home.deliver()
        sent = await home.submit("bob@example.org")
        await home.deliver()
        it = await home.recipient(waits)
        assert (it.status, it.reply and it.reply.code) == (Status.PENDING, 452)
        assert (await home.recipient(sent)).status is Status.SENT
    assert len(mx.connections) == 1
    assert "RSET" in mx.connections[0].verbs


async def test_a_server_that_knows_no_chunks_gets_the_content_by_data(tmp_path: Path):
    """Table A: the same host, over a new connection, since it took the chunk for commands."""
    async with ScriptedMx({"BODY": ["502 5.5.1 what?"]}, extensions=CHUNKING) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", content=LARGE)
        await home.deliver()
        it = await home.recipient(queue_id)
        assert (it.status, it.attempts) == (Status.SENT, 1)
    assert [connection.verbs[3] for connection in mx.connections] == ["BDAT", "DATA"]
    assert mx.messages[0].content == LARGE
