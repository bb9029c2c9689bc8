"""The keys of `[[dkim]]`: what is refused, what is warned of, and keys that are replaced while the daemon runs."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mta.app.signing import key_warnings, read_keys
from mta.config.load import load
from mta.config.model import Config
from mta.config.problems import ConfigError
from mta.dkim.keys import new_key
from tests.e2e.world import World
from tests.support.daemon import Ended, run, toml, until
from tests.support.verifiers import by_dkimpy, key, pem, published

Configured = Callable[..., Config]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    def configuration(*keys: str) -> Config:
        tables = (f'[[dkim]]\ndomain = "example.com"\nselector = "s{n}"\nkey = "{it}"\n' for n, it in enumerate(keys))
        path = tmp_path / "mta.toml"
        path.write_text("".join(tables))
        return load(path, {"HOME": "/home/ann"})

    return configuration


def refusal(config: Config, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_keys(config, environ or {})
    (line,) = caught.value.lines()
    return line


def keep(path: Path, octets: bytes, mode: int = 0o600) -> None:
    path.touch(mode)
    path.write_bytes(octets)


def test_keys_are_taken_in_their_order_without_a_word(configured: Configured, tmp_path: Path) -> None:
    keep(tmp_path / "one", new_key("rsa"))
    keep(tmp_path / "two", new_key("ed25519"))
    found = read_keys(configured("one", "two"), {})
    assert [(it.name, it.algorithm) for it in found.keys] == [
        ("example.com/s0", "rsa-sha256"), ("example.com/s1", "ed25519-sha256"),
    ]  # fmt: skip
    assert found.warnings == ()


def test_b43_one_that_is_no_good_is_named_in_one_line(configured: Configured, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    config = configured("key.pem")
    assert refusal(config) == f"{path}: dkim.key: can't be read: No such file or directory"
    keep(path, b"")
    assert refusal(config) == f"{path}: dkim.key: is empty: expected a private key in PEM, RSA or Ed25519"
    keep(path, new_key("rsa")[:600])
    assert refusal(config).startswith(f"{path}: dkim.key: is no key: ")


def test_b43_a_key_for_all_to_read_is_warned_of(configured: Configured, tmp_path: Path) -> None:
    keep(tmp_path / "key.pem", new_key("ed25519"))
    (tmp_path / "key.pem").chmod(0o644)
    (warning,) = read_keys(configured("key.pem"), {}).warnings
    assert str(warning) == f"dkim.key: {tmp_path}/key.pem can be read by everybody on this machine: chmod o-r"


def test_credentials_are_where_systemd_puts_them(configured: Configured, tmp_path: Path) -> None:
    keep(tmp_path / "one", new_key("ed25519"))
    config = configured("credential:one")
    assert read_keys(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).keys
    assert "LoadCredential=one:FILE" in refusal(config)
    (warning,) = key_warnings(config, {})
    assert str(warning) == "dkim: credential:one can only be looked at by the service, not here"
    with pytest.raises(ConfigError):  # the others can be looked at
        key_warnings(configured("credential:one", "none.pem"), {})


def test_a_selector_stands_for_one_key(tmp_path: Path) -> None:
    path = tmp_path / "mta.toml"
    path.write_text('[[dkim]]\ndomain = "example.com"\nselector = "s"\nkey = "k"\n' * 2)
    with pytest.raises(ConfigError, match="given twice: expected one for each key"):
        load(path, {"HOME": "/home/ann"})


# ---------------------------------------------------------------- in a daemon's life
def table(world: World, name: str, octets: bytes) -> Path:
    """Configures one key."""
    path = world.folder / f"{name}.pem"
    keep(path, octets)
    world.configure("", dkim=[{"domain": "shop.test", "selector": name, "key": str(path)}])
    return path


async def test_b43_a_bad_key_refuses_the_start_and_the_check(world: World) -> None:
    path = table(world, "s1", b"")
    await world.daemon.launch()
    assert await world.daemon.exited() == 78
    (line,) = world.daemon.log_text.splitlines()
    assert line == f"mta: {path}: dkim.key: is empty: expected a private key in PEM, RSA or Ed25519"
    assert not (world.folder / "spool.db").exists()
    checked = await world.daemon.cli("check")
    assert (checked.code, checked.err.strip()) == (78, line)


@pytest.mark.root
async def test_b43_the_key_of_another_user_is_refused(world: World) -> None:
    path = table(world, "s1", pem("shop.test/s1"))
    world.daemon.file.write_text(toml(world.daemon.config))
    world.folder.chmod(0o755)
    done = await as_nobody("check", "--config", str(world.daemon.file))
    assert (done.code, done.err) == (78, f"mta: {path}: dkim.key: can't be read: Permission denied\n")


async def as_nobody(*words: str) -> Ended:
    """The command, run by one who owns nothing; what it is made of was read before."""
    code = (
        "import os, sys, encodings.utf_8_sig, mta.cli.check; from mta.cli.main import main; os.setgroups([]);"
        f"os.setgid(65534); os.setuid(65534); sys.argv = ['mta', *{words!r}]; sys.exit(main())"
    )
    return await run(sys.executable, "-c", code)


async def test_b43_a_reload_with_a_bad_key_keeps_the_old_one_and_says_so(world: World) -> None:
    """A truncated file; then a good one, which signs at once."""
    mx = await world.mx("good.test")
    path = table(world, "s1", pem("shop.test/s1"))
    await world.daemon.start()
    path.write_bytes(pem("shop.test/s1")[:40])
    await world.daemon.reload()
    (trouble,) = world.daemon.logged("trouble", level="error")
    assert trouble["what"] == "the DKIM keys are as they were: a new one is wrong"
    assert trouble["detail"].startswith(f"{path}: dkim.key: is no key")
    await world.daemon.submit("ann@good.test")
    await until(lambda: len(mx.messages) == 1)
    table(world, "s2", pem("shop.test/s2", "rsa"))
    await world.daemon.reload()
    await world.daemon.submit("ann@good.test")
    await until(lambda: len(mx.messages) == 2)
    first, second = mx.messages
    assert by_dkimpy(first.content, published(key("shop.test/s1"))) == [True]
    assert by_dkimpy(second.content, published(key("shop.test/s2", "rsa"))) == [True]
    for octets in (pem("shop.test/s1"), pem("shop.test/s2", "rsa")):
        assert octets.splitlines()[1].decode() not in world.daemon.log_text


async def test_who_may_not_send_for_a_domain_gets_no_signature_by_a_key_that_a_bad_reload_has_left(world: World) -> None:
    table(world, "s1", pem("shop.test/s1"))
    world.configure("submission", client=[{"network": "127.0.0.0/8", "sender_domains": ["other.test"]}])
    await world.daemon.start()
    world.configure("", dkim=[{"domain": "other.test", "selector": "s2", "key": str(world.folder / "none.pem")}])
    await world.daemon.reload()
    async with await world.daemon.client() as client:
        for line in ("EHLO c.test", "MAIL FROM:<a@other.test>", "RCPT TO:<ann@good.test>", "DATA"):
            await client.command(line)
        await client.send(b"From: boss@shop.test\r\n\r\nx\r\n.\r\n")
        assert (await client.reply())[:9] == "550 5.7.1"
