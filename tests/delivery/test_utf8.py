"""Mail that needs SMTPUTF8 on its way out: which servers get it, with what, and what becomes of it elsewhere (B36)."""

from pathlib import Path

import pytest

from mta.model.lifecycle import Status
from tests.delivery.house import House, house
from tests.support.mx import EXTENSIONS, ScriptedMx

OFFERING = (*EXTENSIONS, "SMTPUTF8")


def octets(line: str) -> str:
    """A line as the server keeps it, an octet a character."""
    return line.encode().decode("latin-1")


def route(home: House, *addresses: str) -> None:
    home.names.zones["example.org"] = [(10 * n, f"mx{n}.test", it) for n, it in enumerate(addresses, 1)]


async def outcome(home: House, queue_id: str, address: str) -> tuple[Status, str | None]:
    it = await home.recipient(queue_id, address)
    return it.status, it.reply and it.reply.enhanced


@pytest.mark.parametrize("pipelining", [True, False])
async def test_ext09_the_parameter_goes_with_what_needs_it(tmp_path: Path, pipelining: bool):
    async with ScriptedMx(extensions=OFFERING[not pipelining :]) as mx, house(tmp_path, mx.port) as home:
        route(home, "127.0.0.1")
        await home.submit("jörg@example.org", "ann@example.org", sender="shöp@example.com", utf8=True)
        await home.deliver()
        (message,) = mx.messages
        assert message.mail.startswith(octets("MAIL FROM:<shöp@example.com> "))
        assert message.mail.endswith(" SMTPUTF8")
        assert message.forward_paths == [octets("jörg@example.org"), "ann@example.org"]


async def test_b36_recipients_that_need_nothing_go_without_it(tmp_path: Path):
    """In a transaction of their own, over the same connection."""
    async with ScriptedMx(extensions=OFFERING) as mx, house(tmp_path, mx.port) as home:
        route(home, "127.0.0.1")
        queue_id = await home.submit("jörg@example.org", "ann@example.org")
        await home.deliver()
        await home.deliver()
        plain, other = mx.messages
        assert (plain.forward_paths, "SMTPUTF8" in plain.mail) == (["ann@example.org"], False)
        assert (other.forward_paths, "SMTPUTF8" in other.mail) == ([octets("jörg@example.org")], True)
        assert [(it.status, it.attempts) for it in (await home.show(queue_id)).recipients] == [(Status.SENT, 1)] * 2
        assert len(mx.connections) == 1


async def test_b36_a_server_without_it_takes_the_others_and_one_recipient_fails(tmp_path: Path):
    """CLI-13: 5.6.7, and nobody is asked again."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        route(home, "127.0.0.1")
        queue_id = await home.submit("jörg@example.org", "ann@example.org")
        await home.deliver()
        found = await home.deliver()
        assert await outcome(home, queue_id, "ann@example.org") == (Status.SENT, "2.0.0")
        assert await outcome(home, queue_id, "jörg@example.org") == (Status.FAILED, "5.6.7")
        assert found.trouble is None, "the destination is not at fault"
        assert len(mx.connections) == 1 and len(mx.messages) == 1
        assert not [line for line in mx.commands if not line.isascii()]


@pytest.mark.parametrize(("sender", "status"), [("shöp@example.com", "5.6.7"), ("shop@example.com", "5.6.9")])
async def test_cli13_a_message_that_needs_it_fails_for_all(tmp_path: Path, sender: str, status: str):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        route(home, "127.0.0.1")
        queue_id = await home.submit("ann@example.org", sender=sender, utf8=True)
        await home.deliver()
        assert await outcome(home, queue_id, "ann@example.org") == (Status.FAILED, status)
        assert not [line for line in mx.commands if line.startswith("MAIL")]


async def test_cli13_another_host_that_offers_it_gets_it(tmp_path: Path):
    async with ScriptedMx() as plain, ScriptedMx(host="127.0.0.2", port=plain.port, extensions=OFFERING) as mx:
        async with house(tmp_path, plain.port) as home:
            route(home, "127.0.0.1", "127.0.0.2")
            queue_id = await home.submit("jörg@example.org", eight_bit=True, utf8=True)
            await home.deliver()
            assert (await home.recipient(queue_id)).status is Status.SENT
            assert not plain.messages and len(mx.messages) == 1


async def test_cli13_where_another_host_may_offer_it_later_it_waits(tmp_path: Path):
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        route(home, "127.0.0.1", "127.0.0.9")
        queue_id = await home.submit("jörg@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.PENDING


async def test_a_server_that_offers_it_and_refuses_it_gets_nothing_else(tmp_path: Path):
    """Table A, MAIL 555: the parameter can't be dropped."""
    async with ScriptedMx({"MAIL": "555 5.5.4 unsupported"}, extensions=OFFERING) as mx, house(tmp_path, mx.port) as home:
        route(home, "127.0.0.1")
        queue_id = await home.submit("jörg@example.org")
        await home.deliver()
        assert await outcome(home, queue_id, "jörg@example.org") == (Status.FAILED, "5.5.4")
        assert all("SMTPUTF8" in line for line in mx.commands if line.startswith("MAIL"))


async def test_b38_a_u_label_beside_an_ascii_local_part_is_any_server_s(tmp_path: Path):
    """The destination is that of the A-label."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        home.names.zones["xn--bcher-kva.example"] = [(10, "mx.test", "127.0.0.1")]
        await home.submit("info@xn--bcher-kva.example")
        await home.deliver("xn--bcher-kva.example")
        assert [it.forward_paths for it in mx.messages] == [["info@xn--bcher-kva.example"]]
