"""A server whose every transaction takes a while, as a process of its own: `python -m tests.bench.slow_sink HOST PORT`.

It writes a line of JSON for each message, [the instant of its final dot, its recipient], and reads lines with the seconds
until the reply to a dot; a new number counts for those who wait already too. Instants are of the loop's clock, which is
the machine's monotonic one: the same in every process.
"""

import asyncio
import json
import sys

FIRST_DELAY = 0.0


class Pace:
    """How long a transaction takes; who waits is let go when that changes."""

    def __init__(self) -> None:
        self._seconds, self._changed = FIRST_DELAY, asyncio.Event()

    def set(self, seconds: float) -> None:
        self._seconds = seconds
        self._changed.set()
        self._changed = asyncio.Event()

    async def pause(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._changed.wait()
        except TimeoutError:
            pass


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pace: Pace) -> None:
    """One session."""
    recipient = ""
    writer.write(b"220 slow.test\r\n")
    while line := await reader.readline():
        verb = line[:4].upper()
        if verb == b"RCPT":
            recipient = line.partition(b"<")[2].partition(b">")[0].decode(errors="replace")
        if verb == b"EHLO":
            writer.write(b"250-slow.test\r\n250 PIPELINING\r\n")
        elif verb == b"DATA":
            writer.write(b"354 go on\r\n")
            await reader.readuntil(b"\r\n.\r\n")
            print(json.dumps([asyncio.get_running_loop().time(), recipient]), flush=True)
            await pace.pause()
            writer.write(b"250 2.0.0 Ok\r\n")
        else:
            writer.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 Ok\r\n")
        if verb == b"QUIT":
            break
    writer.close()


async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pace: Pace) -> None:
    """A client that breaks off is no matter here."""
    try:
        await serve(reader, writer, pace)
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def main(host: str, port: int) -> None:
    """Until its standard input ends."""
    pace, commands, loop = Pace(), asyncio.StreamReader(), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    server = await asyncio.start_server(lambda *ends: quietly(*ends, pace), host, port, limit=2**20)
    print("ready", flush=True)
    while line := await commands.readline():
        pace.set(float(line))
    server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
