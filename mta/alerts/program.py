"""An alert to a program: its standard input is the document, its exit code the answer.

Rules: words, never a shell; an environment of nothing but a path and a locale, so that no secret of ours leaks; a session
of its own, which ends as a whole when the time is over; of its output only the beginning is kept, but all is read, so that
no program hangs on a full pipe.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Sequence
from contextlib import suppress

from mta.ports.system import Called

TIME_LIMIT = 30.0
"""Seconds."""
OUTPUT_LIMIT = 1000
"""Octets that are kept."""
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


async def run_program(command: Sequence[str], document: bytes, time_limit: float = TIME_LIMIT) -> Called:
    """`time_limit` in seconds."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, env=ENVIRONMENT, cwd="/", start_new_session=True
        )
    except (OSError, ValueError) as error:
        return Called(False, f"{command[0]} can't be run: {error}")
    output, is_over = bytearray(), False
    try:
        async with asyncio.timeout(time_limit):
            await asyncio.gather(_feed(process, document), _listen(process, output), process.wait())
        is_over = True
    except TimeoutError:
        pass  # one that has ended and left a child with its output has ended all the same
    finally:
        code = process.returncode
        if not is_over:
            await _end(process)
    return Called(code == 0, _told(f"no end within {time_limit:g} s" if code is None else f"exit code {code}", output))


async def _feed(process: Process, document: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    with suppress(ConnectionError, RuntimeError):  # it need not read it; the latter is uvloop's for a closed pipe
        process.stdin.write(document)
        await process.stdin.drain()
    process.stdin.close()


async def _listen(process: Process, output: bytearray) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    while chunk := await process.stdout.read(65536):
        output += chunk[: OUTPUT_LIMIT - len(output)]


async def _end(process: Process) -> None:
    """With all that it has started: a child that is left would keep its output, and our end of it, open."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _told(end: str, output: bytearray) -> str:
    said = output.decode("utf-8", "replace").strip()
    return f"{end}: {said}" if said else end
