"""An alert to a web server: one POST on one connection, of which only the status is read (RFC 9112).

Rules: one limit in time for all of it, so that no slow server holds anything up, nor the daemon's stop; a certificate is
verified; no redirect is followed, no proxy asked: the alert goes where the configuration says, or it has failed. What is
told of a URL is its host, since hooks have their secret in the path.
"""

import asyncio
import ssl
from urllib.parse import SplitResult, urlsplit

from mta.http import connection, read_status, request
from mta.ports.system import Called

TIME_LIMIT = 30.0
"""Seconds."""


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
    async with connection(parts.hostname or "", port, context) as (reader, writer):
        writer.write(_request(parts, document))
        return await read_status(reader)


def _request(parts: SplitResult, document: bytes) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"Content-Type": "application/json", "Content-Length": str(len(document))}
    return request("POST", target, parts.netloc, fields, document)
