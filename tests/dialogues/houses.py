"""The daemons that the dialogues speak with: one for each configuration, started when the first dialogue asks for it.

A dialogue that needs what a daemon does not offer says so loudly: it is skipped by name, and tests/run with CI=true takes no
skipped test.
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest
import trustme

from tests.dialogues.script import Client
from tests.e2e.world import World, no_surprise
from tests.support.daemon import mta, toml
from tests.support.mx import EXTENSIONS, Message, ScriptedMx
from tests.support.offered import keywords
from tests.support.ports import free_port

USER, PASSWORD = "shop", "correct horse"
"""Base64 of NUL shop NUL password is AHNob3AAY29ycmVjdCBob3JzZQ==."""

_WITH_TLS = {"tls": {"certificate": "FOLDER/cert.pem", "key": "FOLDER/key.pem"}, "listen": ["PLAIN", "tls://HOST:465+"]}
KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "plain": {},
    "reject": {"submission": {"bare_newlines": "reject"}},
    "small": {"submission": {"max_message_size": "64KiB", "max_recipients": 100}},
    "impatient": {"submission": {"timeout": "1s"}},
    "keyed": {"submission": {"require_key": True}},
    "public": {"delivery": {"allow_private_addresses": False}},
    "barred": {"submission": {"allow": ["192.0.2.0/24"]}},
    "tls": {"submission": {**_WITH_TLS, "users_file": "FOLDER/users"}},
    "tls_required": {"submission": {"tls": {**_WITH_TLS["tls"], "required": True}, "listen": _WITH_TLS["listen"]}},
    "users": {"submission": {**_WITH_TLS, "users_file": "FOLDER/users", "allow": ["192.0.2.0/24"]}},
    "unix": {"submission": {"listen": ["PLAIN", "unix:FOLDER/submit.sock"]}},
}
"""What a configuration has besides that of the end-to-end tests. PLAIN, HOST, FOLDER and 465+ are filled in."""


class House:
    """A running daemon; `dest` is the remote server that gets what is for dest.test."""

    def __init__(self, world: World, dest: ScriptedMx, doors: dict[str, Any]) -> None:
        self.world, self.dest, self.doors = world, dest, doors
        self.offered: dict[str, set[str]] = {}

    def delivery(self, queue_id: str) -> Message | None:
        everything = (*self.dest.messages, *self.world.home.messages)
        return next((it for it in everything if queue_id.encode() in it.content and it.code == 250), None)

    def accepted(self) -> int:
        return len([line for line in self.world.daemon.logged("accepted") if line.get("kind", "mail") == "mail"])

    async def offers(self, door: str) -> set[str]:
        """The keywords at a door, and STARTTLS' keywords with it."""
        if door not in self.offered:
            async with await Client.at(door, self.doors[door]) as client:
                found = keywords(await client.command("EHLO probe.test"))
                if "STARTTLS" in found:
                    await client.command("STARTTLS")
                    await client.start_tls()
                    found |= keywords(await client.command("EHLO probe.test"))
            self.offered[door] = found
        return self.offered[door]


class Houses:
    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._houses: dict[str, House | str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def get(self, kind: str) -> House:
        if kind not in self._houses:
            self._houses[kind] = await self._open(kind)
        house = self._houses[kind]
        if isinstance(house, str):
            pytest.skip(f"the configuration {kind!r} is not known: {house}")
        return house

    async def _open(self, kind: str) -> House | str:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mta-")))
        world = await self._stack.enter_async_context(World(folder))
        world.configure("alerts", interval="1h")
        world.configure("reports", interval="1h")
        doors = _configure(world, KINDS[kind])
        refusal = await _prepare(world)
        if refusal:
            return refusal
        world.home.extensions = (*EXTENSIONS, "SMTPUTF8")
        dest = await world.mx("dest.test", extensions=world.home.extensions)
        world.route("sender.test", world.home.address)
        self._stack.enter_context(no_surprise(world.daemon))
        await world.daemon.start()
        self._stack.push_async_callback(world.daemon.stop)
        return House(world, dest, doors)


def _configure(world: World, changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The doors."""
    host, plain = world.daemon.endpoint
    words = {"PLAIN": f"{host}:{plain}", "HOST": host, "FOLDER": str(world.folder), "465+": str(free_port())}
    for table, values in changes.items():
        world.configure(table, **{key: _filled(value, words) for key, value in values.items()})
    doors: dict[str, Any] = {"plain": (host, plain)}
    for entry in world.daemon.config["submission"]["listen"]:
        if entry.startswith("tls://"):
            doors["tls"] = host, int(words["465+"])
        elif entry.startswith("unix:"):
            doors["unix"] = entry.removeprefix("unix:")
    return doors


def _filled(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(it, words) for it in value]
    if isinstance(value, dict):
        return {key: _filled(it, words) for key, it in value.items()}
    for word, by in words.items():
        value = value.replace(word, by) if isinstance(value, str) else value
    return value


async def _prepare(world: World) -> str:
    """Certificate and user; "" or why this daemon can't have them."""
    certificate = trustme.CA().issue_cert("mail.out.test")
    certificate.cert_chain_pems[0].write_to_path(world.folder / "cert.pem")
    certificate.private_key_pem.write_to_path(world.folder / "key.pem")
    (world.folder / "key.pem").chmod(0o600)
    world.daemon.file.write_text(toml(world.daemon.config))
    submission = world.daemon.config["submission"]
    if "users_file" in submission and (error := await _add_user(world)):
        return error
    checked = await world.daemon.cli("check")
    return checked.err if checked.code == 78 else ""


async def _add_user(world: World) -> str:
    (world.folder / "users").touch(0o600)
    process = await asyncio.create_subprocess_exec(
        *mta(), "user", "add", USER, "--config", str(world.daemon.file),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate(f"{PASSWORD}\n".encode())
    return "" if process.returncode == 0 else out.decode()

