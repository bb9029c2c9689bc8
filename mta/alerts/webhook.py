"""An alert to a web server: one POST on one connection, of which only the status is read (RFC 9112).

Rules: one limit in time for all of it, so that no slow server holds anything up, nor the daemon's stop; a certificate is
verified; no redirect is followed, no proxy asked: the alert goes where the configuration says, or it has failed. What is
told of a URL is its host, since hooks have their secret in the path.
"""

import asyncio
import re
import ssl
from urllib.parse import SplitResult, urlsplit

from mta import __version__
from mta.ports import Called

TIME_LIMIT = 30.0
"""Seconds."""
HEADER_LINES = 200
"""So many are read of an interim (1xx) answer."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: ([^\r\n]*))?\r?\n\Z")


async def post(url: str, document: bytes, time_limit: float = TIME_LIMIT, tls: ssl.SSLContext | None = None) -> Called:
    """`time_limit` in seconds; `tls` None: the system's authorities are trusted."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(time_limit):
            code, text = await _exchange(parts, document, tls)
    except TimeoutError:
        return Called(False, f"{parts.hostname} did not answer within {time_limit:g} s")
    except (OSError, ValueError) as error:
        return Called(False, f"{parts.hostname}: {error or type(error).__name__}")
    return Called(200 <= code < 300, f"{parts.hostname}: {code} {text}".rstrip())


async def _exchange(parts: SplitResult, document: bytes, tls: ssl.SSLContext | None) -> tuple[int, str]:
    is_secure = parts.scheme == "https"
    context = (tls or ssl.create_default_context()) if is_secure else None
    port = parts.port or (443 if is_secure else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    try:
        writer.write(_request(parts, document))
        return await _answer(reader)
    finally:
        writer.transport.abort()


def _request(parts: SplitResult, document: bytes) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        f"User-Agent: mta/{__version__}",
        "Content-Type: application/json",
        f"Content-Length: {len(document)}",
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in lines).encode("ascii") + b"\r\n" + document


async def _answer(reader: asyncio.StreamReader) -> tuple[int, str]:
    """The final status. Raises ValueError for what is no HTTP."""
    while True:
        match = _STATUS.match(await reader.readline())
        if match is None:
            raise ValueError("no HTTP answer")
        code = int(match[1])
        if code >= 200:
            return code, (match[2] or b"").decode("latin-1")
        await _skip_fields(reader)


async def _skip_fields(reader: asyncio.StreamReader) -> None:
    for _ in range(HEADER_LINES):
        if await reader.readline() in (b"\r\n", b"\n", b""):
            return
    raise ValueError("an interim answer without an end")
