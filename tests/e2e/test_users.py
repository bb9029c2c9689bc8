"""The users file in a daemon's life."""

import pytest

from mta.passwords import hash_password
from tests.e2e.world import World


@pytest.fixture
def world(world: World) -> World:
    """Nobody may submit but users; none can log in here, without TLS."""
    world.configure("submission", users_file=str(world.folder / "users"), allow=[])
    (world.folder / "users").write_text(f"shop:{hash_password('x')}\n")
    (world.folder / "users").chmod(0o600)
    return world


async def greeted(world: World) -> str:
    async with await world.daemon.client() as client:
        if client.greeting.startswith("220"):
            await client.command("EHLO c.test")
            return (await client.command("MAIL FROM:<a@shop.test>"))[:9]
        return client.greeting[:9]


async def test_ext14_users_are_read_again_and_kept_where_the_new_file_is_bad(world: World) -> None:
    await world.daemon.start()
    assert await greeted(world) == "530 5.7.0"
    users = world.folder / "users"
    users.write_text("shop:secret\n")
    await world.daemon.reload()
    [trouble] = world.daemon.logged("trouble", level="error")
    assert f"{users}:1: " in trouble["detail"] and "secret" not in world.daemon.log_text
    assert await greeted(world) == "530 5.7.0"
    users.write_text("# nobody any more\n")
    await world.daemon.reload()
    assert await greeted(world) == "554 5.7.1"
    assert [it["what"] for it in world.daemon.logged("trouble", level="warning") if "has no users" in it["what"]]


async def test_a_bad_users_file_refuses_the_start(world: World) -> None:
    (world.folder / "users").write_text("\nshop:secret\n")
    await world.daemon.launch()
    assert await world.daemon.exited() == 78
    [line] = world.daemon.log_text.splitlines()
    assert line.startswith(f"mta: {world.folder / 'users'}:2: ") and "secret" not in line
    assert not (world.folder / "spool.db").exists()
