"""Random sessions against the listener: valid, broken, oversized, binary and pipelined commands, and content of all kinds.

Invariants:
- one reply for each command, in order, of a class that the state allows;
- the session never desynchronises: HELP, whose 214 nothing else gives, is answered as itself after anything;
- the same octets give the same replies and the same mail wherever they are cut;
- no reply names trouble of our own, and no exception is left;
- memory is bounded, whatever is sent;
- what got 250 is in the spool with exactly that content, and nothing else is.

FUZZ_SECONDS (default 10) bounds the run, FUZZ_SEED (default 0) is the first seed. A failure prints its seed, and the
steps as hypothesis has made them small.
"""

import os
import re
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.fuzz.wire import Wire

SECONDS = float(os.environ.get("FUZZ_SECONDS", "10"))
FIRST_SEED = int(os.environ.get("FUZZ_SEED", "0"))
QUICK = settings(
    max_examples=15, stateful_step_count=20, deadline=None, database=None, suppress_health_check=[*HealthCheck],
    phases=[Phase.generate, Phase.shrink],
)  # fmt: skip
LIMITS: dict[str, Any] = {"max_message_size": 70_000, "max_recipients": 5, "timeout": 1e9}
BUFFERS = 200_000
"""Octets that a session may hold: twice its reading buffer, a chunk, and what waits to be sent."""
MESSAGE = "From: <a@b.test>\r\nSubject: fuzz\r\n\r\n"
SENDERS = [
    "<a@b.test>", "<>", "<a@b.test> SIZE=10", "<a@@b>", "a@b.test", "<a@b.test> SIZE=999999", "<a@b.test> NOPE",
    "<\xe9@b.test>",
]  # fmt: skip
GOOD_SENDERS = SENDERS[:3]
RECIPIENTS = [
    "<x@d.test>", "<y@d.test>", "<z@d.test>", "<Postmaster>", "<>", "<x y@d.test>", "<x@d>", "<x@d.test> NOPE",
    "<\xff@d.test>",
]  # fmt: skip
GOOD_RECIPIENTS = RECIPIENTS[:4]
HARMLESS = ["NOOP", "NOOP x", "VRFY x", "EXPN x", "noop"]
BROKEN = [
    "", " ", "FOO", "NOOP\nNOOP", "\0", "RSET x", "DATA x", "QUIT x", "EHLO", "MAIL", "RCPT", "HELP \xff", "BDAT", "BDAT x",
    "AUTH PLAIN x",
]  # fmt: skip

octets = st.binary(max_size=300)
broken_lines = st.sampled_from(BROKEN).map(lambda it: it.encode("latin-1"))
lines = st.text(st.sampled_from("ab .\t\xe9"), max_size=60)


def crlf_lines(parts: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in parts).encode("latin-1")


def stuffed(content: bytes) -> bytes:
    return re.sub(rb"(?m)^\.", b"..", content)


