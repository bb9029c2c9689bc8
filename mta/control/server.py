"""The unix socket: a line in, an answer out, for many clients at once.

Rules: the socket has mode 0660 from the moment it can be connected to, whatever the umask; one that a dead daemon left
is replaced, one that somebody listens at never. A client costs bounded memory and bounded time, and what it does ends
with its own connection.
"""

import asyncio
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from mta.control.commands import parse_command, usage
from mta.control.desk import Desk
from mta.control.errors import LINE_LIMIT, CommandError, Exit
from mta.control.protocol import encode_answer, encode_error, parse_request, wants_json
from mta.control.render import shown_as
from mta.model.events import Trouble
from mta.ports import Observer

MODE = 0o660
FOLDER_MODE = 0o750
CLIENTS_LIMIT = 256
"""Clients at once; one more is told to come again."""
TURN_AWAY_TIMEOUT = 1.0
"""Seconds for one client too many to send its line."""
REQUEST_TIMEOUT = 10.0
"""Seconds for a client to send its line."""
ANSWER_TIMEOUT = 60.0
"""Seconds for a client to take its answer."""


class SocketTaken(Exception):
    """The socket can't be made; the text says at which path and why."""


class ControlServer:
    """Answers at `path` until it is closed."""

    def __init__(self, path: Path, desk: Desk, observer: Observer) -> None:
        self._path, self._desk, self._observer = path, desk, observer
        self._server: asyncio.Server | None = None
        self._inode = 0
        self._clients: dict[asyncio.Task[None], None] = {}
        """In the order in which they came."""

    async def start(self) -> None:
        """Raises `SocketTaken`."""
        try:
            sock = _listening(self._path)
        except OSError as error:
            raise SocketTaken(f"control socket {self._path}: {error.strerror or error}") from None
        self._inode = self._path.lstat().st_ino
        self._server = await asyncio.start_unix_server(self._accept, sock=sock, limit=LINE_LIMIT, backlog=CLIENTS_LIMIT)

    async def close(self) -> None:
        """Hears no more; what is being answered is cut off."""
        if self._server is None:
            return
        self._server.close()
        clients = list(self._clients)
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        _remove(self._path, self._inode)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._client(reader, writer))
        self._clients[task] = None
        task.add_done_callback(lambda done: self._clients.pop(done, None))

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError):
            pass  # the client is gone, or too slow: its own loss
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await (self._answer(reader) if len(self._clients) <= CLIENTS_LIMIT else _turned_away(reader)))
        async with asyncio.timeout(ANSWER_TIMEOUT):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        line = b""
        try:
            line = await _line(reader)
            request = parse_request(line)
            command = parse_command(request.words)
            return encode_answer(shown_as(command), await self._desk.do(command), request.as_json)
        except CommandError as error:
            return encode_error(error, wants_json(line))
        except Exception as error:  # a bug of ours: this client's command fails, nothing else does
            self._observer(Trouble("error", "a control command failed", f"{type(error).__name__}: {error}"))
            return encode_error(CommandError(Exit.INTERNAL, "internal error: see the log"), wants_json(line))


async def _turned_away(reader: asyncio.StreamReader) -> bytes:
    """For one client too many. Its line is read first: a socket closed with unread octets may lose the answer, and the
    line tells in which form it is to be."""
    line = b""
    with suppress(TimeoutError, ValueError):
        async with asyncio.timeout(TURN_AWAY_TIMEOUT):
            line = await reader.readline()
    return encode_error(CommandError(Exit.TRY_LATER, "too many clients at once"), wants_json(line))


async def _line(reader: asyncio.StreamReader) -> bytes:
    """One line, or what there is of it at end of file. Raises `CommandError` (64)."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            return await reader.readline()
    except TimeoutError:
        raise usage(f"no command within {REQUEST_TIMEOUT:g} s") from None
    except ValueError:
        raise usage(f"the line is longer than {LINE_LIMIT} octets") from None


# ---------------------------------------------------------------- the socket's file
def _listening(path: Path) -> socket.socket:
    """A listening socket at `path`. It is made under another name and moved there when all is right with it, so that
    nobody meets it half made, and no umask of the whole process is touched. Raises `OSError`, `SocketTaken`."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    _check_free(path)
    draft = path.with_name(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(draft))
        draft.chmod(MODE)
        sock.setblocking(False)
        sock.listen(CLIENTS_LIMIT)
        draft.replace(path)
    except OSError:
        sock.close()
        draft.unlink(missing_ok=True)
        raise
    return sock


def _check_free(path: Path) -> None:
    """Raises `SocketTaken` where somebody listens, or where something else stands."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketTaken(f"control socket {path}: something that is no socket is there; it is left as it is")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise SocketTaken(f"control socket {path}: another daemon listens there")


def _remove(path: Path, inode: int) -> None:
    """Takes away what `start` made, unless another daemon has put its own there since."""
    try:
        if path.lstat().st_ino == inode:
            path.unlink()
    except OSError:
        pass  # gone already, or not ours to remove: the next start replaces it
