"""A spool whose disk is full: what is accepted can still be delivered, and nothing is stuck once there is room again."""

import asyncio
from pathlib import Path

import pytest

from mta.model.lifecycle import Status
from mta.spool.base import SpoolError, SpoolFull
from tests.delivery.house import house
from tests.support.mx import ScriptedMx
from tests.support.smtp_client import SmtpClient
from tests.support.submission import MemorySpool, bench


async def test_a_claim_that_cannot_be_given_back_at_once_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Neither the mark before the dot nor the claim's return could be written; later there is room."""
    monkeypatch.setattr("mta.delivery.worker.PERSIST_INTERVAL", 0.001)
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        queue_id = await home.submit("ann@example.org")
        room = iter([False, False, False])

        def failing(verb):
            async def call(*arguments):
                if not next(room, True):
                    raise SpoolFull("no space")
                return await verb(*arguments)

            return call

        monkeypatch.setattr(home.spool, "release", failing(home.spool.release))
        with monkeypatch.context() as full:
            full.setattr(home.spool, "mark_in_doubt", failing(home.spool.mark_in_doubt))
            with pytest.raises(SpoolError):
                await home.deliver()
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert len(mx.messages) == 1


async def test_submissions_leave_room_for_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        queue_id = await home.submit("ann@example.org")
        monkeypatch.setattr(home.spool, "_min_free", 2**62)
        with pytest.raises(SpoolFull):
            await home.submit("bob@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert (await home.spool.overview(home.clock.now())).recipients[Status.PENDING] == 0


async def test_a_client_is_told_before_it_sends_its_content(tmp_path: Path):
    """EXT-04: at DATA; RSET is not needed, and with room again the same session goes on."""
    spool = MemorySpool()
    full = True

    def check_room(octets: int) -> None:
        if full:
            raise SpoolFull("no space")

    spool.check_room = check_room
    async with bench(spool=spool) as running, await SmtpClient.connect(running.endpoint) as client:
        for line in ("EHLO c.test", "MAIL FROM:<a@b.test>", "RCPT TO:<c@d.test>"):
            await client.command(line)
        assert (await client.command("DATA")).startswith("452 4.3.1")
        full = False
        assert (await client.submit(b"Subject: x\r\n\r\nhi\r\n")).startswith("250 2.0.0")


async def test_a_result_that_never_sticks_stops_no_other_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        await home.submit("poison@example.org")
        settle, refused = home.spool.settle, asyncio.Event()

        async def picky(settlement, now):
            if settlement.claim.recipients[0].address == "poison@example.org":
                refused.set()
                raise SpoolError("database disk image is malformed")
            return await settle(settlement, now)

        monkeypatch.setattr(home.spool, "settle", picky)
        stuck = asyncio.create_task(home.deliver())
        await refused.wait()
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        stuck.cancel()
