"""Remote MTAs: one strict server (RFC 5321), and the characters it can have.

Rules: what a server has taken is told to the ledger at the instant of its decision, whatever becomes of the reply. A
transaction that was not ended (RSET, EHLO, the dot) is still open: its recipients stay. A character says what is
answered and when; it decides nothing about the protocol.
"""

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

HANG = "hang"
CLOSE = "close"
RESET = "reset"


@dataclass(frozen=True, slots=True)
class Say:
    """A reply ("" for none) after `delay` seconds; `then` close, reset, or hang: nothing is heard any more."""

    text: str
    delay: float = 0.0
    then: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a server took: by whom, when, for whom. `visit` numbers the connections."""

    at: float
    domain: str
    host: str
    visit: int
    reverse_path: str
    forward_paths: tuple[str, ...]
    content: bytes
    mail_at: float = 0.0
    """When MAIL came; times are the loop's."""
    encrypted: bool = False
    free_at: float = 0.0
    """Since when its connection was there for it: another message was before it there, or none."""


@dataclass
class Host:
    """A server at an address. `character` and `tls_now` give those of the moment; `tls` is how STARTTLS goes: none, good, or
    a fault."""

    domain: str
    name: str
    address: str
    extensions: tuple[str, ...]
    tls_now: Callable[[], str]
    character: "Callable[[], Honest]"
    taken: Callable[[Taken], None]
    chance: random.Random
    loop: asyncio.AbstractEventLoop
    context: ssl.SSLContext | None = None
    refused: Callable[[Sequence[str]], None] = lambda whom: None
    """Is told for whom mail was refused for good: recipients, or the whole domain."""
    for_all: bool = False
    """It takes mail for every domain."""
    visits: int = 0
    open_now: int = 0
    turned_away: Callable[[], None] = lambda: None
    """Is told when somebody is turned away for having too many connections."""
    seen: dict[str, float] = field(default_factory=dict)
    """When a forward path was first heard of."""
    recent: deque[float] = field(default_factory=deque)
    """When mail was taken lately."""

    @property
    def tls(self) -> str:
        return self.tls_now()

    def session(self) -> "Visit":
        self.visits += 1
        return Visit(self, self.visits)


# ---------------------------------------------------------------- characters
class Honest:
    """Takes what is addressed to it."""

    name: ClassVar[str] = "honest"

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        """None: as the protocol has it."""
        return None

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        """The reply to the content, and whether it is taken."""
        return visit.queued(), True


class Greylisting(Honest):
    name = "greylisting"
    WAIT = 300.0

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        if phase != "RCPT":
            return None
        first = visit.host.seen.setdefault(argument, visit.now)
        return Say("450 4.7.1 Greylisted, come again later") if visit.now - first < self.WAIT else None


class Full(Honest):
    """Some mailboxes are full, for the time being or for good, or nobody's."""

    name = "full"

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        if phase != "RCPT":
            return None
        kind = sum(argument.encode()) % 6
        if kind == 0:
            return Say("452 4.2.2 Mailbox full")
        if kind == 1:
            return Say("550 5.1.1 No such user here")
        return Say("552 5.2.2 Quota exceeded for good") if kind == 2 else None


class RateLimiting(Honest):
    """So many messages a minute, then 451, then 421."""

    name = "rate limiting"
    LIMIT = 3

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        recent = visit.host.recent
        while recent and recent[0] < visit.now - 60:
            recent.popleft()
        if phase != "MAIL" or len(recent) < self.LIMIT:
            return None
        if visit.host.chance.random() < 0.5:
            return Say("451 4.7.1 Too many messages, slow down")
        return Say("421 4.7.0 Too many messages, closing connection", then=CLOSE)


class ConnectionLimiting(Honest):
    """Two connections at a time, since a message takes it seconds."""

    name = "connection limiting"
    LIMIT = 2

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        return Say(visit.queued().text, delay=1 + 4 * visit.host.chance.random()), True

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        host = visit.host
        if phase != "BANNER" or host.open_now <= self.LIMIT:
            return None
        host.turned_away()
        return Say("421 4.7.0 Too many connections from your address", then=CLOSE)


class Fickle(Honest):
    """421 at any time."""

    name = "421-happy"

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        if phase == "QUIT" or visit.host.chance.random() > 0.12:
            return None
        return Say("421 4.3.2 Closing connection", then=CLOSE)

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        if visit.host.chance.random() < 0.2:
            return Say("421 4.3.2 Closing connection", then=CLOSE), False
        return visit.queued(), True


