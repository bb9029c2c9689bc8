"""A world whose daemon keeps its spool on a bad disk."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash.disk import Disk, compiled
from tests.e2e.world import World, no_surprise


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shim"))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Not started; doubts wait for a person."""
    with tempfile.TemporaryDirectory(prefix="mta-") as folder:  # not tmp_path: a socket's path is short
        async with World(Path(folder)) as world:
            world.configure("delivery", in_doubt="hold")
            with no_surprise(world.daemon):
                yield world


@pytest.fixture
def disk(world: World, shim: Path) -> Disk:
    return Disk(world, shim)
