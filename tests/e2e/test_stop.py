"""Signals in the midst of everything: B50; and what a crash leaves (B08, B57, B58 have their parts elsewhere)."""

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass

import pytest

from tests.e2e.world import World
from tests.support.daemon import Daemon, until
from tests.support.mx import Hold, ScriptedMx, Silence, Unread
from tests.support.smtp_client import SmtpClient

LARGE = (b"x" * 78 + b"\r\n") * 60_000
"""More than loopback sockets hold."""
FOLLOWERS = 5


@dataclass
class Flights:
    """Ten deliveries in flight, three each before MAIL, in the content and behind the dot, and one that is done with its
    session open; five messages behind the first of them."""

    daemon: Daemon
    before: list[ScriptedMx]
    body: list[ScriptedMx]
    dot: list[ScriptedMx]
    done: ScriptedMx
    replies: list[Hold]
    ids: dict[str, str]

    @property
    def servers(self) -> list[ScriptedMx]:
        return [*self.before, *self.body, *self.dot, self.done]


async def in_flight(world: World) -> Flights:
    world.configure("delivery", max_sessions_per_destination=1, in_doubt_delay="1s")
    world.configure("daemon", stop_timeout="3s")
    replies = [Hold("250 2.0.0 Ok: queued as LATE") for _ in range(3)]
    before = [await world.mx(f"before{n}.test", script={"EHLO": [Hold(Silence())]}) for n in range(3)]
    body = [await world.mx(f"body{n}.test", script={"BODY": [Unread()]}) for n in range(3)]
    dot = [await world.mx(f"dot{n}.test", script={"FINAL": [replies[n]]}) for n in range(3)]
    done = await world.mx("done.test", script={"QUIT": [Silence()]})
    daemon = world.daemon
    await daemon.start()
    ids = {name: await daemon.submit(f"ann@{name}.test") for name in ("done", *(f"dot{n}" for n in range(3)))}
    ids |= {f"before{n}": await daemon.submit(f"ann@before{n}.test") for n in range(3)}
    ids |= {f"body{n}": await daemon.submit(f"ann@body{n}.test", body=LARGE) for n in range(3)}
    ids |= {f"queued{n}": await daemon.submit(f"q{n}@before0.test") for n in range(FOLLOWERS)}
    for mx in [*before, *body]:
        await until(lambda mx=mx: "EHLO" in (mx.connections[-1].verbs if mx.connections else ()))
    for mx in body:
        await until(lambda mx=mx: "DATA" in mx.connections[-1].verbs)
    for hold in replies:
        await hold.reached.wait()
    await until(lambda: daemon.has(ids["done"], "sent"))
    return Flights(daemon, before, body, dot, done, replies, ids)


async def refused(endpoint: tuple[str, int]) -> bool:
    with suppress(ConnectionRefusedError, ConnectionResetError):  # reset: it was in the queue when the listener closed
        _, writer = await asyncio.open_connection(*endpoint)
        writer.close()
        return False
    return True


async def half_submitted(daemon: Daemon, recipient: str) -> SmtpClient:
    client = await daemon.client()
    await client.envelope(recipients=[recipient])
    await client.send(b"From: a@b.test\r\nSubject: half\r\n\r\n")
    return client


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
async def test_b50_sigterm_loses_nothing_and_doubles_nothing(world: World, twice: bool) -> None:
    flights = await in_flight(world)
    daemon = flights.daemon
    quick, slow = await half_submitted(daemon, "quick@done.test"), await half_submitted(daemon, "slow@done.test")
    daemon.send(signal.SIGTERM)
    await daemon.notified("STOPPING=1")
    await until(lambda: refused(daemon.endpoint))
    await quick.send(b"x\r\n.\r\n")
    accepted = await quick.reply()
    assert accepted.startswith("250 2.0.0 Ok: queued as")
    for mx in flights.before:
        await asyncio.wait_for(mx.connections[0].closed.wait(), 5)
    if twice:
        daemon.send(signal.SIGTERM)
    for hold in flights.replies:
        hold.release()
    assert (await slow.reply()).startswith("421 4.3.2")
    assert await daemon.exited() == 0
    for client in (quick, slow):
        client.writer.close()
    assert not daemon.control.exists()

    await daemon.start()
    await until(daemon.idle)
    await _each_once(flights)
    assert (await daemon.recipient(accepted.split()[-1]))["status"] == "sent"
    assert not daemon.logged("in_doubt") and not daemon.warnings


async def _each_once(flights: Flights) -> None:
    """What was aborted before its dot has cost no attempt."""
    for name, queue_id in flights.ids.items():
        recipient = await flights.daemon.recipient(queue_id)
        assert (recipient["status"], recipient["attempts"], recipient["doubts"]) == ("sent", 1, 0), (name, recipient)
    taken = [path for mx in flights.servers for it in mx.messages for path in it.forward_paths]
    assert len(taken) == len(set(taken)) == 10 + FOLLOWERS + 1


async def test_b50_sigkill_doubles_at_most_what_was_behind_the_dot_and_lists_it(world: World) -> None:
    world.configure("class.normal", give_up_after="1h")  # a slow machine is no reason to give up
    flights = await in_flight(world)
    daemon = flights.daemon
    assert await daemon.stop(signal.SIGKILL) == -signal.SIGKILL
    world.configure("delivery", in_doubt_delay="3s")
    await daemon.start()
    listed = {it["queue_id"] for it in (await daemon.json("queue --status in_doubt"))["messages"]}
    assert listed == {flights.ids[f"dot{n}"] for n in range(3)}
    (warning,) = daemon.warnings
    assert "for 3 recipients" in warning
    await until(daemon.idle)
    for name, queue_id in flights.ids.items():
        recipient = await daemon.recipient(queue_id)
        doubts = int(name.startswith("dot"))
        assert (recipient["status"], recipient["doubts"]) == ("sent", doubts), (name, recipient)
    for mx in flights.servers:
        copies = [message for message in mx.messages if message.forward_paths[0].startswith("ann@")]
        assert len(copies) == (2 if mx in flights.dot else 1)
        assert len({copy.raw for copy in copies}) == 1, "the same bytes"


async def test_b50_sigint_is_a_stop_too_and_an_idle_daemon_stops_at_once(running: World) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await running.daemon.stop(signal.SIGINT) == 0
    assert loop.time() - begun < 5
    said = [(line["what"], line.get("detail", "")) for line in running.daemon.logged("daemon", level="info")]
    assert said[-2:] == [("stopping", "SIGINT"), ("stopped", "")]


async def test_b50_a_reply_that_never_comes_is_waited_for_within_the_limit(world: World) -> None:
    """Then it is in doubt, not lost: the next start finds it."""
    reply = Hold("250 2.0.0 Ok")
    await world.mx("dot.test", script={"FINAL": [reply]})
    world.configure("daemon", stop_timeout="500ms")
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@dot.test")
    await reply.reached.wait()
    assert await daemon.stop() == 0
    await daemon.start()
    await until(lambda: daemon.has(queue_id, "sent"))
    assert (await daemon.recipient(queue_id))["doubts"] == 1
