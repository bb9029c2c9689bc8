"""TLS-06: a policy file over HTTPS: whom it is taken from, and what is none (RFC 8461 section 3.3)."""

import asyncio
import datetime

import pytest
import trustme

from mta.model.tls import TlsResult
from mta.ports.names import AddressAnswer, Lookup
from mta.sts.fetch import SIZE_LIMIT, PolicyServers
from tests.support.tls import authority, client_context
from tests.support.web_server import WebServer, page

HOST = "mta-sts.example.org"
POLICY = "version: STSv1\nmode: enforce\nmx: mx.example.org\nmax_age: 86400\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


class Addresses:
    """A resolver that knows one host."""

    def __init__(self, *addresses: str) -> None:
        self.answer = AddressAnswer(Lookup.FOUND, addresses) if addresses else AddressAnswer(Lookup.NXDOMAIN)

    async def addresses(self, host: str) -> AddressAnswer:
        return self.answer if host == HOST else AddressAnswer(Lookup.NXDOMAIN)


def servers(port: int, *addresses: str, time_limit: float = 10.0) -> PolicyServers:
    names = Addresses(*(addresses or ("127.0.0.1",)))
    return PolicyServers(names, port=port, tls=client_context(), time_limit=time_limit)


async def test_tls_06_a_policy_file_is_asked_for_and_taken():
    async with WebServer(HOST) as server:
        server.answer = page(POLICY)
        fetched = await servers(server.port)("example.org", True)
    assert (fetched.result, fetched.text) == (TlsResult.SUCCESS, POLICY)
    [request] = server.requests
    assert request.startswith(b"GET /.well-known/mta-sts.txt HTTP/1.1\r\nHost: mta-sts.example.org\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"\r\nall of it",
        HEAD + b"Content-Length: 9\r\n\r\nall of it and more",
        HEAD + b"content-length:9 \r\n\r\nall of it",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nall \r\n05;x=y\r\nof it\r\n0\r\n\r\n",
        HEAD.replace(b"text/plain", b"Text/Plain;charset=utf-8") + b"\r\nall of it",
        HEAD.replace(b"\r\n", b"\n") + b"\nall of it",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + HEAD + b"\r\nall of it",
    ],
)
async def test_tls_06_every_way_to_send_a_body(answer: bytes):
    async with WebServer(HOST) as server:
        server.answer = answer
        fetched = await servers(server.port)("example.org", True)
    assert (fetched.result, fetched.text) == (TlsResult.SUCCESS, "all of it")


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (page(POLICY, status="301 Moved\r\nLocation: https://mta-sts.example.org/other"), "301 Moved"),
        (page(POLICY, status="304 Not Modified"), "304 Not Modified"),
        (page(POLICY, status="404 Not Found"), "404 Not Found"),
        (page(POLICY, status="206 Partial Content"), "206 Partial Content"),
        (page(POLICY, status="500"), "500"),
        (page(POLICY, kind="text/html"), "not text/plain but text/html"),
        (page(POLICY, kind="text/plainer"), "not text/plain but text/plainer"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + POLICY.encode(), "not text/plain but of no type"),
        (HEAD + b"Content-Length: 10\r\n\r\nall of it", "it ended too soon"),
        (HEAD + b"Content-Length: x\r\n\r\nall of it", "a length that is no number"),
        (HEAD + b"Content-Length: 9\r\nContent-Length: 9\r\n\r\nall of it", "a length that is no number"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", "too long"),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", "an unknown transfer encoding"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nall of it", "a chunk without its end"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nnothing", "a chunk without its length"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", "too long"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n%b\r\n" % (b"x" * 4096) * 17, "too long"),
        (HEAD + b"\r\n" + b"x" * (SIZE_LIMIT + 1), "too long"),
        (HEAD + b"X: y\r\n" * 1000, "a header section without an end"),
        (HEAD + b"X: %b\r\n" % (b"y" * 30_000) * 3, "a header section without an end"),
        (page(POLICY, status="500 " + "x" * 5000), "500 " + "x" * 200),
        (b"220 mx.example.org ESMTP\r\n", "no HTTP answer"),
        (b"", "no HTTP answer"),
    ],
)  # fmt: skip
async def test_tls_06_what_is_no_policy_file(answer: bytes, detail: str):
    async with WebServer(HOST) as server:
        server.answer = answer
        fetched = await servers(server.port)("example.org", True)
    assert (fetched.result, fetched.text) == (TlsResult.STS_POLICY_FETCH_ERROR, "")
    assert fetched.detail == f"{HOST}: {detail}"
    assert len(server.requests) == 1, "no redirect is followed"


