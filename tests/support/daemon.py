"""The real daemon, a process of its own: `mta serve` with a configuration, a spool and a log in one folder.

    async with Daemon(folder, {"hostname": "mail.out.test", ...}) as daemon:
        await daemon.start()
        queue_id = await daemon.submit("ann@good.test")
        await until(lambda: daemon.has(queue_id, "sent"))

Nothing is left behind: the process ends with its context, and with the test's process, however that ends.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.smtp_client import SmtpClient, stuffed

FAST = {
    "first_retry": "300ms", "factor": 1.5, "max_interval": "1s", "jitter": 0.2, "give_up_after": "6s", "warn_after": "0s",
}  # fmt: skip
PATIENCE = 20.0
"""Seconds after which something that does not happen is a failure."""
_LOOK = 0.02


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `condition` (a function, or a coroutine function) gives as soon as it is true."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < end, f"not within {seconds} s"
        await asyncio.sleep(_LOOK)


def toml(table: Mapping[str, Any], prefix: str = "") -> str:
    """Nested dicts as a TOML document."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"[{prefix}]"] if prefix and plain else []
    lines += [f"{json.dumps(key)} = {_inline(value)}" for key, value in plain.items()]
    inner = [
        toml(value, f"{prefix}.{json.dumps(key)}" if prefix else json.dumps(key))
        for key, value in table.items()
        if isinstance(value, Mapping)
    ]
    return "\n".join([*lines, *inner]) + "\n"


