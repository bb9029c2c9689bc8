"""A person is called although mail is what is broken (the postmaster's server takes nothing)."""

import asyncio
import json
from typing import Any

from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.ports import free_port


async def test_a_given_up_message_reaches_the_program_and_the_web_server(world: World) -> None:
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        bodies.append(await reader.readexactly(size))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    port, file = free_port(), world.folder / "alert.json"
    world.configure(
        "alerts",
        command=["/bin/sh", "-c", f"cat > {file}.new && mv {file}.new {file}; echo paged"],
        webhook=f"http://127.0.0.1:{port}/hook",
    )
    world.dns.zones["admin.test", "*"] = "SERVFAIL"
    await world.mx("never.test", script={"RCPT": "450 4.2.1 busy"})
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        await world.daemon.start()
        queue_id = await world.daemon.submit("ann@never.test")
        await until(lambda: bodies and file.exists())
    finally:
        server.close()
    for document in (json.loads(bodies[0]), json.loads(file.read_bytes())):
        [message] = document["messages"]
        assert (message["queue_id"], message["recipient"], message["status"]) == (queue_id, "ann@never.test", "dead")
        assert message["reply"]["code"] == 450
    told: list[dict[str, Any]] = await until(lambda: _told(world))
    assert any("paged" in json.dumps(line) for line in told)
    checked = await world.daemon.cli("status", "--check")
    assert (checked.code, checked.out) == (1, "WARNING: 1 recipient given up (mta dead)\n")
    await world.daemon.stop()
    gone = await world.daemon.cli("status", "--check")
    assert gone.code == 2
    assert gone.out.startswith("CRITICAL: the daemon can't be reached")


def _told(world: World) -> list[dict[str, Any]] | None:
    """The log's lines of both ways, when they are there."""
    lines = [line for line in world.daemon.log if "told of 1 recipients" in json.dumps(line)]
    return lines if len(lines) == 2 else None
