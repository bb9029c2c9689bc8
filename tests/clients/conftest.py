"""The world of the end-to-end tests, and programs that are fed and waited for."""

import asyncio
import os
from collections.abc import Mapping

from tests.e2e.conftest import running, world

__all__ = ["running", "submit", "world"]


async def submit(*command: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
    """What a program that must succeed says."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, _ = await process.communicate(stdin)
    assert process.returncode == 0, out.decode(errors="replace")
    return out.decode(errors="replace")
