"""What asyncio builds upon a transport runs over the simulation's: streams, and TLS."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.sim.conftest import Lab
from tests.sim.network import LineFault, Route
from tests.sim.test_network import PLACE, after, octets


def certificate() -> Path:
    return Path(__file__).with_name("mx.pem")


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate())
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return server, client


def streams(lab: Lab, serve: Any, talk: Any, route: Route | None = None) -> Any:
    """Both sides with asyncio's streams; the client's result."""
    if route is not None:
        lab.network.route = lambda machine, place: route

    async def both() -> Any:
        server = await asyncio.start_server(serve, *PLACE)
        result = await talk(*await asyncio.open_connection(*PLACE))
        server.close()
        return result

    return lab.run(both())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read())
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def test_asyncios_streams_run_over_it(lab: Lab) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(octets(300_000))
        await writer.drain()
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    assert streams(lab, echo, talk) == octets(300_000)
    after(lab)
    assert not lab.network.ends


def test_tls_over_it(lab: Lab) -> None:
    server, client = contexts()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"go on\n")
        await writer.start_tls(server)
        writer.write(await reader.readline())
        writer.write(octets(200_000))
        writer.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go on\n"
        await writer.start_tls(client)
        writer.write(b"in secret\n")
        answer = await reader.read()
        writer.close()
        return answer

    assert streams(lab, serve, talk) == b"in secret\n" + octets(200_000)


@pytest.mark.parametrize("kind", ["reset", "silent"])
def test_a_tls_handshake_over_a_bad_line_fails_in_time(lab: Lab, kind: str) -> None:
    _, client = contexts()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.start_tls(client)

    before = lab.loop.time()
    with pytest.raises(OSError):
        streams(lab, serve, talk, Route(up=LineFault(kind, 100)))
    assert lab.loop.time() - before < 61