class Slow(Honest):
    """Each reply takes its time, now and then more than anybody waits."""

    name = "slow"

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        return None

    @staticmethod
    def delay(visit: "Visit") -> float:
        chance = visit.host.chance.random()
        return 700.0 if chance > 0.99 else 40 * chance


class Crawling(Honest):
    """Takes its time over each message, for as long as it is so."""

    name = "crawling"

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        return Say(visit.queued().text, delay=20 + 40 * visit.host.chance.random()), True


class Silent(Honest):
    """Says nothing after the dot, having taken the message or not."""

    name = "silent after the dot"

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        if visit.host.chance.random() < 0.5:
            return visit.queued(), True
        return Say("", then=HANG), visit.host.chance.random() < 0.5


class Dropping(Honest):
    """Takes the message and drops the reply."""

    name = "drops the reply"

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        if visit.host.chance.random() < 0.6:
            return visit.queued(), True
        return Say("", delay=0.5, then=visit.host.chance.choice([CLOSE, RESET])), True


class Late(Honest):
    """Decides at once, and says so when nobody waits any more; what comes next is answered as it stands."""

    name = "late"
    REFUSALS = (Say("451 4.3.0 Try again later"), Say("550 5.7.1 Message rejected, after some thought"))

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        takes = visit.host.chance.random() < 0.5
        say = visit.queued() if takes else visit.host.chance.choice(self.REFUSALS)
        return Say(say.text, delay=visit.host.chance.choice([0.1, 590.0, 601.0, 620.0, 780.0])), takes


class Blocklisting(Honest):
    """Does not like us."""

    name = "blocklisting"

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        kind = sum(visit.host.name.encode()) % 3
        if kind == 0 and phase == "BANNER":
            return Say("554 5.7.1 You are on a blocklist")
        if kind == 1 and phase == "MAIL":
            return Say("450 4.7.1 Your address is on a blocklist")
        return Say("550 5.7.1 Blocked by policy") if kind == 2 and phase == "RCPT" else None


class Refusing(Honest):
    """Refuses content, for now or for good, some of it before it is complete."""

    name = "refuses content"

    def dot(self, visit: "Visit") -> tuple[Say, bool]:
        chance = visit.host.chance.random()
        if chance < 0.3:
            return Say("451 4.3.0 Error: queue file write error"), False
        return (Say("550 5.7.1 Message rejected as spam"), False) if chance < 0.5 else (visit.queued(), True)

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        if phase == "BODY" and visit.host.chance.random() < 0.5:
            return Say("552 5.3.4 Message too big", then=HANG)
        return None


class Odd(Honest):
    """Unusual replies, some of them legal."""

    name = "odd"
    SAYINGS = (
        "250", "250-one\r\n250 two", "251 2.1.5 will forward", "25O ok", "250-mixed\r\n550 codes", "999 what",
        "250 2.1.0 " + "x" * 400,
        "450 4.2.0 not now", "220 hello again",
    )  # fmt: skip

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        if phase not in ("MAIL", "RCPT", "RSET", "EHLO") or visit.host.chance.random() < 0.8:
            return None
        return Say(visit.host.chance.choice(self.SAYINGS))


class Trusting(Honest):
    """354 to DATA whether a recipient was accepted or not; knows half its recipients."""

    name = "trusting"

    def reply(self, phase: str, visit: "Visit", argument: str) -> Say | None:
        if phase == "RCPT" and sum(argument.encode()) % 2:
            return Say("450 4.2.1 Not now")
        return Say("354 Go on") if phase == "DATA" else None


CHARACTERS = {
    it.name: it()
    for it in (
        Honest, Greylisting, Full, RateLimiting, ConnectionLimiting, Fickle, Slow, Crawling, Silent, Dropping, Late,
        Blocklisting, Refusing, Odd, Trusting,
    )
}  # fmt: skip
DOWN = {"refused": "refused", "unreachable": "unreachable", "dark": "silent"}
"""How a host is that can't be reached, and what a connection to it comes to."""
TLS_FAULTS = ("454", "garbage", "close", "hang", "injected", "dies")
_EXTENSION_OF = {
    "SIZE": "SIZE", "BODY": "8BITMIME", "BY": "DELIVERBY", "MT-PRIORITY": "MT-PRIORITY", "RET": "DSN", "ENVID": "DSN",
    "NOTIFY": "DSN", "ORCPT": "DSN",
}  # fmt: skip
"""The keyword that has to be offered for each parameter."""


