"""The unix socket: a line in, an answer out, for many clients at once.

Rules: a client costs bounded memory and bounded time, and what it does ends with its own connection.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

from mta.control.commands import parse_command, usage
from mta.control.desk import Desk
from mta.control.errors import LINE_LIMIT, CommandError, Exit
from mta.control.protocol import encode_answer, encode_error, parse_request, wants_json
from mta.control.render import shown_as
from mta.model.events import Trouble
from mta.ports.system import Observer
from mta.unix_socket import UnixSocket, listening

MODE = 0o660
CLIENTS_LIMIT = 256
"""Clients at once; one more is told to come again."""
TURN_AWAY_TIMEOUT = 1.0
"""Seconds for one client too many to send its line."""
REQUEST_TIMEOUT = 10.0
"""Seconds for a client to send its line."""
ANSWER_TIMEOUT = 60.0
"""Seconds for a client to take its answer."""


class ControlServer:
    """Answers at `path` until it is closed."""

    def __init__(self, path: Path, desk: Desk, observer: Observer) -> None:
        self._path, self._desk, self._observer = path, desk, observer
        self._server: asyncio.Server | None = None
        self._file: UnixSocket
        self._clients: dict[asyncio.Task[None], None] = {}
        """In the order in which they came."""

    async def start(self) -> None:
        """Raises `SocketTaken`."""
        self._file = listening(self._path, "control socket", MODE, CLIENTS_LIMIT)
        self._server = await asyncio.start_unix_server(
            self._accept, sock=self._file.sock, limit=LINE_LIMIT, backlog=CLIENTS_LIMIT
        )

    async def close(self) -> None:
        """Hears no more; what is being answered is cut off."""
        if self._server is None:
            return
        self._server.close()
        clients = list(self._clients)
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        self._file.remove()

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
