"""A private Postfix, Debian's."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Self

from tests.bench.machine import Unfit, cpu_seconds
from tests.bench.peers import HOSTNAME, Setup
from tests.bench.processes import end, start
from tests.bench.traffic import BULK, SINK
from tests.support.smtp_client import SmtpClient

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
smtpd_recipient_restrictions = {hold}permit_mynetworks, reject
smtp_tls_security_level = none
smtpd_tls_security_level = none
message_size_limit = 0
{route}{further}"""
"""Stock but for where things are, and how large messages may be."""
_PRIVATE = ("unshare", "--mount", "sh", "-c", 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"', "sh")
"""Runs a command for which, and for whose children, a file is the machine's resolv.conf."""


class Postfix:
    def __init__(self, folder: Path, endpoint: tuple[str, int], setup: Setup, name_server: str) -> None:
        self.name = f"Postfix {parameter('mail_version')}"
        self.endpoint = endpoint
        self._folder, self._setup, self._name_server = folder, setup, name_server

    async def __aenter__(self) -> Self:
        self._configure()
        etc = str(self._folder / "etc")
        checked = await asyncio.create_subprocess_exec("postfix", "-c", etc, "check", stderr=asyncio.subprocess.PIPE)
        _, said = await checked.communicate()
        if checked.returncode:
            raise Unfit(f"Postfix can't be set up: {said.decode(errors='replace').strip()[-300:]}")
        master = (f"{parameter('daemon_directory')}/master", "-c", etc, "-s")
        surroundings = (*_PRIVATE, f"{etc}/resolv.conf") if self._setup.by_dns else ()
        self._master = await start(*surroundings, *master, out=self._folder / "out")
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

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def _configure(self) -> None:
        for name in ("etc", "spool", "data"):
            (self._folder / name).mkdir()
        shutil.chown(self._folder / "data", "postfix")
        host, port = self.endpoint
        main = MAIN.format(
            folder=self._folder, hostname=HOSTNAME, host=host, route=self._route(),
            hold="check_client_access static:HOLD, " if self._setup.is_held else "",
            further="".join(f"{name} = {value}\n" for name, value in self._setup.postfix.items()),
        )  # fmt: skip
        (self._folder / "etc/main.cf").write_text(main)
        (self._folder / "etc/master.cf").write_text(SERVICES.format(host=host, port=port))
        (self._folder / "etc/resolv.conf").write_text(f"nameserver {self._name_server}\n")

    def _route(self) -> str:
        """By DNS, or as to smarthosts."""
        port = self._setup.port
        if self._setup.by_dns:
            return f"smtp_tcp_port = {port}\n"
        hosts = {BULK: SINK, **self._setup.hosts}
        routes = ", ".join(f"{domain}=smtp:[{address}]:{port}" for domain, address in hosts.items())
        return f"smtp_dns_support_level = disabled\ntransport_maps = inline:{{ {routes} }}\n"

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


def parameter(name: str) -> str:
    """Debian's default; postconf needs no main.cf for that."""
    return subprocess.run(["postconf", "-d", "-h", name], capture_output=True, text=True, check=True).stdout.strip()
