"""Every test has a world of its own, and ends with a look into the daemon's log."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.world import World, no_surprise


@pytest.fixture
async def world() -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="mta-") as folder:  # not tmp_path: a socket's path is short
        async with World(Path(folder)) as world:
            with no_surprise(world.daemon):
                yield world
                await world.daemon.stop()


@pytest.fixture
async def running(world: World) -> World:
    """A world whose daemon is started, with nothing special about it."""
    await world.daemon.start()
    return world
