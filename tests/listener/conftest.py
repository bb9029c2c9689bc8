import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.support.submission import Bench, bench


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """Starts listeners: `await start(spool=..., max_recipients=...)`."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_bench(**changes: Any) -> Bench:
            return await stack.enter_async_context(bench(**changes))

        yield open_bench
