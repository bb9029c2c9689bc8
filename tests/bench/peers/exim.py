"""A private Exim, Debian's light one: unpacked by tests/run, as it can't be installed beside Postfix."""

import shutil
import subprocess
from pathlib import Path
from typing import Self

from tests.bench.group import Group
from tests.bench.machine import Unfit
from tests.bench.peers import HOSTNAME, Setup
from tests.bench.processes import LEASH
from tests.bench.traffic import BULK, SINK
from tests.support import exim
from tests.support.daemon import until

CONFIGURATION = """
exim_path = {program}
exim_user = mail
exim_group = mail
keep_environment = LD_PRELOAD : NSS_WRAPPER_PASSWD : NSS_WRAPPER_GROUP
primary_hostname = {hostname}
spool_directory = {folder}/spool
log_file_path = {folder}/%slog
pid_file_path = {folder}/pid
local_interfaces = {host}
daemon_smtp_ports = {port}
host_lookup =
rfc1413_hosts =
tls_advertise_hosts =
never_users =
deliver_drop_privilege = true
split_spool_directory = true
smtp_accept_max = 300
smtp_connect_backlog = 1024
smtp_accept_queue_per_connection = 0
smtp_accept_max_per_connection = 0
queue_only = {held}
acl_smtp_rcpt = accept
acl_smtp_data = accept
begin routers
relay:
  driver = manualroute
  transport = remote
  route_list = {routes}
  self = send
begin transports
remote:
  driver = smtp
  port = {out}
  hosts_avoid_tls = *
begin retry
* * F,2h,15m; G,16h,1h,1.5; F,4d,6h
"""
"""Stock but for where things are, and its limits on connections, which are low."""


class Exim(exim.Exim):
    """Its deliveries part from the daemon, and nobody waits for them: only a control group tells what they have used."""

    def __init__(self, folder: Path, endpoint: tuple[str, int], setup: Setup, name_server: str) -> None:
        super().__init__(folder, *endpoint)
        self.endpoint, self._setup = endpoint, setup

    async def __aenter__(self) -> Self:
        if shutil.which(self._program) is None:
            raise Unfit("Exim is missing: tests/run unpacks it")
        self._furnish()
        said = subprocess.run(
            [self._program, "-C", str(self.folder / "conf"), "-bV"],
            env=self._environ,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.name = f"Exim {said.split()[2]}"
        dropped = (*LEASH, "--reuid", str(self._user), "--regid", str(self._user), "--clear-groups")
        command = (*dropped, self._program, "-C", str(self.folder / "conf"), "-bdf", "-q5m")
        self._group = Group(str(self.port))
        self._process = await self._group.start(*command, out=self.folder / "out", env=self._environ)
        try:
            await until(self._listens)
        except AssertionError as error:
            await self._group.end(self._process)
            raise Unfit(f"Exim can't be set up: {error} {(self.folder / 'out').read_text()[-300:]}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._group.end(self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float | None:
        return self._group.cpu_seconds()

    def _furnish(self) -> None:
        super()._furnish()
        hosts = {BULK: SINK, **self._setup.hosts}
        (self.folder / "conf").write_text(
            CONFIGURATION.format(
                program=self._program, hostname=HOSTNAME, folder=self.folder, host=self.host, port=self.port,
                held=str(self._setup.is_held).lower(), out=self._setup.port,
                routes=" ; ".join(f"{domain} {address}" for domain, address in hosts.items()),
            )
        )  # fmt: skip
