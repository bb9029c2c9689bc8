"""The contract over the SQLite spool: with its threads, inline as the simulation runs it, and in a process of its own as the
daemon does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mta.spool.connection import connect_inline
from tests.spool.contract import Contract, spool  # noqa: F401  the fixture
from tests.spool.house import House, RemoteHouse


class TestThreaded(Contract):
    pass


class TestInline(Contract):
    @pytest.fixture
    async def house(self, tmp_path: Path) -> AsyncIterator[House]:
        house = House(tmp_path, connect_inline)
        yield house
        await house.close()


class TestProcess(Contract):
    @pytest.fixture
    async def house(self, tmp_path: Path) -> AsyncIterator[House]:
        house = RemoteHouse(tmp_path)
        yield house
        await house.close()
