"""What the daemon does about encryption beside its deliveries: policies kept, sessions counted, reports sent."""

import asyncio
import email
import email.policy
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from mta.app.daemon import Daemon
from mta.app.runtime import system_runtime
from mta.app.systemd import Notifier
from mta.config.load import load
from mta.model.events import Encrypted, Fact
from mta.model.tls import TlsPolicy, TlsResult
from mta.sts.fetch import PolicyServers
from tests.e2e.world import World
from tests.spool.house import SpawnedProcess
from tests.support.daemon import toml, until
from tests.support.tls import client_context
from tests.support.web_server import WebServer, page

NOON = 1_800_057_600.0 + 12 * 3600
POLICY = "version: STSv1\nmode: enforce\nmx: mx1.good.test\nmax_age: 604800\n"
SESSION = Encrypted("good.test", ((TlsPolicy.MTA_STS, POLICY),), TlsResult.SUCCESS, "mx1.good.test", "192.0.2.1")


class At:
    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


@asynccontextmanager
async def daemon(world: World, at: float, web_port: int = 1) -> AsyncIterator[tuple[Daemon, list[Fact]]]:
    """In this process, its wall clock standing at `at`; what it logs is kept."""
    world.daemon.file.write_text(toml(world.daemon.config))
    config = load(world.daemon.file, {})
    facts: list[Fact] = []
    runtime = system_runtime(config, SpawnedProcess(asyncio.new_event_loop))
    fetch = PolicyServers(runtime.resolver, port=web_port, tls=client_context())
    made = Daemon(config, replace(runtime, clock=At(at), fetch_policy=fetch), facts.append, Notifier({}))
    started = asyncio.Event()
    serving = asyncio.create_task(made.serve(started.set))
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    assert started.is_set(), serving.exception()
    try:
        yield made, facts
    finally:
        made.request_stop()
        await serving


async def test_tls_06_policies_are_asked_for_by_the_daemon_and_kept_over_a_restart(world: World) -> None:
    world.dns.zones["_mta-sts.good.test", "TXT"] = ['"v=STSv1; id=1;"']
    world.dns.zones["mta-sts.good.test", "A"] = ["127.0.0.1"]
    async with WebServer("mta-sts.good.test") as web:
        web.answer = page(POLICY)
        async with daemon(world, NOON, web.port) as (first, _):
            assert first.policies is not None
            found = await first.policies.of("good.test")
            assert found is not None and found.mx == ("mx1.good.test",)
        async with daemon(world, NOON + 86400, web.port) as (second, _):
            assert second.policies is not None
            assert await second.policies.of("good.test") == found
        assert len(web.requests) == 1


async def test_a_reload_decides_about_private_addresses(world: World) -> None:
    world.dns.zones["_mta-sts.good.test", "TXT"] = ['"v=STSv1; id=1;"']
    world.dns.zones["mta-sts.good.test", "A"] = ["127.0.0.1"]
    async with WebServer("mta-sts.good.test") as web:
        web.answer = page(POLICY)
        async with daemon(world, NOON, web.port) as (running, facts):
            assert running.policies is not None
            world.configure("delivery", allow_private_addresses=False)
            world.daemon.file.write_text(toml(world.daemon.config))
            running.reload(load(world.daemon.file, {}))
            assert await running.policies.of("good.test") is None
            assert not web.requests
            assert [it.result for it in facts if isinstance(it, Encrypted)] == [TlsResult.STS_POLICY_FETCH_ERROR]


async def test_mta_sts_can_be_left_out(world: World) -> None:
    world.configure("tls", mta_sts=False)
    async with daemon(world, NOON) as (running, _):
        assert running.policies is None and running.tls_reports is None


async def test_tls_10_sessions_of_a_day_are_reported_on_the_next(world: World) -> None:
    world.configure("tls", report=True)
    world.dns.zones["_smtp._tls.good.test", "TXT"] = ['"v=TLSRPTv1; rua=mailto:tls@good.test"']
    mx = await world.mx("good.test")
    async with daemon(world, NOON) as (first, _):
        for _ in range(3):
            first.observe(SESSION)
    async with daemon(world, NOON + 86400):
        [mail] = await until(lambda: world.mail_for("tls@good.test", mx))
    assert mail.reverse_path == ""
    report = email.message_from_bytes(mail.content, policy=email.policy.SMTP)
    assert report["TLS-Report-Domain"] == "good.test"
    document = json.loads(gzip.decompress(list(report.iter_parts())[1].get_content()))
    assert document["policies"][0]["summary"]["total-successful-session-count"] == 3
    assert document["policies"][0]["policy"]["mx-host"] == ["mx1.good.test"]
    async with daemon(world, NOON + 86400 + 3600) as (third, _):
        third.scheduler.stop()
    assert len(world.mail_for("tls@good.test", mx)) == 1