class Session(RuleBasedStateMachine):
    """`sender` and `recipients` are what has been accepted of the open transaction, `chunks` what BDAT has brought, None
    once one was refused."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = Wire(**LIMITS)
        self.sent = bytearray()
        self.heard = ["".join(self.wire.replies())]
        self.expected: list[bytes] = []
        self.greeted = self.extended = self.open = False
        self.recipients = 0
        self.chunks: bytearray | None = bytearray()
        self.chunked = False
        self.junk = 0

    def teardown(self) -> None:
        try:
            self._cut_elsewhere()
        finally:
            self.wire.__exit__()

    # ------------------------------------------------ speaking
    def say(self, data: bytes | str, *allowed: str) -> str:
        """Sends one command (or one piece of content), which gets one reply that begins as one of `allowed`."""
        data = data if isinstance(data, bytes) else data.encode("latin-1")
        self.sent += data
        replies = self.wire.send(data)
        self.heard += replies
        assert len(replies) == 1, (data[:100], replies)
        assert replies[0].startswith(allowed), (data[:100], replies, allowed)
        self._no_trouble(replies[0])
        return replies[0]

    def _no_trouble(self, reply: str) -> None:
        assert not re.match(r"4(?!21)", reply) or reply.startswith("452 4.5.3"), reply
        assert not re.search(r"(?i)error|exception|traceback|/", reply.replace("Syntax error", "")), reply
        self.junk += reply.startswith("500")
        if reply.startswith("421"):
            assert self.junk >= 5, "ended without a reason"

    def forget(self) -> None:
        self.open, self.recipients, self.chunks, self.chunked = False, 0, bytearray(), False

    @property
    def alive(self) -> bool:
        return not self.wire.ended

    @initialize(verb=st.sampled_from(["EHLO", "EHLO", "EHLO", "HELO", ""]), envelope=st.booleans())
    def begin(self, verb: str, envelope: bool) -> None:
        """Most sessions get somewhere."""
        if verb:
            self.greet(verb, "c.test")
        if verb and envelope:
            self.envelope(1)

    @precondition(lambda self: self.alive and self.greeted)
    @rule(count=st.integers(1, 7))
    def envelope(self, count: int) -> None:
        """MAIL and RCPTs that are right, but for what stands against them by then."""
        if self.greeted and self.alive:
            self.mail("<a@b.test>")
            for number in range(count):
                self.rcpt(GOOD_RECIPIENTS[number % 4])

    # ------------------------------------------------ commands
    @precondition(lambda self: self.alive)
    @rule(verb=st.sampled_from(["EHLO", "HELO", "ehlo"]), name=st.sampled_from(["c.test", "[127.0.0.1]", "x" * 300]))
    def greet(self, verb: str, name: str) -> None:
        self.say(f"{verb} {name}\r\n", "250")
        self.forget()
        self.greeted, self.extended = True, verb.upper() == "EHLO"

    @precondition(lambda self: self.alive)
    @rule(sender=st.sampled_from(SENDERS))
    def mail(self, sender: str) -> None:
        if not self.greeted or self.open:
            self.say(f"MAIL FROM:{sender}\r\n", "503 5.5.1", "501", "55")
            return
        reply = self.say(f"MAIL FROM:{sender}\r\n", "250 2.1.0", "501 5", "55")
        self.open = reply.startswith("250")
        assert self.open == (sender in GOOD_SENDERS) or ("SIZE" in sender and not self.extended)

    @precondition(lambda self: self.alive)
    @rule(recipient=st.sampled_from(RECIPIENTS))
    def rcpt(self, recipient: str) -> None:
        if not self.open or self.chunked:
            self.say(f"RCPT TO:{recipient}\r\n", "503 5.5.1", "501", "55")
            return
        reply = self.say(f"RCPT TO:{recipient}\r\n", "250 2.1.5", "501 5", "55", "452 4.5.3")
        self.recipients += reply.startswith("250")
        assert reply.startswith("250") == (recipient in GOOD_RECIPIENTS) or reply.startswith("452")

    @precondition(lambda self: self.alive)
    @rule(command=st.sampled_from(HARMLESS))
    def harmless(self, command: str) -> None:
        self.say(f"{command}\r\n", "250 2.0.0", "252 2", "502 5.5.1")

    @precondition(lambda self: self.alive)
    @rule(really=st.integers(0, 3))
    def rset(self, really: int) -> None:
        if really:
            return  # a session that only resets gets nowhere
        self.say("RSET\r\n", "250 2.0.0")
        self.forget()

    @precondition(lambda self: self.alive)
    @rule(line=st.one_of(broken_lines, octets, st.just(b"NOOP " + b"x" * 9000)))
    def broken(self, line: bytes) -> None:
        line = line.replace(b"\r\n", b"").removesuffix(b"\r")
        word = line.split(b" ")[0].strip().upper()
        if word in (b"STARTTLS", b"QUIT", b"BDAT", b"DATA", b"RSET", b"NOOP", b"HELP") and line.isascii() and len(line) < 9:
            return  # what may be right is said elsewhere
        if line.startswith(b"\x16\x03"):
            return  # TLS begins, and the session ends
        self.say(line + b"\r\n", "50", "53", "555", "421", "250 2.0.0", "252", "214")

    # ------------------------------------------------ content
    @precondition(lambda self: self.alive)
    @rule(parts=st.lists(lines, max_size=12), repeat=st.sampled_from([1, 1, 1, 3, 300]))
    def data(self, parts: list[str], repeat: int) -> None:
        """Text of CRLF lines, stuffed as RFC 5321 says: it arrives as it was meant."""
        self.envelope(2)
        if not self.go_ahead():
            return
        body = crlf_lines(parts) * repeat
        self.finish(stuffed(body), body)

    @precondition(lambda self: self.alive)
    @rule(body=octets)
    def binary_data(self, body: bytes) -> None:
        """Any octets without the end mark: one reply behind it, and what is taken is legal."""
        self.envelope(1)
        if not self.go_ahead():
            return
        if b"\r\n.\r\n" in b"\r\n" + body + b"\r\n":
            body = body.replace(b".", b",")
        self.finish(body + b"\r\n", None)

    def go_ahead(self) -> bool:
        """DATA; whether the content is to follow."""
        may = self.open and self.recipients > 0 and not self.chunked
        return self.say("DATA\r\n", "354 " if may else "503 5.5.1").startswith("354")

    def finish(self, wire: bytes, meant: bytes | None) -> None:
        head = MESSAGE.encode()
        before = len(self.wire.accepted)
        self.quietly(head + wire)
        reply = self.say(b".\r\n", "250 2.0.0 Ok: queued as ", "554 5.6.0", "552 5.3.4")
        self.forget()
        if meant is not None:
            fits = len(head + meant) < LIMITS["max_message_size"] - 2000
            assert reply.startswith("250") or not fits, reply
        self.stored(reply, before, meant)

    def quietly(self, data: bytes) -> None:
        self.sent += data
        assert self.wire.send(data) == [], data[-50:]

    def stored(self, reply: str, before: int, meant: bytes | None) -> None:
        new = self.wire.accepted[before:]
        assert len(new) == reply.startswith("250")
        for message, content in new:
            assert message.queue_id in reply
            assert message.size == len(content)
            body = content.partition(b"\r\n\r\n")[2]
            assert meant is None or body == meant
            assert not re.search(rb"\0|(?<!\r)\n|\r(?!\n)", content)
            assert max(map(len, content.split(b"\r\n"))) <= 998

    # ------------------------------------------------ chunks
    def offers_chunks(self) -> bool:
        return self.alive and "CHUNKING" in self._offered()

    def _offered(self) -> str:
        return next((it for it in self.heard if it.startswith("250-")), "")

    @precondition(lambda self: self.offers_chunks())
    @rule(parts=st.lists(lines, max_size=12), last=st.booleans(), cut=st.integers(0, 3))
    def bdat(self, parts: list[str], last: bool, cut: int) -> None:
        """A chunk is counted, not looked at; the first one brings the header section."""
        data = (b"" if self.chunks else MESSAGE.encode()) + crlf_lines(parts)
        data = data[: len(data) - cut] if not last else data
        before = len(self.wire.accepted)
        command = f"BDAT {len(data)}{' LAST' if last else ''}\r\n".encode()
        if not self.open or not self.recipients or self.chunks is None:
            self.say(command + data, "503 5.5.1")
            if self.open:
                self.chunks, self.chunked = None, True
            return
        reply = self.say(command + data, "250 2", "554 5.6.0", "552 5.3.4")
        self.chunked = True
        if not reply.startswith("250"):
            self.chunks = None
        else:
            self.chunks += data
        if last:
            content = bytes(self.chunks or b"")
            whole = not re.search(rb"(?<!\r)\n|\r(?!\n)", content)
            if not content.endswith(b"\r\n"):  # the last line gets its end: it may have to be relayed by DATA
                content += b"\r\n"
            self.stored(reply, before, content.partition(b"\r\n\r\n")[2] if whole else None)
            if reply.startswith("552"):  # the size that was declared is refused before it is read: as no last chunk
                self.say("RSET\r\n", "250 2.0.0")
            self.forget()

    # ------------------------------------------------ many at once
    @precondition(lambda self: self.alive and not self.open)
    @rule(count=st.integers(2, 40), extra=octets)
    def pipelined(self, count: int, extra: bytes) -> None:
        """Replies in order to commands in one piece, with something odd among them."""
        odd = b"NOOP " + extra.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b"")
        burst = b"VRFY a\r\nEXPN a\r\n" * count + odd + b"\r\nHELP\r\n"
        self.sent += burst
        replies = self.wire.send(burst)
        self.heard += replies
        codes = [reply[:3] for reply in replies]
        assert codes[:-2] == ["252", "502"] * count and codes[-2] in ("250", "501", "500") and codes[-1] == "214"
        self.junk += codes[-2] == "500"

    # ------------------------------------------------ always
    @invariant()
    def in_step(self) -> None:
        if self.alive:
            self.say("HELP\r\n", "214 2.0.0")

    @invariant()
    def bounded(self) -> None:
        assert self.wire.buffered < BUFFERS

    @invariant()
    def sound(self) -> None:
        self.wire.check()

    def _cut_elsewhere(self) -> None:
        """The whole session again, in other pieces: the clock and the chances are the same."""
        for size in (len(self.sent) or 1, 1 + len(self.sent) % 7 + len(self.sent) // 2000, 4096):
            with Wire(**LIMITS) as again:
                for start in range(0, len(self.sent), size):
                    again.feed(bytes(self.sent[start : start + size]))
                again.settle()
                heard = again.replies()
                assert heard == self.heard, size
                assert [content for _, content in again.accepted] == [content for _, content in self.wire.accepted]
                again.check()


def seeds() -> Any:
    """One after the other until the time is up."""
    end, at = time.monotonic() + SECONDS / 2, FIRST_SEED
    while at == FIRST_SEED or time.monotonic() < end:
        yield at
        at += 1


@pytest.mark.timeout(SECONDS * 4 + 120)
def test_sessions() -> None:
    """EXT-06, SES-23, LIN-01, LIN-02, LIN-11, DAT-10, DAT-13."""
    for number in seeds():
        try:
            run_state_machine_as_test(seed(number)(type("Session", (Session,), {})), settings=QUICK)
        except BaseException:
            print(f"again with: FUZZ_SEED={number}")
            raise


TOKENS = [
    b"\r\n", b"\n", b"\r", b".", b"\r\n.\r\n", b"EHLO c\r\n", b"HELO c\r\n", b"MAIL FROM:<a@b.test>\r\n",
    b"RCPT TO:<x@d.test>\r\n", b"DATA\r\n", b"BDAT 5\r\n", b"BDAT 5 LAST\r\n", b"BDAT 0 LAST\r\n",
    b"BDAT 99999999999999999999\r\n", b"From: <a@b.test>\r\n\r\n", b"RSET\r\n", b"NOOP\r\n", b"QUIT\r\n", b"\0", b"\xff",
    b"x" * 1000, b"x" * 5000, b"AUTH PLAIN\r\n", b"STARTTLS\r\n", b"*\r\n",
    b"EHLO c\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<x@d.test>\r\n",
]  # fmt: skip
streams = st.lists(st.one_of(st.sampled_from(TOKENS), octets), max_size=30).map(b"".join)


@pytest.mark.timeout(SECONDS * 4 + 120)
def test_any_octets() -> None:
    """EXT-06: whatever comes, it is answered the same wherever it is cut, and nothing breaks."""

    @settings(QUICK, max_examples=40)
    @given(streams, st.lists(st.integers(1, 200), max_size=40))
    def same_answers(stream: bytes, pieces: list[int]) -> None:
        with Wire(**LIMITS) as whole, Wire(**LIMITS) as cut:
            whole.feed(stream)
            for size in [*pieces, len(stream)]:
                cut.feed(stream[:size])
                stream = stream[size:]
            for wire in (whole, cut):
                wire.settle()
                wire.check()
                assert wire.buffered < BUFFERS
            assert cut.replies() == whole.replies()
            assert [content for _, content in cut.accepted] == [content for _, content in whole.accepted]

    for number in seeds():
        try:
            seed(number)(same_answers)()
        except BaseException:
            print(f"again with: FUZZ_SEED={number}")
            raise


def test_an_endless_line_and_endless_content_are_bounded() -> None:
    """LIN-11, DAT-06: the session holds no more of them than its buffers."""
    with Wire(**LIMITS) as wire:
        assert wire.replies() == ["220 mail.out.test ESMTP mta"]
        for _ in range(200):
            assert wire.send(b"x" * 16_384) == []
            assert wire.buffered < BUFFERS
        assert [reply[:9] for reply in wire.send(b"\r\n")] == ["500 5.5.2"]
        wire.send(b"EHLO c\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<x@d.test>\r\nDATA\r\n")
        for _ in range(200):
            assert wire.send(b"X-Header: x\r\n" * 1000) == []
            assert wire.buffered < BUFFERS
        assert [reply[:9] for reply in wire.send(b"\r\n.\r\n")] == ["552 5.3.4"]
        assert not wire.accepted
