"""[submission.tls]: what is refused, what is warned of, and a certificate that is renewed while the daemon runs."""

import asyncio
import datetime
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from mta.app.certificate import certificate_warnings, read_certificate
from mta.config.load import load
from mta.config.model import Config
from mta.config.problems import ConfigError
from tests.e2e.world import World
from tests.support.smtp_client import SmtpClient
from tests.support.tls import NAME, authority, client_context, files

Named = Callable[[object, object], Config]


@pytest.fixture
def named(tmp_path: Path) -> Named:
    def configuration(certificate: object, key: object) -> Config:
        path = tmp_path / "mta.toml"
        path.write_text(f'[submission.tls]\ncertificate = "{certificate}"\nkey = "{key}"\n')
        return load(path, {"HOME": "/home/ann"})

    return configuration


def refusal(config: Config, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_certificate(config, environ or {})
    (line,) = caught.value.lines()
    return line


def test_a_good_one_is_taken_without_a_word(named: Named, tmp_path: Path) -> None:
    found = read_certificate(named(*files(tmp_path)), {})
    assert found.context is not None and found.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert found.warnings == ()


def test_without_one_there_is_none() -> None:
    assert read_certificate(load(None, {"HOME": "/home/ann"}), {}).context is None


def test_one_that_is_not_there_is_named(named: Named, tmp_path: Path) -> None:
    certificate, key = files(tmp_path)
    assert refusal(named("none.pem", key)) == f"{tmp_path}/none.pem: submission.tls.certificate: can't be read: " + (
        "No such file or directory"
    )
    assert "submission.tls.key: can't be read" in refusal(named(certificate, "none.key"))


def test_one_of_another_key_is_named(named: Named, tmp_path: Path) -> None:
    certificate, _ = files(tmp_path)
    (tmp_path / "other").mkdir()
    _, other = files(tmp_path / "other")
    assert f"the certificate is not that of the key {other}" in refusal(named(certificate, other))


def test_what_is_no_certificate_is_named(named: Named, tmp_path: Path) -> None:
    certificate, key = files(tmp_path)
    junk = tmp_path / "junk"
    junk.write_bytes(b"\xff\0 no PEM\n")
    assert f"{junk}: submission.tls.certificate: has no certificate" in refusal(named(junk, key))
    assert "expected PEM files" in refusal(named(certificate, junk))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(named: Named, tmp_path: Path) -> None:
    certificate, key = files(tmp_path)
    locked = tmp_path / "locked.pem"
    locked.write_text(_locked(key.read_bytes()))
    assert "is encrypted" in refusal(named(certificate, locked))


def _locked(pem: bytes) -> str:
    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()


def test_one_that_has_expired_and_a_key_for_all_to_read_are_warned_of(named: Named, tmp_path: Path) -> None:
    certificate, key = files(tmp_path)
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    expired = authority().issue_cert(NAME, not_after=yesterday)
    certificate.write_bytes(expired.cert_chain_pems[0].bytes())
    key.write_bytes(expired.private_key_pem.bytes())
    key.chmod(0o644)
    found = read_certificate(named(certificate, key), {})
    assert found.context is not None
    says = [str(problem) for problem in found.warnings]
    assert says == [
        f"submission.tls.key: {key} can be read by everybody on this machine: chmod o-r",
        "submission.tls.certificate: clients will refuse it: certificate has expired",
    ]


def test_credentials_are_where_systemd_puts_them(named: Named, tmp_path: Path) -> None:
    files(tmp_path)
    config = named("credential:cert.pem", "credential:key.pem")
    assert read_certificate(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).context is not None
    assert "LoadCredential=cert.pem:FILE" in refusal(config)
    (warning,) = certificate_warnings(config, {})
    assert "can only be looked at by the service" in warning.message


# ---------------------------------------------------------------- in a daemon's life
async def test_a_bad_one_refuses_the_start_and_the_check(world: World) -> None:
    certificate, key = files(world.folder)
    key.write_text("no key")
    world.configure("submission.tls", certificate=str(certificate), key=str(key))
    await world.daemon.launch()
    assert await world.daemon.exited() == 78
    (line,) = world.daemon.log_text.splitlines()
    assert line.startswith(f"mta: {certificate}: submission.tls: ")
    assert not (world.folder / "spool.db").exists()
    checked = await world.daemon.cli("check")
    assert (checked.code, checked.err.strip()) == (78, line)


async def test_sighup_takes_a_renewed_one_and_leaves_the_old_for_a_bad_one(world: World) -> None:
    certificate, key = files(world.folder)
    world.configure("submission.tls", certificate=str(certificate), key=str(key))
    await world.daemon.start()
    first = await _shown(world)
    files(world.folder)
    assert await _shown(world) == first
    await world.daemon.reload()
    second = await _shown(world)
    assert second != first
    key.write_text("no key")
    await world.daemon.reload()
    assert await _shown(world) == second
    (trouble,) = world.daemon.logged("trouble", level="error")
    assert trouble["what"] == "the certificate is as it was: the new one is wrong" and str(certificate) in trouble["detail"]


async def _shown(world: World) -> bytes:
    """The certificate that a client gets."""
    async with await world.daemon.client() as client:
        assert (await client.command("STARTTLS")).startswith("220")
        await client.writer.start_tls(client_context(), server_hostname=NAME)
        found: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found


async def test_the_whole_daemon_listens_at_each_kind_of_door(world: World) -> None:
    """What it says at the start, too."""
    certificate, key = files(world.folder)
    (plain,) = world.daemon.config["submission"]["listen"]
    host, _, port = plain.rpartition(":")
    inside, unix = f"tls://{host}:{int(port) + 1}", f"unix:{world.folder}/submit.sock"
    world.configure("submission", listen=[plain, inside, unix])
    world.configure("submission.tls", certificate=str(certificate), key=str(key))
    await world.daemon.start()
    (ready,) = world.daemon.logged("daemon", what="ready")
    assert ready["detail"].startswith(f"listening at {plain}, {inside}, {unix}; ")
    streams = await asyncio.open_connection(host, int(port) + 1, ssl=client_context(), server_hostname=NAME)
    async with SmtpClient(*streams) as client:
        assert (await client.reply()).startswith("220")
        assert (await client.submit(b"From: <a@b.example>\r\n\r\nx\r\n")).startswith("250 2.0.0")
    async with SmtpClient(*await asyncio.open_unix_connection(f"{world.folder}/submit.sock")) as client:
        assert (await client.reply()).startswith("220")
        assert (await client.submit(b"From: <a@b.example>\r\n\r\nx\r\n")).startswith("250 2.0.0")
    await world.daemon.stop()
    assert not (world.folder / "submit.sock").exists()
