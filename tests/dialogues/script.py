"""One dialogue of the YAML files (shared.yaml and session.yaml tell the format), spoken over a connection of its own.

Every reply of every dialogue is held to what all replies promise: form, length and ASCII (LIN-18, LIN-19, SES-30: see
`SmtpClient.reply`), enhanced codes that fit (SES-02, EXT-02), and an answer within ten seconds (SES-26).
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Self

from tests.support.daemon import until
from tests.support.mx import Message
from tests.support.smtp_client import SmtpClient

QUIET = 0.05
"""Seconds; the scripts ask for more, which loopback does not need."""
MACROS = {"{{from}}": "sender.test", "{{rcpt}}": "dest.test"}
_ENHANCED = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3} ")
_QUEUED = re.compile(r"queued as ([0-9A-HJKMNP-TV-Z]{16})")

Deliveries = Callable[[str], Message | None]
"""What a remote server has got under a queue id."""


def expand(text: str, words: Mapping[str, str]) -> bytes:
    """Macros replaced; each character is one octet."""
    for macro, word in {**MACROS, **words}.items():
        text = text.replace(macro, word)
    text = re.sub(r"\{\{rep:(.*?)\*(\d+)\}\}", lambda match: match[1] * int(match[2]), text, flags=re.DOTALL)
    return text.encode("latin-1")


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


class Client(SmtpClient):
    """At a door of the daemon: "plain", "tls" (from the first octet) or "unix"."""

    @classmethod
    async def at(cls, door: str, address: Any) -> Self:
        if door == "unix":
            client = cls(*await asyncio.open_unix_connection(address, limit=2**20))
        else:
            context = unverified() if door == "tls" else None
            client = cls(*await asyncio.open_connection(*address, limit=2**20, ssl=context))
        client.greeting = await client.reply()
        return client

    async def start_tls(self) -> None:
        await self.writer.start_tls(unverified())


def unverified() -> ssl.SSLContext:
    """A client's TLS that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def check_codes(reply: str, sent: bytes) -> None:
    """SES-02, SES-30, EXT-02."""
    plain = reply.startswith("3") or (reply.startswith(("220", "250")) and sent[:4].upper() in (b"", b"EHLO", b"HELO"))
    for line in reply.split("\n"):
        enhanced = _ENHANCED.match(line[4:])
        assert (enhanced is None) if plain else (enhanced is not None and line[4] == line[0]), (sent[:80], reply)
    assert not reply.startswith("521"), reply


class Script:
    """The stricter expressions hold, too."""

    def __init__(self, client: Client, deliveries: Deliveries, each: str = "") -> None:
        self.client, self.deliveries = client, deliveries
        self.words = {"{{each}}": each}
        self.last = ""
        self.queue_id = ""

    async def run(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if not re.search(step.get("only_if", ""), self.last):
                continue
            for turn in range(1, step.get("for", 1) + 1):
                self.words["{{i}}"] = str(turn)
                await self._turn(step)

    async def _turn(self, step: dict[str, Any]) -> None:
        sent = [expand(text, self.words) for text in as_list(step.get("burst", step.get("send", "")))]
        await self.client.send(b"".join(sent))
        if step.get("half_close"):
            self.client.half_close()
        for at, expected in enumerate(as_list(step.get("expect"))):
            await self._hear(step, sent[at] if at < len(sent) else b"?", expected)
        if "prefer" in step and step.get("expect"):
            assert re.search(step["prefer"], self.last), (step, self.last)
        await self._look(step)

    async def _hear(self, step: dict[str, Any], sent: bytes, expected: str) -> None:
        self.last = await self.client.reply()
        expected = expected.replace("{{each}}", self.words["{{each}}"])
        assert re.search(expected, self.last), (step, self.last)
        check_codes(self.last, sent)
        if queued := _QUEUED.search(self.last):
            self.queue_id = queued[1]

    async def _look(self, step: dict[str, Any]) -> None:
        if "quiet" in step:
            assert await self.client.quiet(QUIET) == b"", step
        if step.get("starttls"):
            await self.client.start_tls()
        if step.get("expect_close"):
            assert await self.client.at_end(), step
        checks: dict[str, Callable[[Message, Any], None]] = {
            "delivered": self._has, "lacks": self._lacks, "body": self._body, "recipients": _recipients, "mail": _mail,
        }  # fmt: skip
        for name in checks.keys() & step.keys():
            message = await until(lambda: self.deliveries(self.queue_id))
            checks[name](message, step[name])

    def _has(self, message: Message, patterns: Any) -> None:
        for pattern in as_list(patterns):
            assert re.search(pattern, _text(message)), (pattern, message.raw)

    def _lacks(self, message: Message, patterns: Any) -> None:
        for pattern in as_list(patterns):
            assert not re.search(pattern, _text(message)), (pattern, message.raw)

    def _body(self, message: Message, text: str) -> None:
        assert message.content.partition(b"\r\n\r\n")[2] == expand(text, self.words)


def _recipients(message: Message, paths: list[str]) -> None:
    assert sorted(message.forward_paths) == sorted(paths)


def _mail(message: Message, line: str) -> None:
    assert re.search(line, message.mail), message.mail


def _text(message: Message) -> str:
    """As it came, with LF alone between the lines so that ^ and $ work."""
    return message.content.decode("latin-1").replace("\r\n", "\n")
