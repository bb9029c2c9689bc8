from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mta.spool.sqlite import SqliteSpool
from tests.spool.house import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    await house.close()


@pytest.fixture
async def spool(house: House) -> SqliteSpool:
    return await house.open()