# ---------------------------------------------------------------- the server
class Visit(asyncio.Protocol):
    """One connection to a host."""

    def __init__(self, host: Host, number: int) -> None:
        self.host, self.number = host, number
        self.reverse_path: str | None = None
        self.forward_paths: list[str] = []
        self.content = bytearray()
        self._read = bytearray()
        self._mail_at = self._free_at = 0.0
        self._receives = self._greeted = self._encrypted = self._deaf = self._busy = self._complained = False
        self._transport: asyncio.Transport | None = None

    @property
    def now(self) -> float:
        return self.host.loop.time()

    def queued(self) -> Say:
        return Say(f"250 2.0.0 Ok: queued as R{self.host.chance.getrandbits(32):08X}")

    # ------------------------------------------------ asyncio's protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        first = self._transport is None
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if first:
            self._free_at = self.now
            self.host.open_now += 1
            self._answer("BANNER", "", Say(f"220 {self.host.name} ESMTP"))

    def data_received(self, data: bytes) -> None:
        if not self._deaf:
            self._read += data
            self._go_on()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self.host.open_now -= 1

    # ------------------------------------------------ one command at a time
    def _go_on(self) -> None:
        while not (self._busy or self._deaf):
            if self._receives:
                if not self._content():
                    return
                continue
            line, found, rest = bytes(self._read).partition(b"\r\n")
            if not found:
                return
            self._read = bytearray(rest)
            self._command(line.decode("latin-1"))

    def _command(self, line: str) -> None:
        verb, _, argument = line.partition(" ")
        verb = verb.upper()
        path = argument.partition("<")[2].partition(">")[0]
        match verb:
            case "EHLO":
                self._clear()
                self._greeted = True
                offers = [*self.host.extensions, *(["STARTTLS"] if self.host.tls != "none" and not self._encrypted else [])]
                lines = [self.host.name, *offers]
                self._answer(verb, "", Say("\r\n".join([*(f"250-{it}" for it in lines[:-1]), f"250 {lines[-1]}"])))
            case "HELO":
                self._clear()
                self._greeted = True
                self._answer(verb, "", Say(f"250 {self.host.name}"))
            case "MAIL" | "RCPT" if self._knows_not(argument.partition(">")[2]):
                self._answer("OTHER", "", Say("555 5.5.4 Unsupported option"))
            case "MAIL":
                self._mail(path)
            case "RCPT":
                self._rcpt(path)
            case "DATA":
                self._data()
            case "RSET":
                self._clear()
                self._answer(verb, "", Say("250 2.0.0 Ok"))
            case "QUIT":
                self._answer(verb, "", Say("221 2.0.0 Bye", then=CLOSE))
            case "STARTTLS" if self.host.tls != "none" and not self._encrypted:
                self._starttls()
            case _:
                self._answer("OTHER", "", Say("502 5.5.2 Command not recognized"))

    def _knows_not(self, parameters: str) -> bool:
        """Whether one of the parameters is of no extension that is offered (RFC 5321 section 4.1.1.11)."""
        offered = {it.partition(" ")[0] for it in self.host.extensions}
        return any(_EXTENSION_OF.get(it.partition("=")[0]) not in offered for it in parameters.split())

    def _clear(self) -> None:
        self.reverse_path, self.forward_paths = None, []

    def _mail(self, path: str) -> None:
        if not self._greeted or self.reverse_path is not None:
            self._answer("OTHER", "", Say("503 5.5.1 Bad sequence: nested MAIL"))
        elif self._answer("MAIL", path, Say("250 2.1.0 Ok")):
            self.reverse_path, self._mail_at = path, self.now

    def _rcpt(self, path: str) -> None:
        if self.reverse_path is None:
            self._answer("OTHER", "", Say("503 5.5.1 Need MAIL"))
        elif not (self.host.for_all or path.endswith("@" + self.host.domain)):
            self._answer("OTHER", "", Say("550 5.7.1 Relaying denied"))
        elif self._answer("RCPT", path, Say("250 2.1.5 Ok")):
            self.forward_paths.append(path)

    def _data(self) -> None:
        if self.reverse_path is None:
            self._answer("OTHER", "", Say("503 5.5.1 Need MAIL"))
            return
        usual = Say("354 Go on") if self.forward_paths else Say("554 5.5.1 No valid recipients")
        if self._answer("DATA", "", usual, go="3"):
            self._receives = True
            self.content.clear()
            self._complained = False

    def _content(self) -> bool:
        """Whether it is complete."""
        self.content += self._read
        self._read.clear()
        lone = self.content.startswith(b".\r\n")
        end = 0 if lone else self.content.find(b"\r\n.\r\n") + 2
        if not lone and end == 1:
            if len(self.content) > 1000 and not self._complained:
                self._complained = True
                if (say := self.host.character().reply("BODY", self, "")) is not None:
                    self._refuse(say, self.forward_paths)
                    self._say(say)
            return False
        self._read += self.content[end + 3 :]
        octets = bytes(self.content[:end])
        self._receives = False
        self._taken(b"\r\n".join(it[1:] if it.startswith(b".") else it for it in octets.split(b"\r\n")))
        return True

    def _taken(self, content: bytes) -> None:
        host = self.host
        character = host.character()
        say, takes = character.dot(self)
        if self.forward_paths:
            self._refuse(say, self.forward_paths)
        else:
            say, takes = Say("554 5.5.1 No valid recipients"), False
        if takes:
            paths, path = tuple(self.forward_paths), self.reverse_path or ""
            times = {"mail_at": self._mail_at, "free_at": self._free_at}
            taken = (self.now, host.domain, host.name, self.number, path, paths, content)
            host.taken(Taken(*taken, encrypted=self._encrypted, **times))
            host.recent.append(self.now)
        self._clear()
        self._free_at = self.now
        self._say(self._in_its_time(character, say))

    # ------------------------------------------------ replies
    def _refuse(self, say: Say, whom: Sequence[str]) -> None:
        if say.text.startswith("5"):
            self.host.refused(whom)

    def _answer(self, phase: str, argument: str, usual: Say, go: str = "2") -> bool:
        """Says what the character has to say in this phase; whether it is a yes."""
        character = self.host.character()
        own = character.reply(phase, self, argument)
        if own is not None:
            self._refuse(own, {"RCPT": [argument], "DATA": self.forward_paths}.get(phase, [self.host.domain]))
        say = own or usual
        self._say(self._in_its_time(character, say))
        return say.text.startswith(go) and not (say.text[:3] in ("250", "220") and "\r\n550" in say.text)

    def _in_its_time(self, character: Honest, say: Say) -> Say:
        return Say(say.text, Slow.delay(self), say.then) if isinstance(character, Slow) else say

    def _say(self, say: Say) -> None:
        if say.delay:
            self._busy = True
            self.host.loop.call_later(say.delay, self._said, say)
        else:
            self._said(say)

    def _said(self, say: Say) -> None:
        was_busy, self._busy = self._busy, False
        if self._deaf or self._transport is None:
            return
        if say.text:
            self._transport.write(f"{say.text}\r\n".encode("latin-1"))
        if say.then:
            self._deaf = True
            if say.then == CLOSE:
                self._transport.close()
            elif say.then == RESET:
                self._transport.abort()
        elif was_busy:
            self._go_on()

    # ------------------------------------------------ STARTTLS (RFC 3207)
    def _starttls(self) -> None:
        assert self._transport is not None
        kind = self.host.tls
        if kind == "454":
            self._say(Say("454 4.7.0 TLS not available"))
        elif kind == "close":
            self._say(Say("220 2.0.0 Go on", then=CLOSE))
        elif kind == "hang":
            self._say(Say("220 2.0.0 Go on", then=HANG))
        elif kind == "garbage":
            self._say(Say("220 2.0.0 Go on"))
            self._busy = True  # a ClientHello is random: now and then it would be a line
            self.host.loop.call_later(1.0, self._say, Say("no TLS at all", then=HANG))
        elif kind == "injected":
            self._say(Say("220 2.0.0 Go on\r\n250 2.0.0 injected", then=HANG))
        else:
            self._say(Say("220 2.0.0 Go on"))
            self._busy = True
            self.host.loop.create_task(self._encrypt())

    async def _encrypt(self) -> None:
        assert self._transport is not None
        assert self.host.context is not None
        loop = self.host.loop
        try:
            encrypted = await loop.start_tls(self._transport, self, self.host.context, server_side=True)
        except OSError:
            self._deaf = True
            return
        assert encrypted is not None
        self._transport = encrypted
        self._encrypted, self._greeted, self._busy = True, False, False
        self._clear()
        self._read.clear()
        if self.host.tls == "dies":
            loop.call_later(0.05, encrypted.abort)
        self._go_on()
