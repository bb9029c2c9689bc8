"""A daemon and the internet around it, on loopback addresses of its own."""

import contextlib
import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.support.daemon import FAST, Daemon
from tests.support.dns_server import DnsServer
from tests.support.mx import Message, ScriptedMx
from tests.support.ports import free_port

T = TypeVar("T")

SENDER = "app@shop.test"
POSTMASTER = "postmaster@admin.test"


class World:
    """`home` takes the mail for the submitter (shop.test) and for the postmaster (admin.test). The daemon is not started
    yet: its configuration may be changed before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.net = f"127.{random.randrange(1, 255)}.{random.randrange(256)}"
        self.dns = DnsServer()
        self._stack = AsyncExitStack()
        self._hosts = 1

    async def __aenter__(self) -> Self:
        await self.enter(self.dns)
        listen, self.port = free_port(), free_port()
        self.daemon = await self.enter(Daemon(self.folder, self._config(listen)))
        self.home = await self.mx("shop.test", "admin.test")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _config(self, listen: int) -> dict[str, Any]:
        return {
            "hostname": "mail.out.test",
            "postmaster": POSTMASTER,
            "spool": {"url": f"sqlite:{self.folder}/spool.db"},
            "submission": {"listen": [f"{self.net}.1:{listen}"]},
            "control": {"socket": f"{self.folder}/control.sock"},
            "reports": {"interval": "1s"},
            "alerts": {"interval": "1s"},
            "dns": {"nameservers": [":".join(map(str, self.dns.address))], "timeout": "2s"},
            "delivery": {"port": self.port, "allow_private_addresses": True, "in_doubt_delay": "500ms", "timeouts": {}},
            "class": {"urgent": dict(FAST), "normal": dict(FAST), "bulk": dict(FAST)},
            "log": {"format": "json"},
        }

    def configure(self, table: str, **values: Any) -> None:
        """`table` with dots; "" for the top."""
        place = self.daemon.config
        for name in filter(None, table.split(".")):
            place = place.setdefault(name, {})
        place.update(values)

    @contextlib.contextmanager
    def spool(self) -> Iterator[sqlite3.Connection]:
        """The spool's file, opened behind the daemon's back; each statement is a transaction of its own."""
        with contextlib.closing(sqlite3.connect(self.folder / "spool.db", isolation_level=None, timeout=20)) as db:
            yield db

    @contextlib.contextmanager
    def failing(self, table: str, when: str = "TRUE", event: str = "INSERT") -> Iterator[None]:
        """The spool fails for rows that fit `when`, with words that nobody outside should read."""
        with self.spool() as spool:
            spool.execute(
                f"CREATE TRIGGER trouble BEFORE {event} ON {table} WHEN {when} "
                "BEGIN SELECT RAISE(ABORT, 'disk I/O error /var/spool/x.db'); END"
            )
            yield
            spool.execute("DROP TRIGGER trouble")

    # ------------------------------------------------ the internet
    async def enter(self, server: AbstractAsyncContextManager[T]) -> T:
        """One more server, which lasts as long as the world."""
        return await self._stack.enter_async_context(server)

    async def mx(self, *domains: str, script: Mapping[str, Any] | None = None, **how: Any) -> ScriptedMx:
        """A server that is the only mail exchanger of these domains."""
        server = await self.enter(ScriptedMx(script, port=self.port, **{"host": self.address(), **how}))
        for domain in domains:
            self.route(domain, server.address)
        return server

    def address(self) -> str:
        """A loopback address nobody has had yet."""
        self._hosts += 1
        return f"{self.net}.{self._hosts}"

    def route(self, domain: str, *addresses: str) -> None:
        """One mail exchanger for each address, in this order of preference."""
        self.dns.zones[domain, "MX"] = [f"{10 * n} mx{n}.{domain}." for n in range(1, len(addresses) + 1)]
        for n, address in enumerate(addresses, 1):
            self.dns.zones[f"mx{n}.{domain}", "AAAA" if ":" in address else "A"] = [address]

    # ------------------------------------------------ what has arrived
    def mail_for(self, address: str, mx: ScriptedMx | None = None) -> list[Message]:
        """What `mx` (`home` without one) has taken for `address`."""
        taken = [message for message in (mx or self.home).messages if message.code == 250]
        return [message for message in taken if address in message.forward_paths]

    def bounces(self) -> list[Message]:
        return [message for message in self.mail_for(SENDER) if message.reverse_path == ""]


def subject(message: Message) -> str:
    """Of a message that has arrived; "" without one."""
    for line in message.content.split(b"\r\n\r\n")[0].split(b"\r\n"):
        if line.lower().startswith(b"subject:"):
            return line[8:].strip().decode("latin-1")
    return ""


@contextlib.contextmanager
def no_surprise(daemon: Daemon) -> Iterator[None]:
    """The golden rule: whatever happened, the log holds no traceback, and each of its lines is one."""
    yield
    text = daemon.log_text
    print(text)
    assert "Traceback" not in text
    assert all(line.startswith(("{", "ts=", "mta: ")) for line in text.splitlines())
