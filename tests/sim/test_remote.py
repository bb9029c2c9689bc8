"""The remote servers: strict ones, each with its character, heard by a client that knows only the wire."""

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.sim.conftest import Lab
from tests.sim.remote import CHARACTERS, TLS_FAULTS, Greylisting, Host, RateLimiting, Taken

PLACE = ("198.51.100.1", 25)
PATIENCE = 1000.0
SILENCE = "(silence)"
END = "(end)"
RESET = "(reset)"


class Server:
    """A host at PLACE, and what it took."""

    def __init__(
        self, lab: Lab, character: str = "honest", *, tls: str = "none", name: str = "mx.here.example"
    ) -> None:
        self.lab, self.mails = lab, list[Taken]()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Path(__file__).with_name("mx.pem"))
        self.character = CHARACTERS[character]
        self.host = Host(
            domain="here.example", name=name, address=PLACE[0], extensions=("PIPELINING", "8BITMIME"), tls_now=lambda: tls,
            character=lambda: self.character, taken=self.mails.append, chance=random.Random(1), loop=lab.loop,
            context=context,
        )  # fmt: skip
        lab.network.listen(self.host.session, *PLACE)

    def talk(self, dialogue: "Callable[[Client], Coroutine[Any, Any, Any]]") -> Any:
        """What the dialogue came to."""

        async def whole() -> Any:
            client = Client(*await asyncio.open_connection(*PLACE))
            try:
                return await dialogue(client)
            finally:
                client.writer.transport.abort()

        return self.lab.run(whole())

    def replies(self, *lines: str) -> list[str]:
        """To the connection and to each line."""
        return self.talk(lambda client: client.all(lines))


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def all(self, lines: tuple[str, ...]) -> list[str]:
        return [await self.hear(), *[await self.say(line) for line in lines]]

    async def say(self, line: str) -> str:
        self.writer.write(line.encode() + b"\r\n")
        return await self.hear()

    async def hear(self) -> str:
        """The code of a reply, or what came instead."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    line = await self.reader.readline()
                    if not line.endswith(b"\r\n"):
                        return END
                    if line[3:4] != b"-":
                        return line[:3].decode()
        except ConnectionError:
            return RESET
        except TimeoutError:
            return SILENCE

    async def mail(self) -> list[str]:
        """A transaction until it is refused: the replies, from the greeting on."""
        found = [await self.hear()]
        for line in (HELLO, FROM, TO, "DATA", LETTER):
            if found[-1][:1] not in ("2", "3"):
                break
            found.append(await self.say(line))
        return found


ADA, BOB = "ada@here.example", "bob@here.example"
HELLO, FROM, TO, TO_BOB = "EHLO here", "MAIL FROM:<a@b.example>", f"RCPT TO:<{ADA}>", f"RCPT TO:<{BOB}>"
LETTER = "Subject: hello\r\n\r\nhello\r\n."


# ---------------------------------------------------------------- the protocol
@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ((HELLO, FROM, TO, "DATA", LETTER, "QUIT"), "220 250 250 250 354 250 221"),
        (("HELO here", FROM, TO, "DATA", LETTER), "220 250 250 250 354 250"),
        (("helo here", "mail from:<a@b.example>", f"rcpt to:<{ADA}>"), "220 250 250 250"),
        ((FROM,), "220 503"),
        ((HELLO, TO), "220 250 503"),
        ((HELLO, "DATA"), "220 250 503"),
        ((HELLO, FROM, FROM), "220 250 250 503"),
        ((HELLO, FROM, "DATA", TO, "DATA"), "220 250 250 554 250 354"),
        ((HELLO, FROM, "RSET", TO), "220 250 250 250 503"),
        ((HELLO, FROM, TO, "RSET", FROM, TO_BOB, "DATA", LETTER), "220 250 250 250 250 250 250 354 250"),
        ((HELLO, FROM, HELLO, FROM), "220 250 250 250 250"),
        ((HELLO, FROM, TO, "DATA", LETTER, TO), "220 250 250 250 354 250 503"),
        ((HELLO, FROM, "RCPT TO:<ada@elsewhere.example>"), "220 250 250 550"),
        ((HELLO, "STARTTLS", "VRFY ada"), "220 250 502 502"),
    ],
)
def test_the_sequence_of_commands_is_held_to(lab: Lab, lines: tuple[str, ...], codes: str) -> None:
    server = Server(lab)
    assert server.replies(*lines) == codes.split()


def test_what_a_reset_transaction_had_is_gone_and_what_was_not_reset_stays(lab: Lab) -> None:
    server = Server(lab)
    server.replies(HELLO, FROM, TO, "RSET", FROM, TO_BOB, "DATA", LETTER, FROM, TO, "DATA", LETTER)
    server.replies(HELLO, FROM, TO, "NOOP", TO_BOB, "DATA", LETTER)
    assert [it.forward_paths for it in server.mails] == [(BOB,), (ADA,), (ADA, BOB)]
    assert [it.visit for it in server.mails] == [1, 1, 2]
    assert server.mails[0].reverse_path == "a@b.example"


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ("one\r\n..\r\n..two\r\n...\r\n.", b"one\r\n.\r\n.two\r\n..\r\n"),
        (".", b""),
        ("..\r\n.", b".\r\n"),
        ("a. \r\n .\r\n.", b"a. \r\n .\r\n"),
        ("\r\n\r\n.", b"\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 1000])
def test_content_ends_at_the_dot_and_is_unstuffed(lab: Lab, sent: str, taken: bytes, pieces: int) -> None:
    server = Server(lab)
    octets = f"{sent}\r\nQUIT\r\n".encode()

    async def dialogue(client: Client) -> list[str]:
        await client.all((HELLO, FROM, TO, "DATA"))
        for start in range(0, len(octets), len(octets) // pieces or 1):
            client.writer.write(octets[start : start + (len(octets) // pieces or 1)])
            await asyncio.sleep(0.5)
        return [await client.hear(), await client.hear(), await client.hear()]

    assert server.talk(dialogue) == ["250", "221", END]
    assert [it.content for it in server.mails] == [taken]


def test_commands_may_come_all_at_once(lab: Lab) -> None:
    server = Server(lab)

    async def dialogue(client: Client) -> list[str]:
        client.writer.write("\r\n".join([HELLO, FROM, TO, TO_BOB, "DATA", LETTER, "QUIT", ""]).encode())
        return [await client.hear() for _ in range(8)]

    assert server.talk(dialogue) == ["220", "250", "250", "250", "250", "354", "250", "221"]
    assert server.mails[0].forward_paths == (ADA, BOB)


# ---------------------------------------------------------------- characters
def outcomes(lab: Lab, character: str, *, times: int = 40, name: str = "mx.here.example") -> "Counter[tuple[str, bool]]":
    """How often a transaction ended with a reply, and was taken."""
    server = Server(lab, character, name=name)
    found: Counter[tuple[str, bool]] = Counter()
    for _ in range(times):
        before = len(server.mails)
        reply = server.talk(lambda client: client.mail())[-1]
        found[reply, len(server.mails) > before] += 1
    return found


def test_an_honest_one_takes_everything(lab: Lab) -> None:
    assert outcomes(lab, "honest") == {("250", True): 40}


def test_a_greylisting_one_wants_to_be_asked_again(lab: Lab) -> None:
    server = Server(lab, "greylisting")
    assert server.replies(HELLO, FROM, TO)[-1] == "450"
    lab.run(asyncio.sleep(Greylisting.WAIT / 2))
    assert server.replies(HELLO, FROM, TO, TO_BOB)[-2:] == ["450", "450"]
    lab.run(asyncio.sleep(Greylisting.WAIT / 2))
    assert server.replies(HELLO, FROM, TO, TO_BOB)[-2:] == ["250", "450"]


def test_a_full_one_refuses_some_mailboxes_for_now_and_some_for_good(lab: Lab) -> None:
    server = Server(lab, "full")
    paths = [f"m{number}@here.example" for number in range(10, 16)]
    first, again = (server.replies(HELLO, FROM, *(f"RCPT TO:<{it}>" for it in paths))[3:] for _ in range(2))
    assert first == again
    assert Counter(first) == {"250": 3, "452": 1, "550": 1, "552": 1}


def test_a_rate_limiting_one_takes_so_many_a_minute(lab: Lab) -> None:
    server = Server(lab, "rate limiting")
    found = [server.talk(lambda client: client.mail())[-1] for _ in range(20)]
    assert found[: RateLimiting.LIMIT] == ["250"] * RateLimiting.LIMIT
    assert set(found[RateLimiting.LIMIT :]) == {"451", "421"}
    lab.run(asyncio.sleep(61))
    assert server.talk(lambda client: client.mail())[-1] == "250"


def test_one_that_says_421_does_so_at_any_time_and_closes(lab: Lab) -> None:
    server = Server(lab, "421-happy")
    lengths = set()
    for _ in range(100):
        found = server.talk(lambda client: client.mail())
        if found[-1] == "421":
            lengths.add(len(found))
    assert lengths == {1, 2, 3, 4, 5, 6}
    assert 0 < len(server.mails) < 100

    async def dialogue(client: Client) -> list[str]:
        return [*await client.all(("NOOP",) * 60)]

    found = server.talk(dialogue)
    assert found[found.index("421") + 1] in (END, RESET)


def test_a_slow_one_takes_its_time_and_now_and_then_too_long(lab: Lab) -> None:
    server = Server(lab, "slow")
    waits = []

    async def dialogue(client: Client) -> None:
        for line in (HELLO, *["RSET"] * 300):
            before = lab.loop.time()
            assert await client.say(line) in ("220", "250")
            waits.append(lab.loop.time() - before)

    server.talk(dialogue)
    assert 15 < sorted(waits)[len(waits) // 2] < 25
    assert max(waits) > 600


def test_one_that_is_silent_after_the_dot_may_have_taken_it(lab: Lab) -> None:
    assert set(outcomes(lab, "silent after the dot")) == {("250", True), (SILENCE, True), (SILENCE, False)}


def test_one_that_drops_the_reply_has_taken_it(lab: Lab) -> None:
    assert set(outcomes(lab, "drops the reply")) == {("250", True), (END, True), (RESET, True)}


def test_a_late_one_decides_at_once_and_answers_when_nobody_waits(lab: Lab) -> None:
    server = Server(lab, "late")
    waits: list[float] = []

    async def dialogue(client: Client) -> str:
        await client.all((HELLO, FROM, TO, "DATA"))
        taken, before = len(server.mails), lab.loop.time()
        client.writer.write(f"{LETTER}\r\nNOOP\r\n".encode())
        await asyncio.sleep(0.05)
        decided = len(server.mails)
        reply = await client.hear()
        waits.append(lab.loop.time() - before)
        assert len(server.mails) == decided
        assert (decided > taken) is (reply == "250")
        assert await client.hear() == "502", "the next command waits for its turn"
        return reply

    assert {server.talk(dialogue) for _ in range(30)} == {"250", "451", "550"}
    assert max(waits) > 600
    assert min(waits) < 1


@pytest.mark.parametrize(("name", "last"), [("a", "450"), ("b", "550"), ("c", "554")])
def test_a_blocklisting_one_says_so_in_its_own_place(lab: Lab, name: str, last: str) -> None:
    found = outcomes(lab, "blocklisting", name=name, times=2)
    assert found == {(last, False): 2}


def test_one_that_refuses_content_does_so_for_now_or_for_good(lab: Lab) -> None:
    assert set(outcomes(lab, "refuses content")) == {("250", True), ("451", False), ("550", False)}


def test_one_that_refuses_content_may_do_so_before_it_is_complete(lab: Lab) -> None:
    server = Server(lab, "refuses content")

    async def dialogue(client: Client) -> str:
        await client.all((HELLO, FROM, TO, "DATA"))
        client.writer.write(b"x" * 900 + b"\r\n" + b"y" * 900 + b"\r\n")
        return await client.hear()

    assert {server.talk(dialogue) for _ in range(20)} == {"552", SILENCE}
    assert not server.mails


def test_an_odd_one_says_what_it_likes(lab: Lab) -> None:
    server = Server(lab, "odd")
    said = {reply for _ in range(40) for reply in server.replies(HELLO, FROM, TO, "RSET", FROM, TO_BOB)}
    assert said >= {"250", "251", "25O", "550", "999", "450", "220"}


def test_a_trusting_one_wants_content_without_recipients_and_refuses_it_then(lab: Lab) -> None:
    server = Server(lab, "trusting")
    some = [f"m{number}@here.example" for number in (10, 11)]
    refused = next(it for it in some if sum(it.encode()) % 2)
    assert server.replies(HELLO, FROM, f"RCPT TO:<{refused}>", "DATA", LETTER)[3:] == ["450", "354", "554"]
    assert not server.mails
    lines = [HELLO, FROM, *(f"RCPT TO:<{it}>" for it in some), "DATA", LETTER]
    assert server.replies(*lines)[-2:] == ["354", "250"]
    assert [it.forward_paths for it in server.mails] == [tuple(it for it in some if it != refused)]


def test_a_character_changes_between_two_commands(lab: Lab) -> None:
    server = Server(lab, "greylisting")

    async def dialogue(client: Client) -> list[str]:
        await client.all((HELLO, FROM))
        first = await client.say(TO)
        server.character = CHARACTERS["honest"]
        return [first, await client.say(TO)]

    assert server.talk(dialogue) == ["450", "250"]


# ---------------------------------------------------------------- TLS
def anyone() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def encrypted(client: Client) -> list[str]:
    """The replies to STARTTLS and then, encrypted, to a transaction."""
    found = [*await client.all((HELLO, "STARTTLS"))][2:]
    if found != ["220"]:
        return found
    try:
        async with asyncio.timeout(PATIENCE):
            await client.writer.start_tls(anyone())
    except (OSError, TimeoutError) as error:
        return [*found, type(error).__name__]
    await asyncio.sleep(1)
    return [*found, *[await client.say(line) for line in (FROM, HELLO, "STARTTLS", FROM, TO, "DATA", LETTER)]]


def test_after_starttls_everything_begins_anew(lab: Lab) -> None:
    server = Server(lab, tls="good")
    assert server.talk(encrypted) == ["220", "503", "250", "502", "250", "250", "354", "250"]
    assert len(server.mails) == 1


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("454", ["454"]),
        ("garbage", ["220", "SSLError"]),
        ("close", ["220", "ConnectionResetError"]),
        ("hang", ["220", "ConnectionAbortedError"]),
        ("injected", ["220", "ConnectionAbortedError"]),
        ("dies", ["220", RESET]),
    ],
)
def test_each_way_in_which_tls_is_broken(lab: Lab, fault: str, found: list[str]) -> None:
    server = Server(lab, tls=fault)
    assert server.talk(encrypted)[: len(found)] == found
    assert not server.mails


def test_an_injected_reply_comes_in_the_clear(lab: Lab) -> None:
    assert Server(lab, tls="injected").replies(HELLO, "STARTTLS", "NOOP")[2:] == ["220", "250"]


def test_what_a_client_says_after_starttls_is_no_line(lab: Lab) -> None:
    """A ClientHello is random: answered as a line whenever it holds CRLF, it would make a run another one now and then."""

    async def talk(client: Client) -> bytes:
        await client.all((HELLO, "STARTTLS"))
        client.writer.write(b"\x16\x03\x01 hello\r\nNOOP\r\n")
        return await client.reader.readline()

    assert Server(lab, tls="garbage").talk(talk) == b"no TLS at all\r\n"


def test_there_are_no_other_ways() -> None:
    assert set(TLS_FAULTS) == {"454", "garbage", "close", "hang", "injected", "dies"}