def _inline(value: Any) -> str:
    """A value on one line; tables within a list too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(it)}" for key, it in value.items()) + "}"
    return "[" + ", ".join(map(_inline, value)) + "]" if isinstance(value, list | tuple) else json.dumps(value)


@dataclass(frozen=True)
class Ended:
    """A command that has run."""

    code: int
    out: str
    err: str


class Daemon:
    """`config` may be changed between two starts, `environ` too. `preamble` is Python that the process runs before it
    becomes the daemon: for surroundings that a test can't make from outside."""

    def __init__(self, folder: Path, config: dict[str, Any], *, preamble: str = "") -> None:
        self.folder, self.config, self.preamble = folder, config, preamble
        self.environ: dict[str, str] = {}
        self.file = folder / "mta.toml"
        self.log_file = folder / "log"
        self.control = Path(config["control"]["socket"])
        self._process: asyncio.subprocess.Process | None = None
        self._notified = _Notified(folder / "notify")

    async def __aenter__(self) -> Self:
        await self._notified.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(signal.SIGKILL)
        self._notified.close()

    # ------------------------------------------------ the process
    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def endpoint(self) -> tuple[str, int]:
        host, _, port = self.config["submission"]["listen"][0].rpartition(":")
        return host, int(port)

    async def start(self) -> None:
        """Until it says that it is ready."""
        await self.launch()
        exited = asyncio.create_task(self.exited())
        ready = asyncio.create_task(self._notified.wait("READY=1"))
        await asyncio.wait([exited, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        is_ready = ready.done()
        for task in (exited, ready):
            task.cancel()
        assert is_ready, f"the daemon did not start: {self.log_text[-500:]}"

    async def launch(self) -> None:
        """Without waiting for anything."""
        self.file.write_text(toml(self.config))
        self._notified.forget()
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                "setpriv", "--pdeathsig", "KILL", *mta(self.preamble), "serve", "--config", str(self.file),
                stdout=log, stderr=log,
                env={**os.environ, "NOTIFY_SOCKET": str(self._notified.path), **self.environ},
            )  # fmt: skip

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def exited(self) -> int:
        """Its exit code, once it has one."""
        assert self._process is not None
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code; 0 where it was not running."""
        if self._process is None or self._process.returncode is not None:
            return 0
        self.send(number)
        try:
            return await self.exited()
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self.exited()
            raise AssertionError(f"the daemon outlived {number.name}: {self.log_text[-500:]}") from None

    async def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        await self.stop(number)
        await self.start()

    async def reload(self) -> None:
        """SIGHUP with the configuration as it is now, until it was read."""
        self.file.write_text(toml(self.config))
        self._notified.forget()
        self.send(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE):
            await self._notified.wait("READY=1")

    async def notified(self, state: str) -> None:
        """Until the daemon has told the service manager `state`."""
        async with asyncio.timeout(PATIENCE):
            await self._notified.wait(state)

    # ------------------------------------------------ what a person does
    async def cli(self, *words: str) -> Ended:
        """The command in a process of its own."""
        return await run(*mta(), *words, "--config", str(self.file))

    async def ask(self, line: str) -> str:
        """The answer at the control socket."""
        reader, writer = await asyncio.open_unix_connection(str(self.control))
        writer.write(line.encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
        return answer.decode()

    async def json(self, line: str) -> dict[str, Any]:
        return json.loads(await self.ask(f"json {line}"))

    async def show(self, queue_id: str) -> dict[str, Any]:
        return await self.json(f"show {queue_id}")

    async def recipient(self, queue_id: str, address: str = "") -> dict[str, Any]:
        """What `show` says of a recipient; without `address` of the first."""
        recipients = (await self.show(queue_id))["recipients"]
        return next(it for it in recipients if address in ("", it["address"]))

    async def has(self, queue_id: str, status: str, address: str = "") -> dict[str, Any] | None:
        """The recipient if it is `status`."""
        found = await self.recipient(queue_id, address)
        return found if found["status"] == status else None

    async def counts(self) -> dict[str, int]:
        return (await self.json("status"))["recipients"]

    async def idle(self) -> bool:
        """Whether nothing waits or is on its way."""
        counts = await self.counts()
        return not any(counts[status] for status in ("pending", "sending", "in_doubt", "held"))

    # ------------------------------------------------ what a program does
    async def client(self) -> SmtpClient:
        return await SmtpClient.connect(self.endpoint)

    async def reply(
        self, *recipients: str, sender: str = "app@shop.test", subject: str = "hello", body: bytes = b"hello\r\n",
        headers: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """The reply to a submission's final dot."""
        head = [f"From: {sender or 'daemon@shop.test'}", f"To: {', '.join(recipients)}", f"Subject: {subject}", *headers]
        content = "\r\n".join(head).encode() + b"\r\n\r\n" + body
        async with await self.client() as client:
            return await client.submit(stuffed(content), sender, recipients)

    async def submit(self, *recipients: str, **how: Any) -> str:
        """A message (see `reply`) that must be accepted; its queue id."""
        reply = await self.reply(*recipients, **how)
        assert reply.startswith("250 2.0.0 Ok: queued as "), reply
        return reply.split()[-1]

    # ------------------------------------------------ the log
    @property
    def log_text(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    @property
    def log(self) -> list[dict[str, Any]]:
        """Its lines, where the configuration asks for JSON; what was said before that can be read is left out."""
        return [json.loads(line) for line in self.log_text.splitlines() if line.startswith("{")]

    def logged(self, event: str, **values: Any) -> list[dict[str, Any]]:
        """The lines of this event with these values."""
        return [line for line in self.log if line["event"] == event and values.items() <= line.items()]

    @property
    def warnings(self) -> list[str]:
        """But for those that only the machine is to blame for."""
        found = [str(line["what"]) for line in self.logged("trouble", level="warning")]
        return [what for what in found if not what.startswith("the event loop was held")]


class _Notified(asyncio.DatagramProtocol):
    """What the daemon tells the service manager (sd_notify(3))."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._states: list[str] = []
        self._arrived = asyncio.Event()

    async def listen(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.bind(str(self.path))
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=sock)

    def close(self) -> None:
        self._transport.close()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._states += data.decode().splitlines()
        self._arrived.set()

    def forget(self) -> None:
        self._states.clear()

    async def wait(self, state: str) -> None:
        while state not in self._states:
            self._arrived.clear()
            await self._arrived.wait()


def mta(preamble: str = "") -> list[str]:
    """The command of the venv that the tests run in."""
    if not preamble:
        return [str(Path(sys.executable).with_name("mta"))]
    return [sys.executable, "-c", f"{preamble}\nimport sys\nfrom mta.cli.main import main\nsys.exit(main())"]


async def run(*command: str) -> Ended:
    """A command that ends by itself."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())
