"""Sessions with a relay: AUTH inside TLS (RFC 4954), TLS from the first octet (RFC 8314), and the address they come from."""

import base64
from pathlib import Path
from typing import Any

import pytest

from mta.model.outcome import Observation, Phase, Seen
from mta.model.tls import TlsDemand, TlsPolicy
from mta.ports.smtp import NO_SUCH_SOURCE, Timeouts
from mta.smtp.connector import SmtpConnector
from mta.smtp.session import SmtpSession
from tests.smtp.support import BRISK, HOSTNAME, PATIENT, deliver, fact, greeted
from tests.support.mx import Close, Reset, ScriptedMx, Silence, server_tls
from tests.support.tls import issued_to, trust_file

USER, PASSWORD = "shop@example.com", "corréct horse"
RELAY = "relay.example.test"


def relay(script: dict[str, Any] | None = None, **how: Any) -> ScriptedMx:
    return ScriptedMx(script, tls=server_tls(), **{"login": (USER, PASSWORD), **how})


async def inside_tls(mx: ScriptedMx, timeouts: Timeouts = PATIENT) -> SmtpSession:
    session = await greeted(mx, timeouts)
    assert fact(await session.starttls()) == (Phase.TLS, Seen.REPLY)
    assert fact(await session.hello("EHLO")) == (Phase.EHLO_TLS, 250)
    return session


def secrets() -> tuple[str, ...]:
    texts = (PASSWORD, f"\0{USER}\0{PASSWORD}")
    return (PASSWORD, *(base64.b64encode(text.encode()).decode() for text in texts))


def hides_the_password(seen: Observation) -> None:
    assert not [it for it in secrets() if it in repr(seen)]


# ---------------------------------------------------------------- AUTH
@pytest.mark.parametrize(
    ("mechanisms", "used"),
    [("LOGIN PLAIN", "PLAIN"), ("plain", "PLAIN"), ("CRAM-MD5 LOGIN", "LOGIN"), ("XOAUTH2 PLAIN", "PLAIN")],
)  # fmt: skip
async def test_a_session_logs_in_and_carries_mail(mechanisms: str, used: str) -> None:
    async with relay(mechanisms=mechanisms) as mx:
        session = await inside_tls(mx)
        assert fact(await session.authenticate(USER, PASSWORD)) == (Phase.AUTH, 235)
        assert mx.logins == [(used, USER, PASSWORD)]
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        await session.quit()


async def test_a_login_that_does_not_fit_into_a_command_comes_after_the_334() -> None:
    """RFC 4954 section 4: an AUTH command is no longer than any other."""
    long = "x" * 400
    async with relay(login=(USER, long)) as mx:
        session = await inside_tls(mx)
        assert fact(await session.authenticate(USER, long)) == (Phase.AUTH, 235)
        assert "AUTH PLAIN" in mx.commands
        assert mx.logins == [("PLAIN", USER, long)]


@pytest.mark.parametrize("mechanisms", ["PLAIN", "LOGIN"])
async def test_a_wrong_password_is_a_reply_and_the_session_stays_in_step(mechanisms: str) -> None:
    async with relay(mechanisms=mechanisms) as mx:
        session = await inside_tls(mx)
        assert fact(await session.authenticate(USER, "wrong")) == (Phase.AUTH, 535)
        assert session.usable
        await session.quit()
        assert mx.commands[-1] == "QUIT"


async def test_nobody_logs_in_in_clear() -> None:
    async with relay() as mx:
        session = await greeted(mx)
        with pytest.raises(RuntimeError):
            await session.authenticate(USER, PASSWORD)
        assert not mx.logins
        session.abort()


@pytest.mark.parametrize("mechanisms", ["PLAIN", "LOGIN"])
@pytest.mark.parametrize(
    ("step", "seen"),
    [("454 4.7.0 later", 454), ("421 4.3.2 closing", 421), ("334 ", 334), ("no", Seen.MALFORMED), (Close(), Seen.LOST),
     (Reset(), Seen.LOST), (Silence(), Seen.TIMEOUT)],
)  # fmt: skip
async def test_what_a_relay_does_instead(mechanisms: str, step: Any, seen: int | Seen) -> None:
    async with relay({"AUTH": step}, mechanisms=mechanisms) as mx:
        session = await inside_tls(mx, BRISK if seen is Seen.TIMEOUT else PATIENT)
        assert fact(await session.authenticate(USER, PASSWORD)) == (Phase.AUTH, seen)
        if seen == 334:  # it asks for more than there is
            assert "*" in mx.commands
        session.abort()


