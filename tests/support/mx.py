"""A scripted SMTP server in the test's own event loop: any stage can be answered with anything, and what was seen is kept.

    async with ScriptedMx({"RCPT": ["451 4.7.1 later"], "FINAL": Close()}) as mx:
        ... deliver to mx.address, mx.port ...
        assert mx.messages[0].content == b"..."

A script maps a stage (`STAGES`) to a step, or to a list of steps that are used up one by one, by all connections together,
before the stage goes on as an ordinary server's would. A step is a reply (text gets its CRLF, bytes go as they are), one of
the classes below, a tuple of steps, or a function from the command line to a step.
"""

import asyncio
import base64
import socket
import ssl
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, Self, cast

import trustme

from tests.support.ports import free_port

STAGES = frozenset(
    ("BANNER", "EHLO", "HELO", "STARTTLS", "TLS", "AUTH", "MAIL", "RCPT", "DATA", "BODY", "BDAT", "FINAL", "RSET", "NOOP")
) | {"QUIT"}
"""TLS comes in place of the handshake, BODY when content, or a chunk of it, begins to arrive, before it is read on; BDAT
behind a chunk, FINAL behind the last one."""

EXTENSIONS = ("PIPELINING", "SIZE 10485760", "8BITMIME", "ENHANCEDSTATUSCODES")


@dataclass(frozen=True)
class Close:
    """FIN; with `abrupt`, in TLS, without close_notify."""

    abrupt: bool = False


@dataclass(frozen=True)
class Reset:
    """RST."""


@dataclass(frozen=True)
class Silence:
    """No reply, now or later; what is sent is read."""


@dataclass(frozen=True)
class Unread:
    """No reply, and nothing is read: the sender's buffers fill."""


@dataclass(frozen=True)
class Pass:
    """No reply, but the conversation goes on."""


class Hold:
    """Waits for `release`, then does `step`. `reached` is set when the server has come here."""

    def __init__(self, step: "Step") -> None:
        self.step = step
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    def release(self) -> None:
        self.released.set()


Step = str | bytes | Close | Reset | Silence | Unread | Pass | Hold | tuple[Any, ...] | Callable[[str], Any]
Script = Mapping[str, Step | list[Any]]


@dataclass
class Message:
    """What came up to a final dot, or in `chunks` of so many octets each. `raw` is as it was on the wire, without the end
    mark; `code` is that of the reply to it, None while there is none."""

    mail: str
    rcpts: list[str]
    raw: bytes
    tls: bool
    code: int | None = None
    chunks: tuple[int, ...] = ()

    @property
    def content(self) -> bytes:
        """With the dots unstuffed."""
        if self.chunks:
            return self.raw
        return (b"\r\n" + self.raw).replace(b"\r\n.", b"\r\n")[2:]

    @property
    def reverse_path(self) -> str:
        return _path(self.mail)

    @property
    def forward_paths(self) -> list[str]:
        return [_path(line) for line in self.rcpts]


class _Gone(Exception):
    """The connection is over."""


