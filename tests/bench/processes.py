"""Processes that end with ours, however that ends."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.bench.machine import Unfit

LEASH = ("setpriv", "--pdeathsig", "KILL")


async def start(*command: str, out: Path | None = None, env: Mapping[str, str] | None = None) -> Process:
    """What it writes goes to the file `out`."""
    with (out or Path("/dev/null")).open("ab") as file:
        return await asyncio.create_subprocess_exec(
            *LEASH, *command, stdin=DEVNULL, stdout=file, stderr=file, env=env, start_new_session=True
        )


async def end(process: Process) -> None:
    """SIGTERM, and what is needed where that is not obeyed."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(10):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def finish(*command: str) -> None:
    """Runs a command to its end. Raises `Unfit` where it fails."""
    process = await asyncio.create_subprocess_exec(*LEASH, *command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    try:
        _, said = await process.communicate()
    finally:
        await end(process)
    if process.returncode:
        raise Unfit(f"{Path(command[0]).name} has failed: {said.decode(errors='replace').strip()[-300:]}")


def tool(name: str, *words: str) -> tuple[str, ...]:
    """The command of one of `tests.bench.tools`."""
    return sys.executable, "-m", f"tests.bench.tools.{name}", *words


class Tool:
    """One of them that runs until it is ended, and says when it is ready."""

    def __init__(self, name: str, *words: str) -> None:
        self._name, self._words = name, words

    async def __aenter__(self) -> Self:
        command = (*LEASH, *tool(self._name, *self._words))
        self._process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        if await self.out.readline() != b"ready\n":
            await end(self._process)
            raise Unfit(f"tests.bench.tools.{self._name} does not start")
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._process)

    @property
    def out(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
