"""A real Postfix of a test's own: its folders, its address, its certificate, nothing of the machine's.

    async with Postfix(folder, "127.5.6.7", 2526) as postfix:
        postfix.refuse("busy@real.test", "450 4.2.1 mailbox busy")
        await postfix.reload()
        ... deliver to real.test ...
        assert postfix.mail("ann@real.test") == [b"..."]

It has the `MAILBOXES` at real.test. It wants root, and Debian's package `postfix`.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import Self

from tests.support.daemon import run, until

DOMAIN = "real.test"
MAILBOXES = ("ann", "bob", "busy")
_MAILBOX_OWNER = 65534
_MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
inet_interfaces = loopback-only
inet_protocols = ipv4
myhostname = mx.{domain}
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
alias_database =
local_transport = error:no local mail here
virtual_mailbox_domains = {domain}
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = texthash:{folder}/conf/mailboxes
virtual_uid_maps = static:{owner}
virtual_gid_maps = static:{owner}
virtual_minimum_uid = 1
smtpd_peername_lookup = no
smtpd_recipient_restrictions = check_recipient_access texthash:{folder}/conf/access, reject_unauth_destination
smtpd_client_connection_rate_limit = 0
smtpd_tls_security_level = may
smtpd_tls_cert_file = {folder}/conf/cert.pem
smtpd_tls_key_file = {folder}/conf/key.pem
smtpd_tls_loglevel = 1
"""
_MASTER = """
{host}:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
retry unix - - n - - error
proxymap unix - - n - - proxymap
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""


class Postfix:
    """`folder` is made here; whoever may not enter its parents can't run it (Postfix drops its rights). `settings` are
    further lines of its main.cf."""

    def __init__(self, folder: Path, host: str, port: int, *, settings: str = "") -> None:
        self.folder, self.host, self.port, self._settings = folder, host, port, settings
        self._access: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        await self._furnish()
        daemons = (await run("postconf", "-c", str(self._conf), "-h", "daemon_directory")).out.strip()
        self._master = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "TERM", f"{daemons}/master", "-c", str(self._conf), "-d",
            start_new_session=True, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await until(self._listens)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._master.pid, signal.SIGTERM)  # the master does so to its children too
        try:
            await asyncio.wait_for(self._master.wait(), 10)
        except TimeoutError:
            os.killpg(self._master.pid, signal.SIGKILL)
            await self._master.wait()

    @property
    def _conf(self) -> Path:
        return self.folder / "conf"

    async def _furnish(self) -> None:
        for name in ("conf", "queue", "data", "mail"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        shutil.chown(self.folder / "data", "postfix")
        shutil.chown(self.folder / "mail", _MAILBOX_OWNER, _MAILBOX_OWNER)
        values = {
            "folder": self.folder, "host": self.host, "port": self.port, "domain": DOMAIN, "owner": _MAILBOX_OWNER,
        }  # fmt: skip
        (self._conf / "main.cf").write_text(_MAIN.format(**values) + self._settings)
        (self._conf / "master.cf").write_text(_MASTER.format(**values))
        (self._conf / "mailboxes").write_text("".join(f"{name}@{DOMAIN} {name}/\n" for name in MAILBOXES))
        self._write_access()
        for command in (
            ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
             "-subj", f"/CN=mx.{DOMAIN}", "-keyout", str(self._conf / "key.pem"), "-out", str(self._conf / "cert.pem")),
            ("postfix", "-c", str(self._conf), "check"),
        ):  # fmt: skip
            ended = await run(*command)
            assert ended.code == 0, ended

    def _listens(self) -> bool:
        assert self._master.returncode is None, self.log
        with socket.socket() as client:
            return client.connect_ex((self.host, self.port)) == 0

    # ------------------------------------------------ what a postmaster does
    def refuse(self, address: str, reply: str) -> None:
        """This RCPT is answered so, from the next `reload` on; "" takes that back."""
        self._access[address] = reply
        self._write_access()

    def set(self, parameter: str, value: str) -> None:
        """From the next `reload` on."""
        with (self._conf / "main.cf").open("a") as main:
            main.write(f"{parameter} = {value}\n")

    def _write_access(self) -> None:
        lines = [f"{address} {reply}\n" for address, reply in self._access.items() if reply]
        (self._conf / "access").write_text("".join(lines))

    async def reload(self) -> None:
        """For the connections to come."""
        before = self.log.count("reload --")
        self._master.send_signal(signal.SIGHUP)
        await until(lambda: self.log.count("reload --") > before)

    def mail(self, address: str) -> list[bytes]:
        """What is in the mailbox, in no order."""
        new = self.folder / "mail" / address.partition("@")[0] / "new"
        return [path.read_bytes() for path in new.iterdir()] if new.exists() else []

    @property
    def is_idle(self) -> bool:
        """Whether nobody is connected."""
        return self.log.count("]: connect from ") == self.log.count("]: disconnect from ")

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""
