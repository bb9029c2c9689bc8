"""A raw SMTP client for tests: sends octets as given, reads whole replies and holds them to their form."""

import asyncio
import contextlib
import re
import struct
from collections.abc import Sequence
from socket import SO_LINGER, SOL_SOCKET
from typing import Self

PATIENCE = 10.0
"""Seconds after which a reply that does not come is a failure."""
_LINE = re.compile(rb"[2-5][0-9][0-9]([ -][\x20-\x7e]*)?\r\n\Z")


class SmtpClient:
    """`greeting` is the first reply. A reply's lines are joined by a line feed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.greeting = ""

    @classmethod
    async def connect(cls, endpoint: tuple[str, int], *, greeted: bool = True) -> Self:
        client = cls(*await asyncio.open_connection(*endpoint, limit=2**20))
        if greeted:
            client.greeting = await client.reply()
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    # ------------------------------------------------ octets
    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self) -> str:
        """The next reply. Raises ConnectionError at the end of the stream."""
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while not lines or lines[-1][3:4] == "-":
                raw = await self.reader.readline()
                if not raw:
                    raise ConnectionError("the server has closed")
                assert _LINE.match(raw), f"malformed reply line {raw!r}"
                assert len(raw) <= 512, "reply line over 512 octets"
                lines.append(raw[:-2].decode("ascii"))
        assert len({line[:3] for line in lines}) == 1, f"the code changes within {lines}"
        return "\n".join(lines)

    async def replies(self, count: int) -> list[str]:
        return [await self.reply() for _ in range(count)]

    async def at_end(self) -> bool:
        """Whether the server closes now, without another octet."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def quiet(self, seconds: float) -> bytes:
        """What comes within `seconds` although nothing should."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self.reader.read(4096)
        return b""

    def half_close(self) -> None:
        self.writer.write_eof()

    def reset(self) -> None:
        """RST instead of FIN."""
        self.writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    # ------------------------------------------------ commands
    async def command(self, line: str | bytes) -> str:
        data = line if isinstance(line, bytes) else line.encode("latin-1")
        await self.send(data + b"\r\n")
        return await self.reply()

    async def envelope(self, sender: str = "app@shop.test", recipients: Sequence[str] = ("ann@example.org",)) -> None:
        """EHLO, MAIL, RCPT and DATA, each accepted."""
        expected = ["250", "250", *("250" for _ in recipients), "354"]
        lines = ["EHLO client.test", f"MAIL FROM:<{sender}>", *(f"RCPT TO:<{to}>" for to in recipients), "DATA"]
        for line, code in zip(lines, expected, strict=True):
            reply = await self.command(line)
            assert reply.startswith(code), f"{line}: {reply}"

    async def submit(
        self, wire: bytes, sender: str = "app@shop.test", recipients: Sequence[str] = ("ann@example.org",)
    ) -> str:
        """The reply to the end of `wire`: octets as sent after 354, the final dot not included."""
        await self.envelope(sender, recipients)
        await self.send(wire + b".\r\n")
        return await self.reply()


def stuffed(content: bytes) -> bytes:
    """Content with CRLF line ends as it goes over the wire (RFC 5321 section 4.5.2), without the final dot."""
    text = re.sub(rb"(?m)^\.", b"..", content)
    return text if not text or text.endswith(b"\r\n") else text + b"\r\n"
