"""Remote servers without a network, for virtual time: `ports.smtp.Connector` and `ports.smtp.Session` over a function."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mta.model.outcome import Observation, Phase, Seen
from mta.model.reply import finding, parse_reply
from mta.model.tls import OPPORTUNISTIC, TlsDemand
from mta.ports.smtp import EnvelopeReplies

Decide = Callable[[Phase, str, str], "str | Seen | None"]
"""(phase, address of the host, forward path or "") -> a reply such as "451 4.7.1 later", LOST, TIMEOUT, or None for yes."""

YES = {Phase.BANNER: "220 ok", Phase.DATA: "354 go", Phase.FINAL: "250 2.0.0 Ok: queued as R1"}


@dataclass
class Remotes:
    """All hosts. `taken` are (time, address, forward paths, content) of what got a 2yz to the dot; `seen` what was read
    up to the dot, whatever came of it."""

    decide: Decide = lambda phase, address, path: None
    latency: float = 0.01
    timeout: float = 30.0
    taken: list[tuple[float, str, tuple[str, ...], bytes]] = field(default_factory=list)
    seen: list[tuple[float, str, tuple[str, ...], bytes]] = field(default_factory=list)
    connects: list[tuple[float, str]] = field(default_factory=list)

    async def connect(
        self, host: str, address: str, port: int, *, source: str = "", demand: TlsDemand | None = None
    ) -> tuple["RemoteSession | None", Observation]:
        self.connects.append((asyncio.get_running_loop().time(), address))
        up = await self.observe(Phase.CONNECT, address)
        if up.seen is not Seen.REPLY:
            return None, up
        greeting = await self.observe(Phase.BANNER, address)
        sound = greeting.seen is Seen.REPLY
        return (RemoteSession(self, host, address) if sound else None), greeting

    async def observe(self, phase: Phase, address: str, path: str = "") -> Observation:
        decided = self.decide(phase, address, path)
        await asyncio.sleep(self.timeout if decided is Seen.TIMEOUT else self.latency)
        if isinstance(decided, Seen):
            return Observation(phase, decided, finding("4.4.2", f"{decided} at {phase}"))
        text = decided or YES.get(phase, "250 2.0.0 ok")
        if phase is Phase.CONNECT:
            return Observation(phase, Seen.REPLY)
        return Observation(phase, Seen.REPLY, parse_reply(int(text[:3]), [text[4:]]))


@dataclass(eq=False)
class RemoteSession:
    remotes: Remotes
    host: str
    address: str
    tls: str = ""
    verified: str = ""
    demand: TlsDemand = OPPORTUNISTIC
    usable: bool = True
    transactions: int = 0
    opened_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    extensions: Mapping[str, str] = field(default_factory=lambda: {"PIPELINING": "", "8BITMIME": ""})
    paths: tuple[str, ...] = ()

    async def _observe(self, phase: Phase, path: str = "") -> Observation:
        seen = await self.remotes.observe(phase, self.address, path)
        self.usable = self.usable and seen.seen is Seen.REPLY
        return seen

    async def hello(self, verb: str) -> Observation:
        return await self._observe(Phase(verb.lower()))

    async def starttls(self, demand: TlsDemand = OPPORTUNISTIC) -> Observation:
        raise AssertionError("not offered")

    async def authenticate(self, user: str, password: str) -> Observation:
        raise AssertionError("not offered")

    async def envelope(
        self,
        reverse_path: str,
        parameters: Sequence[str],
        forward_paths: Sequence[str],
        *,
        pipelined: bool,
        rcpt_parameters: Sequence[Sequence[str]] = (),
        chunked: bool = False,
    ) -> EnvelopeReplies:
        self.transactions += 1
        mail = await self._observe(Phase.MAIL)
        if mail.reply is None or mail.reply.code != 250:
            return EnvelopeReplies(mail, (), None)
        rcpts = tuple([await self._observe(Phase.RCPT, path) for path in forward_paths])
        accepted = [it for it, seen in zip(forward_paths, rcpts, strict=True) if seen.reply and seen.reply.code == 250]
        self.paths = tuple(accepted)
        return EnvelopeReplies(mail, rcpts, await self._observe(Phase.DATA) if accepted else None)

    async def content(self, chunks: AsyncIterator[bytes], gate: Callable[[], Awaitable[None]]) -> Observation:
        body = b"".join([chunk async for chunk in chunks])
        await gate()
        entry = (asyncio.get_running_loop().time(), self.address, self.paths, body)
        self.remotes.seen.append(entry)
        final = await self._observe(Phase.FINAL)
        if final.reply is not None and final.reply.code == 250:
            self.remotes.taken.append(entry)
        return final

    async def chunks(
        self, content: AsyncIterator[bytes], gate: Callable[[], Awaitable[None]], *, pipelined: bool
    ) -> Observation:
        raise AssertionError("not offered")

    async def no_content(self) -> None: ...
    async def reset(self) -> Observation:
        return await self._observe(Phase.RSET)

    async def quit(self) -> None:
        self.usable = False

    def abort(self) -> None:
        self.usable = False