async def test_tls_06_the_largest_file_is_taken():
    async with WebServer(HOST) as server:
        server.answer = HEAD + b"\r\n" + b"x" * SIZE_LIMIT
        fetched = await servers(server.port)("example.org", True)
    assert len(fetched.text) == SIZE_LIMIT


@pytest.mark.parametrize(
    "names", [("example.org",), ("*.example.com",), ("mta-sts.example.org.evil.example",), ("a.mta-sts.example.org",)]
)
async def test_tls_06_the_certificate_is_for_the_policy_host(names: tuple[str, ...]):
    async with WebServer(*names) as server:
        server.answer = page(POLICY)
        fetched = await servers(server.port)("example.org", True)
    assert (fetched.result, fetched.text, server.requests) == (TlsResult.STS_WEBPKI_INVALID, "", [])
    assert fetched.detail.startswith(f"{HOST}: ")


async def test_tls_06_a_wildcard_certificate_is_good():
    async with WebServer("*.example.org") as server:
        server.answer = page(POLICY)
        assert (await servers(server.port)("example.org", True)).text == POLICY


async def test_tls_06_a_name_that_is_no_dns_name_of_the_certificate_is_none():
    async with WebServer("someone@example.org", common_name=HOST) as server:
        server.answer = page(POLICY)
        fetched = await servers(server.port)("example.org", True)
    assert (fetched.result, server.requests) == (TlsResult.STS_WEBPKI_INVALID, [])


async def test_tls_06_a_stranger_s_authority_is_not_believed():
    async with WebServer(HOST, issuer=trustme.CA()) as server:
        server.answer = page(POLICY)
        fetched = await servers(server.port)("example.org", True)
        ours = PolicyServers(Addresses("127.0.0.1"), port=server.port)
        assert (await ours("example.org", True)).result is TlsResult.STS_WEBPKI_INVALID  # the system's authorities
    assert (fetched.result, server.requests) == (TlsResult.STS_WEBPKI_INVALID, [])


async def test_tls_06_an_expired_certificate_is_not_believed():
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    async with WebServer(HOST) as server:
        authority().issue_cert(HOST, not_after=yesterday).configure_cert(server._tls)
        fetched = await servers(server.port)("example.org", True)
    assert (fetched.result, server.requests) == (TlsResult.STS_WEBPKI_INVALID, [])


@pytest.mark.parametrize("beginning", [b"", HEAD, HEAD + b"\r\nvers", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_tls_06_a_silent_server_is_not_waited_for_long(beginning: bytes):
    async with WebServer(HOST) as server:
        server.answer, server.ends = beginning, False
        fetched = await servers(server.port, time_limit=0.3)("example.org", True)
    assert fetched.result is TlsResult.STS_POLICY_FETCH_ERROR
    assert fetched.detail == f"{HOST} did not answer in time"


async def test_the_next_address_is_asked_where_one_is_dead():
    async with WebServer(HOST) as server:
        server.answer = page(POLICY)
        assert (await servers(server.port, "127.0.0.2", "::1", "127.0.0.1")("example.org", True)).text == POLICY


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "0.0.0.0"])
async def test_a_stranger_does_not_lead_us_into_our_own_network(address: str):
    """The domain that mail goes to names the web server: no request of ours reaches what only we can reach."""
    async with WebServer(HOST) as server:
        server.answer = page(POLICY)
        fetched = await servers(server.port, address)("example.org", False)
    assert (fetched.result, server.requests) == (TlsResult.STS_POLICY_FETCH_ERROR, [])
    assert fetched.detail == f"{HOST}: it has no address that may be asked"


async def test_no_web_server_is_an_answer():
    fetched = await servers(1)("elsewhere.test", True)
    assert fetched.result is TlsResult.STS_POLICY_FETCH_ERROR
    nobody = await servers(1)("example.org", True)
    assert nobody.result is TlsResult.STS_POLICY_FETCH_ERROR


async def test_who_stops_waiting_leaves_no_connection_behind():
    async with WebServer(HOST) as server:
        server.gate = asyncio.Event()
        task = asyncio.create_task(servers(server.port)("example.org", True))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.gate.set()
