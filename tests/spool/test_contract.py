"""The contract over the SQLite spool: with its threads, and inline as the simulation runs it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.spool.contract import Contract, spool  # noqa: F401  the fixture
from tests.spool.house import House
from tests.support.inline import connect_inline


class TestThreaded(Contract):
    pass


class TestInline(Contract):
    @pytest.fixture
    async def house(self, tmp_path: Path) -> AsyncIterator[House]:
        house = House(tmp_path, connect_inline)
        yield house
        await house.close()
