"""A web server that is told of an alert: what it gets, and what its answer means."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from mta.alerts.webhook import post

DOCUMENT = b'{"version": 1}\n'


@asynccontextmanager
async def server(
    answer: bytes, *, ends: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Its URL, and the requests that it got; it says `answer` to each, and nothing more where it does not end."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        requests.append(head + await reader.readexactly(len(DOCUMENT)))
        writer.write(answer)
        if not ends:
            await reader.read()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", requests
    finally:
        listening.close()


async def test_it_gets_a_post_of_the_document():
    async with server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (url, requests):
        called = await post(f"{url}/hooks/secret?to=ops", DOCUMENT)
    assert (called.taken, called.detail) == (True, "127.0.0.1: 200 OK")
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hooks/secret?to=ops HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nContent-Type: application/json\r\n" in head
    assert body == DOCUMENT


@pytest.mark.parametrize(
    ("answer", "taken", "detail"),
    [
        (b"HTTP/1.1 204\r\n\r\n", True, "204"),
        (b"HTTP/1.0 202 Accepted\n\n", True, "202 Accepted"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", True, "200 OK"),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1/\r\n\r\n", False, "301 Moved"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False, "404 Not Found"),
        (b"HTTP/1.1 503 Later\r\n\r\n", False, "503 Later"),
        (b"220 mx.example.org ESMTP\r\n", False, "no HTTP answer"),
        (b"HTTP/1.1 20", False, "no HTTP answer"),
        (b"", False, "no HTTP answer"),
        (b"HTTP/1.1 100 Continue\r\n" + b"X: y\r\n" * 1000, False, "a header section without an end"),
    ],
)
async def test_only_2xx_is_taken(answer: bytes, taken: bool, detail: str):
    async with server(answer) as (url, _):
        called = await post(url, DOCUMENT)
    assert (called.taken, called.detail) == (taken, f"127.0.0.1: {detail}")


async def test_a_line_without_end_is_not_read_for_ever():
    async with server(b"HTTP/1.1 200 " + b"x" * 1_000_000) as (url, _):
        assert not (await post(url, DOCUMENT)).taken


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_silent_one_is_not_waited_for_long(answer: bytes):
    async with server(answer, ends=False) as (url, _):
        called = await post(url, DOCUMENT, time_limit=0.2)
    assert (called.taken, called.detail) == (False, "127.0.0.1 did not answer within 0.2 s")


@pytest.mark.parametrize(("name", "taken"), [("localhost", True), ("other.example", False)])
async def test_a_certificate_is_verified(name: str, taken: bool):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    async with server(b"HTTP/1.1 200 OK\r\n\r\n", tls=context) as (url, requests):
        secure = url.replace("http://127.0.0.1", "https://localhost")
        called = await post(secure, DOCUMENT, tls=ours)
        assert called.taken == taken, called
        assert not (await post(secure, DOCUMENT)).taken  # not known to the system's authorities
    assert len(requests) == taken


async def test_the_secret_in_the_path_is_not_told():
    async with server(b"") as (url, _):
        pass
    called = await post(f"{url}/hooks/secret", DOCUMENT)
    assert not called.taken
    assert "secret" not in called.detail
