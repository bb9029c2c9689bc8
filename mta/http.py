"""One HTTP request on one connection, and its answer (RFC 9112): what an alert and an MTA-STS policy need of it.

Rules: the caller limits the time; no redirect is followed, no proxy asked, nothing remembered; every part of an answer is
bounded, and what is no HTTP, or more than the bound, is a `ValueError`.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mta import __version__

FIELD_LINES = 200
HEAD_SIZE = 64 * 1024
"""So many lines, and octets, are read of an answer's header section."""
TEXT_SIZE = 200
"""Characters of what an answer says beside its status."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: ([^\r\n]*))?\r?\n\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\r\n]*)\r?\n\Z")
_LENGTH = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n\Z")


@asynccontextmanager
async def connection(
    host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Over TLS with `tls`; the certificate is for `server_name`, or for `host`. Raises OSError."""
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=server_name if tls else None)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def request(method: str, target: str, host: str, fields: Mapping[str, str], document: bytes = b"") -> bytes:
    """`host` with its port, if that is not the usual one."""
    own = {"Host": host, "User-Agent": f"mta/{__version__}", **fields, "Connection": "close"}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii") + b"\r\n" + document


async def read_status(reader: asyncio.StreamReader) -> tuple[int, str]:
    """The final status and its text; interim ones (1xx) are passed over."""
    while True:
        match = _STATUS.match(await reader.readline())
        if match is None:
            raise ValueError("no HTTP answer")
        code = int(match[1])
        if code >= 200:
            return code, (match[2] or b"")[:TEXT_SIZE].decode("latin-1")
        await read_fields(reader)


async def read_fields(reader: asyncio.StreamReader) -> Mapping[str, str]:
    """A header section, names in lower case; of a field that is there twice both values, with a comma between them."""
    fields: dict[str, str] = {}
    size = 0
    for _ in range(FIELD_LINES):
        line = await reader.readline()
        size += len(line)
        if size > HEAD_SIZE:
            break
        if line in (b"\r\n", b"\n", b""):
            return fields
        if match := _FIELD.match(line):
            name, value = match[1].decode("ascii").lower(), match[2].decode("latin-1").strip(" \t")
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
    raise ValueError("a header section without an end")


async def read_body(reader: asyncio.StreamReader, fields: Mapping[str, str], limit: int) -> bytes:
    """What follows `fields`: chunked, of a given length, or all there is; at most `limit` octets."""
    if "transfer-encoding" in fields:
        if fields["transfer-encoding"].lower() != "chunked":
            raise ValueError("an unknown transfer encoding")
        return await _read_chunks(reader, limit)
    length = fields.get("content-length")
    if length is None:
        return await _read_rest(reader, limit)
    if not _LENGTH.match(length):
        raise ValueError("a length that is no number")
    return await _read_exactly(reader, int(length), limit)


async def _read_chunks(reader: asyncio.StreamReader, limit: int) -> bytes:
    body = bytearray()
    while True:
        match = _CHUNK.match(await reader.readline())
        if match is None:
            raise ValueError("a chunk without its length")
        size = int(match[1], 16)
        if not size:
            return bytes(body)
        body += await _read_exactly(reader, size, limit - len(body))
        if await reader.readline() not in (b"\r\n", b"\n"):
            raise ValueError("a chunk without its end")


async def _read_exactly(reader: asyncio.StreamReader, size: int, limit: int) -> bytes:
    if size > limit:
        raise ValueError("too long")
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise ValueError("it ended too soon") from None


async def _read_rest(reader: asyncio.StreamReader, limit: int) -> bytes:
    body = bytearray()
    while piece := await reader.read(limit + 1 - len(body)):
        body += piece
        if len(body) > limit:
            raise ValueError("too long")
    return bytes(body)
