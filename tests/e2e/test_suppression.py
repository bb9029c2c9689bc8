"""Mail to an address that does not exist is refused at RCPT once that is known, with the server's own words."""

import smtplib
from typing import Any

import pytest

from tests.e2e.world import World
from tests.support.daemon import until


async def failed_once(world: World, *, keep: str = "30d") -> str:
    world.configure("suppression", keep=keep)
    world.gone = await world.mx("gone.test", script={"RCPT": ["550 5.1.1 <ann@gone.test>: User unknown here"]})  # type: ignore[attr-defined]
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@gone.test")
    await until(lambda: world.bounces())
    return queue_id


async def listed(world: World) -> list[dict[str, Any]]:
    return (await world.daemon.json("suppression", "list"))["suppressions"]


async def test_a_second_submission_is_refused_with_the_earlier_reply_until_a_person_takes_it_back(world: World) -> None:
    queue_id = await failed_once(world)
    with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
        await world.daemon.submit("ann@gone.test")
    code, text = refused.value.recipients["ann@gone.test"]
    assert code == 550
    assert text.startswith(b"5.1.1 <ann@gone.test>: nothing is sent to this address since ")
    assert b"User unknown here" in text
    [one] = await listed(world)
    assert (one["address"], one["queue_id"], one["learned"]) == ("ann@gone.test", queue_id, True)
    await world.daemon.stop()
    await world.daemon.start()
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        await world.daemon.submit("ann@gone.test")
    assert (await world.daemon.cli("suppression", "remove", "ann@gone.test")).code == 0
    assert (await world.daemon.cli("suppression", "remove", "ann@gone.test")).code == 66
    await world.daemon.submit("ann@gone.test")
    await until(lambda: world.mail_for("ann@gone.test", world.gone))  # type: ignore[attr-defined]


async def test_a_person_s_retry_outweighs_it_and_a_delivery_ends_it(world: World) -> None:
    queue_id = await failed_once(world)
    done = await world.daemon.cli("resend", queue_id, "--key", "again-1")
    assert "tried all the same" in done.out
    await until(lambda: world.mail_for("ann@gone.test", world.gone))  # type: ignore[attr-defined]
    await until(lambda: any("sent to ann@gone.test again" in str(line) for line in world.daemon.log))
    assert not await listed(world)
    await world.daemon.submit("ann@gone.test")


async def test_a_person_may_name_one_although_nothing_is_learned(running: World) -> None:
    await running.mx("example.test")
    done = await running.daemon.cli("suppression", "add", "bob@example.test", "--reason", "he asked for it", "--for", "1h")
    assert (done.code, "bob@example.test" in done.out) == (0, True)
    with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
        await running.daemon.submit("bob@example.test")
    assert b"he asked for it" in refused.value.recipients["bob@example.test"][1]
    await running.daemon.submit("carl@example.test")
    shown = await running.daemon.cli("suppression", "list")
    assert "he asked for it" in shown.out
    local = await running.daemon.cli("suppression", "add", "postmaster@mail.out.test")
    assert (local.code, "this machine" in local.err) == (65, True)
    assert (await running.daemon.cli("suppression", "add", "no address")).code == 64
