"""Messages to many destinations in turn, which smtp-source can't send: `python -m tests.bench.tools.source HOST PORT
MESSAGES SESSIONS FIRST DESTINATIONS SIZE`.

Message i goes to ann@dN.test, N being FIRST and i modulo DESTINATIONS; each session is kept open and waits for each reply.
It ends once each message has its 250; with code 1 where one was refused.
"""

import asyncio
import itertools
import sys
from collections.abc import Iterator

import uvloop

from tests.bench.traffic import SENDER, text


async def session(host: str, port: int, numbers: Iterator[int], domains: range, body: bytes) -> None:
    reader, writer = await asyncio.open_connection(host, port)

    async def say(octets: bytes, expected: bytes) -> None:
        writer.write(octets)
        await hear(expected)

    async def hear(expected: bytes) -> None:
        while (line := await reader.readline())[3:4] == b"-":
            pass
        if not line.startswith(expected):
            raise ConnectionError(f"{line!r} instead of {expected.decode()}")

    await hear(b"220")
    await say(b"EHLO source.test\r\n", b"250")
    for number in numbers:
        recipient = b"ann@d%d.test" % domains[number % len(domains)]
        await say(b"MAIL FROM:<%s>\r\n" % SENDER.encode(), b"250")
        await say(b"RCPT TO:<%s>\r\n" % recipient, b"250")
        await say(b"DATA\r\n", b"354")
        head = b"From: <%s>\r\nTo: <%s>\r\nSubject: %d\r\n\r\n" % (SENDER.encode(), recipient, number)
        await say(head + body + b".\r\n", b"250")
    await say(b"QUIT\r\n", b"221")
    writer.close()


async def main(host: str, port: str, messages: str, sessions: str, first: str, destinations: str, size: str) -> None:
    numbers = iter(range(int(messages)))
    domains = range(int(first), int(first) + int(destinations))
    body = text(int(size))
    await asyncio.gather(*(session(host, int(port), numbers, domains, body) for _ in itertools.repeat(None, int(sessions))))


if __name__ == "__main__":
    try:
        uvloop.run(main(*sys.argv[1:]))
    except OSError as error:
        sys.exit(f"tests.bench.tools.source: {error}")