class Connection(asyncio.Protocol):
    """One client. `received` holds every octet (decrypted), `commands` each line outside content."""

    def __init__(self, mx: "ScriptedMx") -> None:
        self.mx = mx
        self.received = bytearray()
        self.commands: list[str] = []
        self.tls = mx.implicit
        self.user = ""
        self.closed = asyncio.Event()
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._eof = False
        self._mail = ""
        self._rcpts: list[str] = []
        self._chunks: list[bytes] = []
        self.task: asyncio.Task[None] | None = None

    @property
    def verbs(self) -> list[str]:
        return [line.split(" ")[0].split(":")[0].upper() for line in self.commands]

    # ------------------------------------------------ the transport's
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.task is None:  # else it is the TLS layer's
            self.transport = self.tcp = cast(asyncio.Transport, transport)
            self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._buffer += data
        self._stir()

    def eof_received(self) -> None:
        self._eof = True
        self._stir()

    def connection_lost(self, exc: Exception | None) -> None:
        self._eof = True
        self.closed.set()
        self._stir()

    def _stir(self) -> None:
        self._arrived.set()
        self.mx.stir()

    # ------------------------------------------------ reading
    async def _more(self) -> None:
        if self._eof:
            raise _Gone
        self._arrived.clear()
        await self._arrived.wait()

    async def _line(self) -> str:
        while b"\r\n" not in self._buffer:
            await self._more()
        line, _, rest = bytes(self._buffer).partition(b"\r\n")
        self._buffer[:] = rest
        self.commands.append(line.decode("latin-1"))
        self.mx.stir()
        return self.commands[-1]

    async def _content(self) -> bytes:
        """Up to CRLF.CRLF, where the CRLF of DATA counts for the first."""
        while not self._buffer:
            await self._more()
        await self._stage("BODY", "", Pass())
        while not (self._buffer.startswith(b".\r\n") or b"\r\n.\r\n" in self._buffer):
            await self._more()
        end = 0 if self._buffer.startswith(b".\r\n") else self._buffer.index(b"\r\n.\r\n") + 2
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + 3]
        return raw

    # ------------------------------------------------ the conversation
    async def _serve(self) -> None:
        try:
            await self._stage("BANNER", "", "220 mx.example.test ESMTP")
            while True:
                line = await self._line()
                await self._command(line.split(" ")[0].split(":")[0].upper(), line)
        except _Gone:
            pass
        finally:
            self.transport.close()

    async def _command(self, verb: str, line: str) -> None:
        own = {"EHLO": self._ehlo, "STARTTLS": self._starttls, "AUTH": self._auth, "DATA": self._data, "BDAT": self._bdat}
        plain = {"HELO": "250 mx.example.test", "NOOP": "250 2.0.0 ok", "RSET": "250 2.0.0 ok", "QUIT": "221 2.0.0 bye"}
        if verb in own:
            await own[verb](line)
        elif verb == "MAIL":
            self._rcpts, self._chunks = [], []
            known = self.user or self.mx.login is None
            default = "250 2.1.0 ok" if known else "530 5.7.0 Authentication required"
            self._mail = line if await self._stage("MAIL", line, default) in (250, 252) else ""
        elif verb == "RCPT":
            code = await self._stage("RCPT", line, "250 2.1.5 ok" if self._mail else "503 5.5.1 need MAIL command")
            self._rcpts += [line] if code in (250, 251, 252) else []
        else:
            await self._stage(verb, line, plain.get(verb, "500 5.5.2 what?"))
            if verb == "QUIT":
                raise _Gone

    async def _ehlo(self, line: str) -> None:
        lines = ["mx.example.test", *self.mx.extensions]
        if self.mx.tls is not None and not self.tls:
            lines.append("STARTTLS")
        if self.mx.login is not None and self.tls:
            lines.append(f"AUTH {self.mx.mechanisms}")
        text = "".join(f"250-{it}\r\n" for it in lines[:-1]) + f"250 {lines[-1]}\r\n"
        await self._stage("EHLO", line, text.encode())

    async def _starttls(self, line: str) -> None:
        code = await self._stage("STARTTLS", line, "220 2.0.0 go ahead" if self.mx.tls else "502 5.5.1 no TLS")
        if code != 220:
            return
        if (step := self.mx.next_step("TLS")) is not None:
            await self._do(step, line)
            return
        assert self.mx.tls is not None
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(self.transport, self, self.mx.tls, server_side=True)
        except OSError:
            raise _Gone from None
        assert transport is not None
        self.transport, self.tls = transport, True

    async def _auth(self, line: str) -> None:
        _, mechanism, *given = line.split(" ")
        if mechanism == "PLAIN":
            _, user, password = _decoded(given[0] if given else await self._asked("")).split("\0")
        else:
            user = _decoded(await self._asked("VXNlcm5hbWU6"))
            password = _decoded(await self._asked("UGFzc3dvcmQ6"))
        self.mx.logins.append((mechanism, user, password))
        fits = (user, password) == self.mx.login and self.tls
        if await self._stage("AUTH", line, "235 2.7.0 welcome" if fits else "535 5.7.8 wrong user or password") == 235:
            self.user = user

    async def _asked(self, prompt: str) -> str:
        self._write(f"334 {prompt}\r\n".encode())
        return await self._line()

    async def _data(self, line: str) -> None:
        default = "354 go ahead" if self._rcpts else "554 5.5.1 no valid recipients"
        if await self._stage("DATA", line, default) != 354:
            return
        message = Message(self._mail, self._rcpts, await self._content(), self.tls)
        self._mail, self._rcpts = "", []
        self.mx.messages.append(message)
        self.mx.stir()
        message.code = await self._stage("FINAL", "", "250 2.0.0 Ok: queued as MX123")

    async def _bdat(self, line: str) -> None:
        await self._stage("BODY", line, Pass())
        size = int(line.split(" ")[1])
        while len(self._buffer) < size:
            await self._more()
        self._chunks.append(bytes(self._buffer[:size]))
        del self._buffer[:size]
        if not line.upper().endswith(" LAST"):
            await self._stage("BDAT", line, f"250 2.0.0 {size} octets" if self._rcpts else "503 5.5.1 need RCPT")
            return
        sizes = tuple(map(len, self._chunks))
        message = Message(self._mail, self._rcpts, b"".join(self._chunks), self.tls, chunks=sizes)
        self._mail, self._rcpts, self._chunks = "", [], []
        self.mx.messages.append(message)
        self.mx.stir()
        message.code = await self._stage("FINAL", line, "250 2.0.0 Ok: queued as MX123")

    # ------------------------------------------------ steps
    async def _stage(self, stage: str, line: str, default: Step) -> int | None:
        """The code of what was replied, if it is one."""
        step = self.mx.next_step(stage)
        return await self._do(default if step is None else step, line)

    async def _do(self, step: Step, line: str) -> int | None:
        match step:
            case str():
                return self._write(step.encode("latin-1") + b"\r\n")
            case bytes():
                return self._write(step)
            case tuple():
                codes = [await self._do(it, line) for it in step]
                return next((code for code in codes if code is not None), None)
            case Hold():
                step.reached.set()
                await step.released.wait()
                return await self._do(step.step, line)
            case Close() | Reset():
                return self._leave(step)
            case Silence() | Unread():
                if isinstance(step, Unread):
                    self.tcp.pause_reading()
                while True:
                    await self._more()
            case Pass():
                return None
        return await self._do(step(line), line)

    def _write(self, data: bytes) -> int | None:
        if not self.transport.is_closing():
            self.transport.write(data)
        return int(data[:3]) if data[:3].isdigit() else None

    def _leave(self, step: Close | Reset) -> NoReturn:
        if isinstance(step, Reset):
            self.tcp.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.tcp.abort()
        elif step.abrupt:
            self.tcp.close()
        else:
            self.transport.close()
        raise _Gone


