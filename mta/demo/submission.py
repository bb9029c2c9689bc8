"""A program that hands a message over: the least that SMTP asks of a client (RFC 5321)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

Listener = Callable[[str, str], None]
"""Told each line of the conversation: who says it, and what."""

TIMEOUT = 10.0


class SubmissionError(Exception):
    """The daemon's reply was not the expected one; the text is that reply."""


async def submit(port: int, sender: str, recipient: str, content: list[str], listener: Listener) -> str:
    """The daemon's reply to the final dot, also a refusal. Raises `SubmissionError`, `TimeoutError`, OSError."""
    async with asyncio.timeout(TIMEOUT):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await _Client(reader, writer, listener).submit(sender, recipient, content)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class _Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: Listener) -> None:
        self._reader, self._writer, self._listener = reader, writer, listener

    async def submit(self, sender: str, recipient: str, content: list[str]) -> str:
        await self._expect("2")
        await self._say("EHLO shop-program", "2")
        await self._say(f"MAIL FROM:<{sender}>", "2")
        await self._say(f"RCPT TO:<{recipient}>", "2")
        await self._say("DATA", "3")
        for line in content:
            self._write(line)
        reply = await self._say(".", "25")
        await self._say("QUIT", "2")
        return reply

    async def _say(self, line: str, digits: str) -> str:
        self._write(line)
        return await self._expect(digits)

    def _write(self, line: str) -> None:
        self._listener("program", line)
        self._writer.write(f"{line}\r\n".encode())

    async def _expect(self, digits: str) -> str:
        """The last line of the reply, whose code must begin with one of the `digits`."""
        while True:
            line = (await self._reader.readline()).decode("latin-1").rstrip()
            self._listener("daemon", line)
            if line[3:4] != "-":
                break
        if not line.startswith(tuple(digits)):
            raise SubmissionError(line or "the daemon hung up")
        return line