@pytest.mark.parametrize("mechanisms", ["PLAIN", "LOGIN"])
async def test_a_server_that_repeats_the_password_does_not_make_us_tell_it(mechanisms: str) -> None:
    def repeat(line: str) -> bytes:
        return f"535-5.7.8 wrong: {line}\r\n535-{PASSWORD}\r\n535 {secrets()[1]}\r\n".encode()

    async with relay({"AUTH": repeat}, mechanisms=mechanisms) as mx:
        session = await inside_tls(mx)
        seen = await session.authenticate(USER, PASSWORD)
        assert fact(seen) == (Phase.AUTH, 535) and "[hidden]" in str(seen)
        hides_the_password(seen)
        session.abort()


# ---------------------------------------------------------------- TLS from the first octet
def demand(*names: str) -> TlsDemand:
    return TlsDemand(TlsPolicy.CONFIGURED, required=True, names=names)


async def connect(
    mx: ScriptedMx, host: str = RELAY, timeouts: Timeouts = PATIENT, of: TlsDemand | None = None, source: str = ""
) -> tuple[SmtpSession | None, Observation]:
    return await SmtpConnector(HOSTNAME, timeouts).connect(host, mx.address, mx.port, source=source, demand=of)


async def test_a_whole_delivery_in_tls_from_the_first_octet() -> None:
    async with relay(implicit=True) as mx:
        session, seen = await connect(mx, of=demand())
        assert session is not None and fact(seen) == (Phase.BANNER, 220)
        assert session.tls.startswith("TLSv1.3")
        assert fact(await session.hello("EHLO")) == (Phase.EHLO_TLS, 250)
        assert "STARTTLS" not in session.extensions
        assert fact(await session.authenticate(USER, PASSWORD)) == (Phase.AUTH, 235)
        assert fact(await deliver(session)) == (Phase.FINAL, 250)
        await session.quit()
        assert mx.messages[0].tls


@pytest.mark.parametrize("implicit", [True, False])
@pytest.mark.parametrize(
    ("names", "asked", "fits"),
    [((RELAY,), RELAY, True), (("*.example.test",), RELAY, True), (("other.example.test",), RELAY, False),
     (("127.0.0.1",), "127.0.0.1", True), ((RELAY,), "127.0.0.1", False)],
)  # fmt: skip
async def test_the_name_of_a_relay_is_verified(
    implicit: bool, names: tuple[str, ...], asked: str, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(trust_file(tmp_path)))
    async with ScriptedMx(tls=issued_to(*names), implicit=implicit) as mx:
        session, seen = await connect(mx, asked, of=demand(asked) if implicit else None)
        if not implicit:
            assert session is not None
            await session.hello("EHLO")
            seen = await session.starttls(demand(asked))
        assert fact(seen) == ((Phase.BANNER, 220) if implicit and fits else (Phase.TLS, Seen.REPLY if fits else Seen.LOST))
        assert fits or "certificate is not valid" in str(seen.reply)
        assert (session is None) is (implicit and not fits)
        if session is not None:
            session.abort()


async def test_an_authority_that_nobody_knows_does_not_do() -> None:
    async with relay(implicit=True) as mx:
        session, seen = await connect(mx, "mx.example.test", of=demand("mx.example.test"))
        assert session is None and fact(seen) == (Phase.TLS, Seen.LOST)


@pytest.mark.parametrize(
    ("banner", "seen"),
    [("220 hello, in clear", Seen.LOST), (Close(), Seen.LOST), (Reset(), Seen.LOST), (Silence(), Seen.TIMEOUT)],
)
async def test_b04_a_server_that_speaks_in_clear_where_tls_is_meant(banner: Any, seen: Seen) -> None:
    async with ScriptedMx({"BANNER": banner}) as mx:
        session, found = await connect(mx, timeouts=BRISK if seen is Seen.TIMEOUT else PATIENT, of=demand())
        assert session is None and fact(found) == (Phase.TLS, seen)
        assert not mx.commands


# ---------------------------------------------------------------- where it comes from
@pytest.mark.parametrize(("host", "source"), [("127.0.0.1", "127.4.5.6"), ("::1", "::1")])
async def test_the_peer_sees_the_source_address(host: str, source: str) -> None:
    async with ScriptedMx(host=host) as mx:
        session, seen = await connect(mx, source=source)
        assert session is not None and fact(seen) == (Phase.BANNER, 220)
        assert mx.connections[0].tcp.get_extra_info("peername")[0] == source
        await session.quit()


@pytest.mark.parametrize(("host", "source"), [("127.0.0.1", "192.0.2.5"), ("::1", "2001:db8::5")])
async def test_a_source_that_this_machine_does_not_have_is_named(host: str, source: str) -> None:
    async with ScriptedMx(host=host) as mx:
        session, seen = await connect(mx, source=source)
        assert session is None and fact(seen) == (Phase.CONNECT, Seen.LOST)
        assert seen.reply is not None and seen.reply.status == NO_SUCH_SOURCE and source in seen.reply.text
        assert not mx.connections