class ScriptedMx:
    """`extensions` are the lines of the EHLO reply behind the name; STARTTLS is offered where there is a `tls` context.
    `host` is an address of 127.0.0.0/8 or ::1; `port` 0 takes a free one. With a `login` (user and password) it is a
    relay: AUTH by `mechanisms` is offered inside TLS, and wanted before MAIL. `implicit`: TLS from the first octet."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        extensions: Sequence[str] = EXTENSIONS,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        login: tuple[str, str] | None = None,
        mechanisms: str = "PLAIN LOGIN",
        implicit: bool = False,
    ) -> None:
        self.login, self.mechanisms, self.implicit = login, mechanisms, implicit
        self.logins: list[tuple[str, str, str]] = []
        self.script = dict(script or {})
        assert set(self.script) <= STAGES, "a stage that does not exist"
        self.extensions, self.tls = tuple(extensions), tls
        self.address, self.port = host, port
        self.connections: list[Connection] = []
        self.messages: list[Message] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.port = self.port or free_port()
        self._server = await asyncio.get_running_loop().create_server(
            self._accept, self.address, self.port, ssl=self.tls if self.implicit else None
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self.connections:
            if connection.task is not None:  # else its handshake failed
                connection.tcp.abort()
                connection.task.cancel()
        await asyncio.gather(*(it.task for it in self.connections if it.task), return_exceptions=True)

    async def until(self, condition: Callable[[], object]) -> None:
        """Until `condition` holds; it is looked at whenever something arrives or a connection ends."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @property
    def commands(self) -> list[str]:
        """Of all connections, in the order of the connections."""
        return [line for connection in self.connections for line in connection.commands]

    def next_step(self, stage: str) -> Step | None:
        planned = self.script.get(stage)
        if isinstance(planned, list):
            return planned.pop(0) if planned else None
        return planned

    def stir(self) -> None:
        self._changed.set()

    def _accept(self) -> Connection:
        self.connections.append(Connection(self))
        return self.connections[-1]


@cache
def server_tls(*names: str) -> ssl.SSLContext:
    """A server's TLS with a certificate of an authority nobody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(*(names or ("mx.example.test",))).configure_cert(context)
    return context


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def _path(line: str) -> str:
    return line[line.index("<") + 1 : line.rindex(">")]
