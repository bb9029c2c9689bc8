"""A real Exim of a test's own: its folders, its address, nothing of the machine's.

    async with Exim(folder, "127.5.6.7", 2526) as exim:
        ... deliver to exim.test ...
        assert exim.mail("ann@exim.test") == [b"..."]

Everybody at exim.test has a mailbox, but `nobody` (refused) and `busy` (deferred). Debian's package can't be installed
beside Postfix, so its program is unpacked by tests/run, and finds the user it was built for by libnss-wrapper.
"""

import asyncio
import os
import shutil
import socket
from pathlib import Path
from typing import Self

from tests.support.daemon import until

DOMAIN = "exim.test"
SIZE_LIMIT = 200_000
_UNPACKED = Path(__file__).parents[2] / ".venv-tests/exim/usr/sbin/exim4"
_NOBODY = 65534
_CONFIGURATION = """
exim_path = {program}
exim_user = mail
exim_group = mail
deliver_drop_privilege = true
keep_environment = LD_PRELOAD : NSS_WRAPPER_PASSWD : NSS_WRAPPER_GROUP
primary_hostname = mx.{domain}
spool_directory = {folder}/spool
log_file_path = {folder}/%slog
log_selector = +8bitmime +pipelining +smtp_connection
pid_file_path = {folder}/pid
daemon_smtp_ports = {port}
local_interfaces = {host}
host_lookup =
rfc1413_hosts =
message_size_limit = {size}
accept_8bitmime = true
smtp_enforce_sync = true
tls_advertise_hosts =
acl_smtp_rcpt = rcpt
acl_smtp_data = accept
begin acl
rcpt:
  deny local_parts = nobody
       message = no such user here
  defer local_parts = busy
       message = mailbox busy
  accept domains = {domain}
  deny message = relay not permitted
begin routers
everybody:
  driver = accept
  transport = mailbox
begin transports
mailbox:
  driver = appendfile
  directory = {folder}/mail
  maildir_format
  envelope_to_add
  return_path_add
"""


class Exim:
    def __init__(self, folder: Path, host: str, port: int) -> None:
        self.folder, self.host, self.port = folder, host, port
        self._program = os.environ.get("EXIM") or shutil.which("exim4", path=f"{_UNPACKED.parent}:/usr/sbin") or "exim4"
        self._user = _NOBODY if os.geteuid() == 0 else os.geteuid()

    async def __aenter__(self) -> Self:
        self._furnish()
        drop = ["--reuid", str(self._user), "--regid", str(self._user), "--clear-groups"] if os.geteuid() == 0 else []
        self._process = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL", *drop, self._program, "-C", str(self.folder / "conf"), "-bdf",
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env=self._environ,
        )  # fmt: skip
        await until(self._listens)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()

    def _furnish(self) -> None:
        for name in ("spool", "mail"):
            (self.folder / name).mkdir(parents=True)
        values = {"folder": self.folder, "host": self.host, "port": self.port, "domain": DOMAIN, "size": SIZE_LIMIT}
        (self.folder / "conf").write_text(_CONFIGURATION.format(program=self._program, **values))
        users = {"root": 0, "mail": self._user, "nobody": self._user, "Debian-exim": self._user}
        (self.folder / "passwd").write_text("".join(f"{name}:x:{it}:{it}::/:/bin/sh\n" for name, it in users.items()))
        (self.folder / "group").write_text("".join(f"{name}:x:{it}:\n" for name, it in users.items()))
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, self._user, self._user)
            os.chown(self.folder / "conf", 0, 0)

    @property
    def _environ(self) -> dict[str, str]:
        files = {"NSS_WRAPPER_PASSWD": str(self.folder / "passwd"), "NSS_WRAPPER_GROUP": str(self.folder / "group")}
        return {**os.environ, **files, "LD_PRELOAD": "libnss_wrapper.so"}

    def _listens(self) -> bool:
        assert self._process.returncode is None, self.log
        with socket.socket() as client:
            return client.connect_ex((self.host, self.port)) == 0

    def mail(self, address: str) -> list[bytes]:
        """What has come for it, in no order."""
        new = self.folder / "mail/new"
        found = [path.read_bytes() for path in new.iterdir()] if new.exists() else []
        return [it for it in found if f"Envelope-to: {address}\n".encode() in it]

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*log")))
