"""The programs that submit, with their manners: each knows of a submission what it was told, and acts on that alone."""

import asyncio
import re
from collections.abc import Callable

from tests.sim.course import START
from tests.sim.ledger import Ledger, Submission, Told, address, body
from tests.sim.scenario import Email

LISTENER = ("127.0.0.1", 2525)
PATIENCE = 900.0
"""Seconds that a program waits for the daemon in all."""
REFUSALS = 40
"""How often a program that was refused for now comes again."""
_QUEUED = re.compile(r"(?:queued as|duplicate of) (\w+)")


class Refused(Exception):
    """The daemon said no before the dot; `code` 0: it was not there."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class BrokenOff(Exception):
    """The program went away in the middle of the content."""


async def run(email: Email, ledger: Ledger, trace: Callable[[str], None]) -> None:
    """Submits until it is known to be taken or refused for good, or nothing more is to be tried."""
    if email.manner == "twins" and email.key:  # the job runs twice; one key
        await asyncio.gather(_run(email, ledger, trace), _run(email, ledger, trace))
    else:
        await _run(email, ledger, trace)


async def _run(email: Email, ledger: Ledger, trace: Callable[[str], None]) -> None:
    submissions = ledger.submissions.setdefault(email.number, [])
    unknown = refusals = 0
    while unknown < email.tries and refusals < REFUSALS:
        one = Submission(email, len(submissions))
        submissions.append(one)
        await _submit(one)
        trace(f"email {email.number}.{one.n} {email.manner}: {one.told} {one.code} {one.queue_id}")
        if one.told is Told.YES or (one.told is Told.NO and one.code >= 500):
            return
        unknown += one.told is Told.UNKNOWN
        refusals += one.told is not Told.UNKNOWN
        await asyncio.sleep(min(20.0 * 2 ** (unknown + refusals), 7200.0))


async def _submit(one: Submission) -> None:
    dialogue = None
    try:
        async with asyncio.timeout(PATIENCE):
            dialogue = Dialogue(*await asyncio.open_connection(*LISTENER))
            await dialogue.submit(one)
    except Refused as refusal:
        one.told, one.code = Told.NO, refusal.code
    except BrokenOff:
        one.told = Told.BROKEN_OFF
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        if dialogue is None or not dialogue.dot_is_out:
            one.told = Told.BROKEN_OFF
    finally:
        if dialogue is not None:
            dialogue.writer.transport.abort()


class Dialogue:
    """A client's side of RFC 5321."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.dot_is_out = False

    async def submit(self, one: Submission) -> None:
        email = one.email
        await self.hear(2)
        await self.ask("EHLO program.example")
        if email.manner == "resets":
            decoy = email.recipients[0][1]
            for command in (f"MAIL FROM:<{email.sender}>", f"RCPT TO:<decoy.{email.number}@{decoy}>", "RSET"):
                await self.ask(command)
        one.at = asyncio.get_running_loop().time() - START
        await self._envelope(email)
        await self._content(one)
        await self._end(one)

    async def _envelope(self, email: Email) -> None:
        notify = f" NOTIFY={email.notify}" if email.notify else ""
        commands = [_mail(email), *(f"RCPT TO:<{address(email, *it)}>{notify}" for it in email.recipients)]
        wanted = [2 for _ in commands]
        if not email.chunks:
            commands, wanted = [*commands, "DATA"], [*wanted, 3]
        if email.manner != "pipelined":
            for command, digit in zip(commands, wanted, strict=True):
                await self.ask(command, digit)
            return
        self.writer.write("".join(f"{it}\r\n" for it in commands).encode())
        for digit in wanted:
            await self.hear(digit)

    async def _content(self, one: Submission) -> None:
        octets = content(one)
        if one.email.chunks:
            await self._chunks(one, octets)
            return
        stuffed = octets.replace(b"\r\n.", b"\r\n..")
        manner = one.email.manner
        if manner == "breaks off" and one.n == 0:
            self.writer.write(stuffed[: len(stuffed) // 2])
            raise BrokenOff
        if manner == "slow":
            step = max(len(stuffed) // 7, 1)
            for start in range(0, len(stuffed), step):
                self.writer.write(stuffed[start : start + step])
                await asyncio.sleep(3.7)
        else:
            self.writer.write(stuffed)
            await self.writer.drain()
        self.dot_is_out = True
        self.writer.write(b".\r\n")

    async def _chunks(self, one: Submission, octets: bytes) -> None:
        """RFC 3030: two, the second of which is the end."""
        cut = len(octets) // 3
        self.writer.write(b"BDAT %d\r\n%b" % (cut, octets[:cut]))
        await self.hear(2)
        self.writer.write(b"BDAT %d LAST\r\n%b" % (len(octets) - cut, octets[cut:-1]))
        if one.email.manner == "breaks off" and one.n == 0:
            raise BrokenOff
        await self.writer.drain()
        self.dot_is_out = True
        self.writer.write(octets[-1:])

    async def _end(self, one: Submission) -> None:
        if one.email.manner == "hangs up" and one.n == 0:
            raise ConnectionAbortedError
        if one.email.manner == "half-closes":
            self.writer.write_eof()
        code, text = await self.reply()
        one.code = code
        one.told = Told.YES if code == 250 else Told.NO
        if found := _QUEUED.search(text):
            one.queue_id = found[1]
        if one.email.manner not in ("leaves", "half-closes"):
            self.writer.write(b"QUIT\r\n")
            await self.reader.readline()

    async def ask(self, command: str, wanted: int = 2) -> None:
        self.writer.write(f"{command}\r\n".encode())
        await self.hear(wanted)

    async def hear(self, wanted: int) -> None:
        code, _ = await self.reply()
        if code // 100 != wanted:
            raise Refused(code)

    async def reply(self) -> tuple[int, str]:
        while True:
            line = await self.reader.readline()
            if not line.endswith(b"\r\n"):
                raise asyncio.IncompleteReadError(line, None)
            if line[3:4] != b"-":
                return int(line[:3]), line[4:].decode()


def _mail(email: Email) -> str:
    words = [f"MAIL FROM:<{email.sender}>"]
    if email.by in ("R", "N"):
        words.append(f"BY={email.deliver_by};{email.by}")
    if email.hold == "for":
        words.append(f"HOLDFOR={email.release}")
    if email.priority is not None:
        words.append(f"MT-PRIORITY={email.priority}")
    return " ".join(words)


def content(one: Submission) -> bytes:
    """The whole of what is submitted, without dot-stuffing."""
    email = one.email
    fields = [f"From: <{email.sender or 'nobody@example.org'}>", f"Subject: email {email.number}"]
    fields.append(f"X-Sim: {email.number}.{one.n}")
    if email.key:
        fields.append(f"Idempotency-Key: {email.key}")
    if email.in_doubt:
        fields.append(f"X-MTA-In-Doubt: {email.in_doubt}")
    if email.mail_class:
        fields.append({"urgent": "Priority: urgent", "bulk": "Precedence: bulk"}[email.mail_class])
    if email.by == "header":
        fields.append(f"Latest-Delivery-Time: {email.deliver_by}s")
    if email.hold == "header":
        fields.append(f"Deferred-Delivery: {email.release}s")
    return "\r\n".join([*fields, "", ""]).encode() + body(email.number, email.size)
