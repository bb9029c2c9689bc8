"""STARTTLS in which the server has to prove who it is: TLS-03, TLS-04, TLS-07, B26."""

import ssl

import pytest
import trustme

from mta.model.outcome import Phase, Seen
from mta.model.tls import OPPORTUNISTIC, TlsDemand, TlsPolicy, TlsResult
from mta.smtp.connector import SmtpConnector
from mta.smtp.session import SmtpSession
from tests.smtp.support import HOSTNAME, PATIENT, deliver, fact
from tests.support.certificates import chain, context, issued, tlsa
from tests.support.mx import ScriptedMx

HOST = "mx.example.test"
ROOT = trustme.CA()
PKIX = TlsDemand(TlsPolicy.MTA_STS, required=True, names=(HOST,))


async def greeted(mx: ScriptedMx) -> SmtpSession:
    connector = SmtpConnector(HOSTNAME, PATIENT, ROOT.configure_trust)
    session, greeting = await connector.connect(HOST, mx.address, mx.port)
    assert session is not None, greeting
    await session.hello("EHLO")
    return session


async def test_tls_07_a_certificate_by_a_known_authority_for_the_name() -> None:
    async with ScriptedMx(tls=context(issued(ROOT.create_child_ca(), HOST))) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls(PKIX)) == (Phase.TLS, Seen.REPLY)
        assert (session.verified, session.tls[:5]) == ("pkix", "TLSv1")
        assert fact(await session.hello("EHLO")) == (Phase.EHLO_TLS, 250)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)


@pytest.mark.parametrize(
    ("leaf", "result"),
    [
        (issued(trustme.CA(), HOST), TlsResult.CERTIFICATE_NOT_TRUSTED),
        (issued(ROOT, "other.example.test"), TlsResult.CERTIFICATE_HOST_MISMATCH),
        (issued(ROOT, HOST, expired=True), TlsResult.CERTIFICATE_EXPIRED),
    ],
    ids=["unknown authority", "wrong name", "expired"],
)
async def test_tls_07_b26_a_certificate_that_proves_nothing(leaf: trustme.LeafCert, result: TlsResult) -> None:
    """The connection ends there; where nothing is asked, it will do."""
    async with ScriptedMx(tls=context(leaf)) as mx:
        session = await greeted(mx)
        observation = await session.starttls(PKIX)
        assert (observation.phase, observation.seen, observation.tls) == (Phase.TLS, Seen.LOST, result)
        assert (session.tls, session.verified, session.usable) == ("", "", False)
        await mx.connections[0].closed.wait()
        assert mx.connections[0].verbs == ["EHLO", "STARTTLS"]

        session = await greeted(mx)
        assert fact(await session.starttls(OPPORTUNISTIC)) == (Phase.TLS, Seen.REPLY)
        assert session.verified == ""


@pytest.mark.parametrize("usage", [2, 3])
async def test_tls_03_tls_04_dane_in_the_handshake(usage: int) -> None:
    """An authority of its own; SNI is the TLSA base domain, whatever the host is called."""
    own, asked_for = trustme.CA(), []
    leaf = issued(own, "base.example.test")
    served = context(leaf, own)
    served.sni_callback = lambda _connection, name, _context: asked_for.append(name)
    record = tlsa(usage, 1, 1, chain(leaf, own)[0 if usage == 3 else 1])
    names = ("base.example.test",)
    demand = TlsDemand(TlsPolicy.DANE, required=True, names=names, records=(record,), server_name=names[0])
    async with ScriptedMx(tls=served) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls(demand)) == (Phase.TLS, Seen.REPLY)
        assert session.verified == "dane"
        assert asked_for == ["base.example.test"]


async def test_tls_03_dane_that_does_not_fit_is_not_saved_by_a_good_certificate() -> None:
    leaf = issued(ROOT, HOST)
    record = tlsa(3, 1, 1, chain(issued(ROOT, HOST))[0])
    async with ScriptedMx(tls=context(leaf)) as mx:
        session = await greeted(mx)
        demand = TlsDemand(TlsPolicy.DANE, required=True, records=(record,), server_name=HOST)
        observation = await session.starttls(demand)
        assert (observation.seen, observation.tls) == (Seen.LOST, TlsResult.VALIDATION_FAILURE)
        await mx.connections[0].closed.wait()


async def test_tls_1_2_shows_its_chain_too() -> None:
    own = trustme.CA()
    leaf = issued(own, HOST)
    served = context(leaf, own)
    served.maximum_version = ssl.TLSVersion.TLSv1_2
    demand = TlsDemand(names=(HOST,), records=(tlsa(2, 0, 2, chain(leaf, own)[1]),), server_name=HOST)
    async with ScriptedMx(tls=served) as mx:
        session = await greeted(mx)
        assert fact(await session.starttls(demand)) == (Phase.TLS, Seen.REPLY)
        assert session.verified == "dane"


@pytest.mark.parametrize(("names", "proved"), [(("127.0.0.1",), True), ((HOST,), False)])
async def test_an_address_literal_is_verified_as_an_address(names: tuple[str, ...], proved: bool) -> None:
    async with ScriptedMx(tls=context(issued(ROOT, *names))) as mx:
        session = await greeted(mx)
        session.host = "[127.0.0.1]"
        observation = await session.starttls(TlsDemand(required=True, names=("[127.0.0.1]",)))
        assert (observation.tls, session.verified) == (
            (None, "pkix") if proved else (TlsResult.CERTIFICATE_HOST_MISMATCH, "")
        )


@pytest.mark.parametrize("name", ["mx.example.test", "other.example.test"])
async def test_one_of_several_names(name: str) -> None:
    """A pattern too."""
    async with ScriptedMx(tls=context(issued(ROOT, name))) as mx:
        session = await greeted(mx)
        observation = await session.starttls(TlsDemand(required=True, names=("a.test", "*.example.test")))
        assert (observation.seen, session.verified) == (Seen.REPLY, "pkix")
        session = await greeted(mx)
        observation = await session.starttls(TlsDemand(required=True, names=("a.test", "*.test")))
        assert (observation.tls, session.verified) == (TlsResult.CERTIFICATE_HOST_MISMATCH, "")
