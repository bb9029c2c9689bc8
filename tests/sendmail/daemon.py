"""A daemon that answers what a test has written down, and remembers what it was asked."""

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from mta.model.door import Door, Scheme

PATIENCE = 10.0
OFFERS = ("SIZE 1000000", "8BITMIME")
HANG_UP = ""


class Scripted:
    """One session. `replies` by verb, or by the whole command; "" hangs up instead. "content" is the reply to the dot."""

    def __init__(
        self, replies: Mapping[str, str] | None = None, *, path: Path | None = None, offers: tuple[str, ...] = OFFERS
    ) -> None:
        self.offers = offers
        self._replies = replies or {}
        self._listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        self._listener.bind(str(path) if path else ("127.0.0.1", 0))
        self._listener.listen()
        self._listener.settimeout(PATIENCE)
        name = self._listener.getsockname()
        self.door = Door(scheme=Scheme.UNIX, path=path) if path else Door(*name)
        self.commands: list[str] = []
        self.content = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE)
        self._listener.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE)
        with connection, connection.makefile("rwb") as stream:
            reply = self._replies.get("greeting", "220 mail.out.test ESMTP")
            while reply != HANG_UP:
                stream.write(reply.encode() + b"\r\n")
                stream.flush()
                if reply.startswith("354"):
                    self.content = b"".join(iter(stream.readline, b".\r\n"))
                    reply = self._replies.get("content", "250 2.0.0 Ok")
                    continue
                line = stream.readline().decode().removesuffix("\r\n")
                if not line:
                    return
                self.commands.append(line)
                reply = self._answer(line)

    def _answer(self, line: str) -> str:
        verb = line.partition(" ")[0]
        usual = {"EHLO": "\r\n".join(["250-mail.out.test", *(f"250-{offer}" for offer in self.offers), "250 HELP"]),
                 "DATA": "354 go on"}  # fmt: skip
        return self._replies.get(line, self._replies.get(verb, usual.get(verb, "250 2.0.0 Ok")))
