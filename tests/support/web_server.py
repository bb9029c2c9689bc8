"""A scripted HTTPS server on loopback, with a certificate of the tests' authority.

    async with WebServer("mta-sts.example.org") as server:
        server.answer = page("version: STSv1 ...")
        ... server.port ... server.requests
"""

import asyncio
import ssl
from typing import Self

import trustme

from tests.support.ports import free_port
from tests.support.tls import authority


def page(text: str, *, status: str = "200 OK", kind: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


class WebServer:
    """`answer` is said to each request, and nothing more; where it does not end the connection stays open. `names` are
    those of its certificate."""

    def __init__(self, *names: str, issuer: trustme.CA | None = None, common_name: str | None = None) -> None:
        issued = (issuer or authority()).issue_cert(*names, common_name=common_name)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issued.configure_cert(self._tls)
        self.answer, self.ends = b"", True
        self.requests: list[bytes] = []
        self.gate: asyncio.Event | None = None
        """Where set, answers wait for it."""
        self.asked = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self.port = free_port()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            self.asked.set()
            if self.gate is not None:
                await self.gate.wait()
            writer.write(self.answer)
            await writer.drain()
            if not self.ends:
                await reader.read()
        except (EOFError, OSError):
            pass
        finally:
            writer.close()
