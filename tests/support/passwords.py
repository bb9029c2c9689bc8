"""Passwords that cost nothing: the hash of `secret` is `<secret>`."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

USERS: Mapping[str, str] = {"shop": "<tr0ub4dor>", "ann@example.com": "<pässwort>"}


class PlainPasswords:
    """`asked` has what was compared; `before` is awaited first: to wait, or to fail."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.before: Callable[[], Any] | None = None
        self.arrived = asyncio.Event()
        self.full = False

    async def fits(self, password: str, hashed: str) -> bool | None:
        if self.full:
            return None
        self.asked.append((password, hashed))
        self.arrived.set()
        if self.before is not None:
            await self.before()
        return hashed == f"<{password}>"
