"""`mta serve` with its defaults."""

import asyncio
import time
from pathlib import Path
from typing import Any, Self

from tests.bench.machine import Unfit, cpu_seconds
from tests.bench.peers import DNS_PORT, HOSTNAME, Setup
from tests.support.daemon import PATIENCE, Daemon, until
from tests.support.smtp_client import SmtpClient

LOOK_INTERVAL = 0.002
"""Seconds between two looks whether it greets."""


class Ours:
    name = "mta"

    def __init__(self, folder: Path, endpoint: tuple[str, int], setup: Setup, name_server: str) -> None:
        self.endpoint, self.folder, self._setup = endpoint, folder, setup
        self.daemon = Daemon(folder, self._configuration(f"{name_server}:{DNS_PORT}"))

    def _configuration(self, name_server: str) -> dict[str, Any]:
        made: dict[str, Any] = {
            "hostname": HOSTNAME,
            "postmaster": "postmaster@bench.test",
            "spool": {"url": f"sqlite:{self.folder}/spool.db"},
            "submission": {"listen": [":".join(map(str, self.endpoint))]},
            "control": {"socket": f"{self.folder}/control.sock"},
            "dns": {"nameservers": [name_server]},
            "delivery": {"port": self._setup.port, "allow_private_addresses": True},
        }
        for name, table in self._setup.ours.items():
            made[name] = {**made.get(name, {}), **table} if isinstance(table, dict) else table
        return made

    async def __aenter__(self) -> Self:
        await self.daemon.__aenter__()
        try:
            await self.daemon.start()
            if self._setup.is_held:
                await self.order("hold", "--all")
        except BaseException:
            await self.daemon.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.daemon.stop()
        finally:
            await self.daemon.__aexit__()

    @property
    def pid(self) -> int:
        return self.daemon.pid

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    async def order(self, *words: str) -> None:
        """What a person would say."""
        ended = await self.daemon.cli(*words)
        if ended.code:
            raise Unfit(f"mta {' '.join(words)}: {ended.err.strip()[-300:]}")

    async def restart(self) -> float:
        """Seconds from the start of the process to its greeting."""
        await self.daemon.stop()
        begin = time.monotonic()
        await self.daemon.launch()
        await until(self._greets, PATIENCE)
        return time.monotonic() - begin

    async def _greets(self) -> bool:
        await asyncio.sleep(LOOK_INTERVAL)
        try:
            async with await SmtpClient.connect(self.endpoint) as client:
                return client.greeting.startswith("220")
        except OSError:
            return False
