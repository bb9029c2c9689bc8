"""The same outcomes through a real recursive resolver: what it makes of them is what the daemon sees in life."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mta.dns.resolver import DnsResolver
from mta.ports.names import Lookup, MailExchanger
from tests.support.dns_server import DnsServer, Zones
from tests.support.ports import free_port

pytestmark = pytest.mark.unbound

UNBOUND = shutil.which("unbound", path="/usr/sbin:/usr/local/sbin:/usr/bin")
CONFIGURATION = """
server:
  directory: "{folder}"
  chroot: ""
  username: ""
  pidfile: ""
  logfile: ""
  use-syslog: no
  verbosity: 0
  interface: 127.0.0.1@{port}
  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no
  do-ip6: no
  module-config: "iterator"
  local-zone: "test." nodefault
  num-threads: 1
remote-control:
  control-enable: no
stub-zone:
  name: "test."
  stub-addr: 127.0.0.1@{upstream}
  stub-prime: no
"""
ZONES: Zones = {
    ("good.test", "MX"): ["10 mx.good.test.", "20 mx2.good.test."],
    ("mx.good.test", "A"): ["192.0.2.1"],
    ("mx.good.test", "AAAA"): ["2001:db8::1"],
    ("null.test", "MX"): ["0 ."],
    ("web.test", "A"): ["192.0.2.80"],
    ("broken.test", "*"): "SERVFAIL",
    ("refused.test", "*"): "REFUSED",
    ("half.test", "A"): ["192.0.2.2"],
    ("half.test", "AAAA"): "SERVFAIL",
    ("alias.test", "CNAME"): ["good.test."],
    ("one.test", "CNAME"): ["two.test."],
    ("two.test", "CNAME"): ["one.test."],
    ("big.test", "MX"): [f"{i} mx{i}.{'x' * 40}.test." for i in range(60)],
}


async def answering(port: int) -> None:
    """Until something on `port` answers a question; each time a resolver that remembers nothing."""
    while (await DnsResolver([("127.0.0.1", port)], 2.0).mail_exchangers("good.test")).lookup is not Lookup.FOUND:
        await asyncio.sleep(0.02)


@asynccontextmanager
async def recursive(folder: Path) -> AsyncIterator[DnsResolver]:
    assert UNBOUND, "unbound is not installed (Debian: unbound)"
    async with DnsServer(ZONES) as upstream:
        port = free_port()
        configuration = folder / "unbound.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port, upstream=upstream.address[1]))
        child = await asyncio.create_subprocess_exec(UNBOUND, "-d", "-c", str(configuration))
        try:
            async with asyncio.timeout(20):
                await answering(port)
            yield DnsResolver([("127.0.0.1", port)], 15.0)
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
            await child.wait()


async def test_table_b_through_a_real_resolver(tmp_path: Path) -> None:
    """B19, B20: NXDOMAIN, NODATA, SERVFAIL, REFUSED, null MX, aliases, a loop, an answer too large for UDP."""
    async with recursive(tmp_path) as resolver:
        names = ("good", "null", "web", "broken", "refused", "alias", "one", "big", "nothing")
        answers = await asyncio.gather(*(resolver.mail_exchangers(f"{name}.test") for name in names))
        found = dict(zip(names, answers, strict=True))
        assert {name: answer.lookup for name, answer in found.items()} == {
            "good": Lookup.FOUND,
            "null": Lookup.FOUND,
            "web": Lookup.NODATA,
            "broken": Lookup.TROUBLE,
            "refused": Lookup.TROUBLE,
            "alias": Lookup.FOUND,
            "one": Lookup.TROUBLE,
            "big": Lookup.FOUND,
            "nothing": Lookup.NXDOMAIN,
        }
        exchangers = {MailExchanger(10, "mx.good.test"), MailExchanger(20, "mx2.good.test")}
        assert set(found["good"].exchangers) == set(found["alias"].exchangers) == exchangers
        assert found["null"].exchangers == (MailExchanger(0, ""),)
        assert len(found["big"].exchangers) == 60
        assert found["broken"].detail == "SERVFAIL (127.0.0.1)"

        both, half = await asyncio.gather(resolver.addresses("mx.good.test"), resolver.addresses("half.test"))
        assert both.addresses == ("192.0.2.1", "2001:db8::1")
        assert half.addresses == ("192.0.2.2",)
        assert (await resolver.addresses("broken.test")).lookup is Lookup.TROUBLE
