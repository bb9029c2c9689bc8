"""Classes of mail share destinations: who waits for whom (B31)."""

import asyncio
import time

from tests.e2e.requests import submit_by, taking
from tests.e2e.world import World
from tests.support.daemon import until

BULK = ("Precedence: bulk",)
URGENT = ("Priority: urgent",)
PATIENT = {"give_up_after": "1h", "first_retry": "60s", "max_interval": "60s"}


async def test_b31_a_code_overtakes_a_burst(world: World) -> None:
    """Three sessions of four may carry bulk mail: the code waits for none of them."""
    world.configure("delivery", max_sessions_per_destination=4)
    slow = await world.mx("slow.test", script={"FINAL": taking(0.3)})
    await world.daemon.start()
    for number in range(60):
        await world.daemon.submit(f"reader{number}@slow.test", headers=BULK)
    await until(lambda: len(slow.messages) >= 6)
    before = len(slow.messages)
    code = await world.daemon.submit("ann@slow.test", headers=URGENT)
    await until(lambda: world.mail_for("ann@slow.test", slow))
    overtaken = [it.forward_paths for it in slow.messages[before:]].index(["ann@slow.test"])
    assert overtaken <= 6, "one transaction's worth"
    assert (await world.daemon.show(code))["class"] == "urgent"
    assert (await world.daemon.json("status"))["classes"]["bulk"]["pending"] > 20


async def test_b31_bulk_mail_gets_on_under_endless_urgent_mail(world: World) -> None:
    world.configure("delivery", max_sessions_per_destination=4, max_sessions=4)
    slow = await world.mx("slow.test", script={"FINAL": taking(0.1)})
    await world.daemon.start()
    for number in range(10):
        await world.daemon.submit(f"reader{number}@slow.test", headers=BULK)
    stop = asyncio.Event()

    async def endless() -> None:
        while not stop.is_set():
            await world.daemon.submit("code@slow.test", headers=URGENT)

    task = asyncio.create_task(endless())
    await until(lambda: sum("reader" in it.rcpts[0] for it in slow.messages if it.code == 250) == 10)
    stop.set()
    await task


async def test_bulk_mail_that_fills_the_sessions_starves_no_other_destination(world: World) -> None:
    world.configure("delivery", max_sessions=6, max_sessions_per_destination=6)
    await world.mx("slow.test", script={"FINAL": taking(0.5)})
    fast = await world.mx("fast.test")
    await world.daemon.start()
    for number in range(40):
        await world.daemon.submit(f"reader{number}@slow.test", headers=BULK)
    at = time.time()
    await world.daemon.submit("ann@fast.test")
    await until(lambda: world.mail_for("ann@fast.test", fast))
    assert time.time() - at < 2


async def test_the_trouble_of_bulk_mail_does_not_keep_a_code(world: World) -> None:
    """The destination rests for a minute; urgent mail looks again after a second."""
    world.configure("class.bulk", **PATIENT)
    world.configure("class.normal", **PATIENT)
    mx = await world.mx("away.test", script={"BANNER": "421 4.3.2 not now"})
    await world.daemon.start()
    newsletter = await world.daemon.submit("reader@away.test", headers=BULK)
    await until(lambda: world.daemon.logged("deferred", qid=newsletter))
    mx.script.clear()
    at = time.time()
    await world.daemon.submit("ann@away.test", headers=URGENT)
    await until(lambda: world.mail_for("ann@away.test", mx))
    assert time.time() - at < 4


async def test_a_refusing_destination_sees_one_urgent_session_a_second(world: World) -> None:
    world.configure("class.urgent", first_retry="100ms", max_interval="200ms", give_up_after="1h")
    mx = await world.mx("away.test", script={"BANNER": "421 4.3.2 not now"})
    await world.daemon.start()
    for number in range(20):
        await world.daemon.submit(f"r{number}@away.test", headers=URGENT)
    await until(lambda: mx.connections)
    before, at = len(mx.connections), time.time()
    await asyncio.sleep(5)
    assert 1 <= len(mx.connections) - before <= time.time() - at + 1


async def test_pri_04_the_priority_goes_on(running: World) -> None:
    """By parameter where it is offered, in the field everywhere; its DSN has it too."""
    knowing = await running.mx("knowing.test", extensions=("PIPELINING", "MT-PRIORITY"))
    plain = await running.mx("plain.test")
    for domain in ("knowing.test", "plain.test"):
        await submit_by(running.daemon, f"ann@{domain}", "MT-PRIORITY=-3")
        await running.daemon.submit(f"bob@{domain}")
    await until(lambda: len(knowing.messages) == len(plain.messages) == 2)
    by_path = {it.forward_paths[0]: it for it in (*knowing.messages, *plain.messages)}
    asked = {path: [word for word in it.mail.split() if word.startswith("MT-")] for path, it in by_path.items()}
    assert asked == {
        "ann@knowing.test": ["MT-PRIORITY=-3"], "bob@knowing.test": ["MT-PRIORITY=0"],
        "ann@plain.test": [], "bob@plain.test": [],
    }  # fmt: skip
    fields = {path: it.content.count(b"\r\nMT-Priority: -3\r\n") for path, it in by_path.items()}
    assert fields == {"ann@knowing.test": 1, "bob@knowing.test": 0, "ann@plain.test": 1, "bob@plain.test": 0}
    await running.mx("bad.test", script={"RCPT": "550 5.1.1 no such user"})
    await submit_by(running.daemon, "ann@bad.test", "MT-PRIORITY=5")
    (bounce,) = await until(running.bounces)
    assert b"\r\nMT-Priority: 5\r\n" in bounce.content
