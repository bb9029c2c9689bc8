"""Who is measured: our daemon and a private Postfix, each on its own folder of the same disk, with the same two routes."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any, Protocol, Self

from tests.bench.machine import Unfit
from tests.bench.traffic import BULK, SINGLE, end, start
from tests.support.daemon import Daemon
from tests.support.dns_server import DnsServer
from tests.support.smtp_client import SmtpClient

HOSTNAME = "mail.bench.test"
SERVICES = """\
{host}:{port} inet n - n - - smtpd
postlog unix-dgram n - n - 1 postlogd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
"""
"""Debian's master.cf without chroot and without what a relay has no use for."""
MAIN = """\
compatibility_level = 3.6
queue_directory = {folder}/spool
data_directory = {folder}/data
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = {hostname}
mydestination =
local_recipient_maps =
alias_maps =
inet_interfaces = {host}
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtpd_recipient_restrictions = permit_mynetworks, reject
smtp_tls_security_level = none
smtpd_tls_security_level = none
smtp_dns_support_level = disabled
transport_maps = inline:{{ {bulk}=smtp:[{sink}]:{out}, {single}=smtp:[{receiver}]:{out} }}
"""
"""Stock but for where things are; no DNS, as in a relay to a smarthost."""


class Peer(Protocol):
    name: str
    endpoint: tuple[str, int]

    @property
    def pid(self) -> int:
        """The process that all others of this peer descend from."""
        ...


class Ours:
    """`mta serve` with its defaults, the scripted DNS server beside it."""

    name = "mta"

    def __init__(self, folder: Path, endpoint: tuple[str, int], hosts: dict[str, str], port: int) -> None:
        self.endpoint = endpoint
        self._dns = DnsServer()
        for domain, address in hosts.items():
            self._dns.zones[domain, "MX"] = [f"10 mx.{domain}."]
            self._dns.zones[f"mx.{domain}", "A"] = [address]
        self._daemon = Daemon(folder, _configuration(folder, endpoint, port))

    async def __aenter__(self) -> Self:
        await self._dns.start()
        self._daemon.config["dns"] = {"nameservers": [":".join(map(str, self._dns.address))]}
        await self._daemon.__aenter__()
        await self._daemon.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._daemon.stop()
        finally:
            await self._daemon.__aexit__()
            await self._dns.stop()

    @property
    def pid(self) -> int:
        return self._daemon.pid


def _configuration(folder: Path, endpoint: tuple[str, int], port: int) -> dict[str, Any]:
    return {
        "hostname": HOSTNAME,
        "postmaster": "postmaster@bench.test",
        "spool": {"url": f"sqlite:{folder}/spool.db"},
        "submission": {"listen": [":".join(map(str, endpoint))]},
        "control": {"socket": f"{folder}/control.sock"},
        "delivery": {"port": port, "allow_private_addresses": True},
    }


class Postfix:
    """Debian's, as its own instance."""

    def __init__(self, folder: Path, endpoint: tuple[str, int], hosts: dict[str, str], port: int) -> None:
        self.name = f"Postfix {_parameter('mail_version')}"
        self.endpoint = endpoint
        self._folder, self._hosts, self._port = folder, hosts, port

    async def __aenter__(self) -> Self:
        self._configure()
        etc = str(self._folder / "etc")
        checked = await asyncio.create_subprocess_exec("postfix", "-c", etc, "check", stderr=asyncio.subprocess.PIPE)
        _, said = await checked.communicate()
        if checked.returncode:
            raise Unfit(f"Postfix can't be set up: {said.decode(errors='replace').strip()[-300:]}")
        master = f"{_parameter('daemon_directory')}/master"
        self._master = await start(master, "-c", etc, "-s", out=self._folder / "out")
        try:
            await self._listens()
        except BaseException:
            await end(self._master)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._master)

    @property
    def pid(self) -> int:
        return self._master.pid

    def _configure(self) -> None:
        for name in ("etc", "spool", "data"):
            (self._folder / name).mkdir()
        shutil.chown(self._folder / "data", "postfix")
        host, port = self.endpoint
        (self._folder / "etc/master.cf").write_text(SERVICES.format(host=host, port=port))
        main = MAIN.format(
            folder=self._folder, hostname=HOSTNAME, host=host, out=self._port,
            bulk=BULK, single=SINGLE, sink=self._hosts[BULK], receiver=self._hosts[SINGLE],
        )  # fmt: skip
        (self._folder / "etc/main.cf").write_text(main)

    async def _listens(self) -> None:
        """Until it greets."""
        async with asyncio.timeout(20):
            while True:
                if self._master.returncode is not None:
                    raise Unfit(f"Postfix has ended: {(self._folder / 'out').read_text()[-300:]}")
                try:
                    async with await SmtpClient.connect(self.endpoint):
                        return
                except OSError:
                    await asyncio.sleep(0.05)


def _parameter(name: str) -> str:
    """Debian's default; postconf needs no main.cf for that."""
    return subprocess.run(["postconf", "-d", "-h", name], capture_output=True, text=True, check=True).stdout.strip()
