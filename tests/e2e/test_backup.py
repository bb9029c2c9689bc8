"""`mta backup FILE` and the way back, as the README has it."""

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.test_spool import AS_NOBODY, NOBODY
from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.mx import Hold


async def test_a_backup_under_load_restored_has_all_that_was_acknowledged_before(world: World) -> None:
    """Killed, the spool gone, the copy in its place, started: nothing acknowledged before the backup is missing."""
    mx = await world.mx("good.test")
    world.route("later.test", "127.0.0.1")  # nobody there: it waits
    daemon = world.daemon
    await daemon.start()
    acknowledged: list[str] = []

    async def submit(domain: str) -> None:
        while True:
            acknowledged.append(await daemon.submit(f"ann@{domain}"))

    load = [asyncio.create_task(submit(domain)) for domain in ("good.test", "good.test", "later.test")]
    await until(lambda: len(acknowledged) > 20)
    before = list(acknowledged)
    file = world.folder / "copy.db"
    assert (await daemon.cli("backup", os.path.relpath(file))).code == 0
    for task in load:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await restore(world, file)
    for queue_id in before:
        assert (await daemon.show(queue_id)).get("queue_id") == queue_id
    await daemon.cli("release", "--all")
    await until(lambda: bool(mx.messages))
    await daemon.submit("bob@good.test")


async def test_a_copy_comes_up_held(world: World) -> None:
    """What was sent after the backup would go again: a person looks first, cancels that, and lets the rest go."""
    reply = Hold("250 2.0.0 Ok")
    mx = await world.mx("good.test", script={"MAIL": [reply]})
    daemon = world.daemon
    await daemon.start()
    queue_id = await daemon.submit("ann@good.test")
    await reply.reached.wait()
    await daemon.cli("backup", str(world.folder / "copy.db"))
    reply.release()
    await until(lambda: daemon.has(queue_id, "sent"))
    await restore(world, world.folder / "copy.db")
    assert (await daemon.json("status"))["held"] == ["*"]
    assert any("held" in line["what"] for line in daemon.logged("trouble", level="warning"))
    assert await daemon.has(queue_id, "pending")
    await daemon.cli("cancel", queue_id)
    await daemon.cli("release", "--all")
    later = await daemon.submit("bob@good.test")
    await until(lambda: daemon.has(later, "sent"))
    assert [message.forward_paths for message in mx.messages] == [["ann@good.test"], ["bob@good.test"]]


async def restore(world: World, file: Path) -> None:
    await world.daemon.stop(signal.SIGKILL)
    for path in world.folder.glob("spool.db*"):
        path.unlink()
    file.rename(world.folder / "spool.db")
    await world.daemon.start()


async def test_a_file_that_can_not_be_made_is_told_with_its_code(running: World) -> None:
    daemon, folder = running.daemon, running.folder
    (folder / "there.db").write_text("a letter")
    told = await daemon.cli("backup", str(folder / "there.db"))
    assert (told.code, told.out) == (65, "")
    assert told.err == f"mta: {folder}/there.db is there already: name a new file\n"
    assert (await daemon.cli("backup", str(folder / "nowhere/copy.db"))).code == 65
    assert (await daemon.cli("backup")).code == 64
    assert "absolute path" in await daemon.ask("backup copy.db")
    assert (folder / "there.db").read_text() == "a letter"
    done = await daemon.json(f"backup '{folder}/a copy.db'")
    assert done == {"file": f"{folder}/a copy.db", "size": (folder / "a copy.db").stat().st_size}


@pytest.mark.root
async def test_b46_a_folder_that_the_daemons_user_may_not_write_is_77(world: World) -> None:
    daemon = world.daemon
    daemon.preamble = AS_NOBODY
    for path in (world.folder, *world.folder.iterdir()):
        shutil.chown(path, NOBODY, NOBODY)
    closed = world.folder / "closed"
    closed.mkdir(0o755)
    await daemon.start()
    told = await daemon.cli("backup", str(closed / "copy.db"))
    assert told.code == 77
    assert told.err.startswith(f"mta: the daemon may not make {closed}/copy.db (permission denied)")
    assert not list(closed.iterdir())
