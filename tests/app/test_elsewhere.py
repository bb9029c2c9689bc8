"""`mta check` warns where a domain that is local here has its mail elsewhere (interface.md section 2)."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mta.app.elsewhere import domains_elsewhere
from mta.app.main import run
from mta.cli.check import check
from mta.config.load import load
from mta.config.problems import ConfigError
from tests.support.dns_server import DnsServer


@contextmanager
def names(zones: dict) -> Iterator[int]:
    """A scripted name server in a thread, since what is tested runs a loop of its own; its port."""
    loop, port, started = asyncio.new_event_loop(), [], threading.Event()

    async def serve(done: asyncio.Event) -> None:
        async with DnsServer(zones) as server:
            port.append(server.address[1])
            started.set()
            await done.wait()

    done = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(done),))
    thread.start()
    started.wait(10)
    yield port[0]
    loop.call_soon_threadsafe(done.set)
    thread.join(10)
    loop.close()


def warnings(tmp_path, domains: str, zones: dict) -> list[str]:
    with names(zones) as port:
        file = tmp_path / "mta.toml"
        file.write_text(
            f'hostname = "mail.example.com"\npostmaster = "p@example.net"\nlocal_domains = {domains}\n'
            f'[dns]\nnameservers = ["127.0.0.1:{port}"]\ntimeout = "1s"\n'
            '[control]\nsocket = "/run/mta/control.sock"\n'
        )
        return [str(it) for it in domains_elsewhere(load(file, {"HOME": str(tmp_path)}))]


def test_a_domain_with_its_mail_elsewhere_is_named_with_the_place(tmp_path):
    zones = {("example.com", "MX"): ["20 mx2.example.net.", "10 mx1.example.net."]}
    (warning,) = warnings(tmp_path, '["localhost", "example.com"]', zones)
    assert "example.com" in warning
    assert "mx1.example.net" in warning


def test_our_own_domain_one_without_mx_and_one_that_can_not_be_asked_are_no_warning(tmp_path):
    zones = {
        ("example.com", "MX"): ["10 mail.example.com."],
        ("plain.example", "A"): ["192.0.2.1"],
        ("broken.example", "*"): "SERVFAIL",
    }
    assert not warnings(tmp_path, '["localhost", "example.com", "plain.example", "broken.example"]', zones)


def test_a_machine_without_a_usable_name_is_refused_by_the_check_as_by_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's name, say."""
    path = tmp_path / "mta.toml"
    path.write_text('postmaster = "p@example.net"\n')
    monkeypatch.setattr("socket.getfqdn", lambda: "my_app_1")
    for look in (lambda: check(path, as_json=False), lambda: run(path)):
        with pytest.raises(ConfigError, match="set hostname in the configuration"):
            look()
