"""What is signed when it is delivered, with which keys, and what becomes of it where that fails."""

import re
from dataclasses import dataclass
from pathlib import Path

from mta.delivery.signing import Keyring, Signing
from mta.dkim.keys import Key
from mta.model.lifecycle import Status
from mta.ports.system import Signer
from tests.delivery.house import Hands, House, house
from tests.support.mx import Close, Message, ScriptedMx
from tests.support.verifiers import by_dkimpy, key, published

OLD, NEW, ED = key("example.com/2026", "rsa"), key("example.com/2027", "rsa"), key("example.com/2026ed")
CONTENT = b"From: Ann <ann@example.com>\r\nSubject: hello\r\n\r\n.hello\r\n"


@dataclass(frozen=True)
class Broken:
    """A key that can't sign."""

    name: str = "example.com/2026"
    algorithm: str = "rsa-sha256"

    def sign(self, data: bytes, /) -> bytes:
        raise MemoryError("secret exponent 65537")


def signing(*keys: Signer) -> Signing:
    return Signing(Keyring(keys))


def then() -> Hands:
    return Hands(1_700_000_000.7)  # verifiers know their own clock


def names(message: Message) -> list[str]:
    """Of the keys that signed."""
    head = message.content.partition(b"\r\n\r\n")[0].replace(b"\r\n\t", b" ").decode()
    return ["/".join(it) for it in re.findall(r"(?m)^DKIM-Signature: .*? d=([^;]*); s=([^;]*);", head)]


async def told(home: House, queue_id: str) -> list[object]:
    """What the timeline says of the keys."""
    return [it.detail.get("signed") for it in (await home.show(queue_id)).timeline if it.event != "accepted"]


async def sent(tmp_path: Path, with_keys: Signing, content: bytes) -> Message:
    async with ScriptedMx() as mx, house(tmp_path, mx.port, clock=then(), signing=with_keys) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        await home.submit("bob@example.org", content=content)
        await home.deliver()
        (message,) = mx.messages
        return message


# ---------------------------------------------------------------- which keys
async def test_two_tables_of_a_domain_sign_twice_and_size_counts_it(tmp_path: Path) -> None:
    async with ScriptedMx() as mx, house(tmp_path, mx.port, clock=then(), signing=signing(OLD, ED)) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        queue_id = await home.submit("bob@example.org", content=CONTENT)
        await home.deliver()
        (message,) = mx.messages
        assert by_dkimpy(message.content, published(OLD, ED)) == [True, True]
        assert names(message) == ["example.com/2026", "example.com/2026ed"]
        assert message.content.endswith(CONTENT)
        assert f"SIZE={len(message.content)}" in message.mail
        assert b"t=1700000000;" in message.content
        assert await told(home, queue_id) == ["example.com/2026,example.com/2026ed"]


async def test_the_nearest_domain_signs(tmp_path: Path) -> None:
    near, far = key("shop.example.com/1"), key("example.com/1")
    other = key("ample.com/1")
    cases = {
        "a@shop.example.com": ["shop.example.com/1"],
        "a@x.SHOP.example.com": ["shop.example.com/1"],
        "a@other.example.com": ["example.com/1"],
        "a@example.com, b@elsewhere.example": ["example.com/1"],
        "a@elsewhere.example, b@example.com": [],
        "a@notexample.com": [],
        "root": [],
    }
    for number, (author, expected) in enumerate(cases.items()):
        (tmp_path / str(number)).mkdir()
        content = f"From: {author}\r\n\r\nx\r\n".encode()
        message = await sent(tmp_path / str(number), signing(near, far, other), content)
        assert names(message) == expected
        assert by_dkimpy(message.content, published(near, far)) == [True] * len(expected)


async def test_a_large_message_is_signed_as_it_is_streamed(tmp_path: Path) -> None:
    content = CONTENT + b"line \t with blanks  \r\n" * 100_000 + b"\r\n\r\n"
    message = await sent(tmp_path, signing(OLD, ED), content)
    assert message.content.endswith(content)
    assert by_dkimpy(message.content, published(OLD, ED)) == [True, True]


async def test_a_large_message_of_another_author_goes_as_it_is(tmp_path: Path) -> None:
    content = CONTENT.replace(b"example.com", b"example.net") + b"x" * 70 + b"\r\n" * 1_000_000
    assert (await sent(tmp_path, signing(OLD), content)).content == content


# ---------------------------------------------------------------- after a doubt
async def doubted(home: House, with_keys: Signing, *keys_then: Key) -> str:
    """A message whose final dot was not answered; signed with these keys."""
    with_keys.keyring = Keyring(keys_then)
    home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
    queue_id = await home.submit("bob@example.org", content=CONTENT)
    await home.deliver()
    assert (await home.recipient(queue_id)).status is Status.IN_DOUBT
    home.clock.at += 601
    return queue_id


async def test_b57_what_is_sent_again_is_signed_as_it_was(tmp_path: Path) -> None:
    """Also where other keys have come meanwhile; a reply that puts it off changes nothing of it."""
    ring = signing()
    steps = [Close(), "451 4.3.0 later"]
    async with ScriptedMx({"FINAL": steps}) as mx, house(tmp_path, mx.port, clock=then(), signing=ring) as home:
        queue_id = await doubted(home, ring, OLD, ED)
        ring.keyring = Keyring([NEW, ED, OLD])
        await home.deliver()
        home.clock.at += 601
        await home.deliver()
        first, second, third = mx.messages
        assert first.raw == second.raw == third.raw and len(names(first)) == 2
        assert await told(home, queue_id) == ["example.com/2026,example.com/2026ed"] * 3


async def test_where_a_key_is_gone_those_of_now_sign_and_it_is_told(tmp_path: Path) -> None:
    ring = signing()
    steps = [Close(), Close()]
    async with ScriptedMx({"FINAL": steps}) as mx, house(tmp_path, mx.port, clock=then(), signing=ring) as home:
        queue_id = await doubted(home, ring, OLD, ED)
        ring.keyring = Keyring([NEW])
        for _ in range(2):
            await home.deliver()
            home.clock.at += 2000
        assert [names(it) for it in mx.messages] == [
            ["example.com/2026", "example.com/2026ed"], ["example.com/2027"], ["example.com/2027"],
        ]  # fmt: skip
        assert mx.messages[1].raw == mx.messages[2].raw
        old, changed, new = await told(home, queue_id)
        assert (old, new) == ("example.com/2026,example.com/2026ed", "example.com/2027")
        assert changed == "example.com/2027 instead of example.com/2026,example.com/2026ed"


async def test_where_all_keys_are_gone_it_is_told_too(tmp_path: Path) -> None:
    ring = signing()
    async with ScriptedMx({"FINAL": [Close()]}) as mx, house(tmp_path, mx.port, clock=then(), signing=ring) as home:
        queue_id = await doubted(home, ring, OLD)
        ring.keyring = Keyring()
        await home.deliver()
        assert mx.messages[1].content == CONTENT
        assert (await told(home, queue_id))[1] == "nothing instead of example.com/2026"


async def test_what_was_sent_unsigned_is_sent_again_so(tmp_path: Path) -> None:
    """B57: the same bytes, though there are keys by now."""
    ring = signing()
    async with ScriptedMx({"FINAL": [Close()]}) as mx, house(tmp_path, mx.port, clock=then(), signing=ring) as home:
        await doubted(home, ring)
        ring.keyring = Keyring([OLD])
        await home.deliver()
        assert mx.messages[0].raw == mx.messages[1].raw


async def test_recipients_whose_doubts_were_signed_differently_go_apart(tmp_path: Path) -> None:
    ring = signing(OLD)
    script = {"RCPT": ["250 ok", "451 4.3.0 later"], "FINAL": [Close(), Close()]}
    async with ScriptedMx(script) as mx, house(tmp_path, mx.port, clock=then(), signing=ring) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        await home.submit("a@example.org", "b@example.org", content=CONTENT)
        await home.deliver()
        ring.keyring = Keyring([NEW, OLD])
        home.clock.at += 100
        await home.deliver()
        home.clock.at += 2000
        while not (await home.deliver()).idle:
            pass
        found = [(it.forward_paths, names(it)) for it in mx.messages]
        one, both = ["example.com/2026"], ["example.com/2027", "example.com/2026"]
        assert found[:2] == [(["a@example.org"], one), (["b@example.org"], both)]
        assert sorted(found[2:]) == found[:2]


# ---------------------------------------------------------------- what can't be signed
async def test_b43_what_cant_be_signed_waits_and_touches_nothing_else(tmp_path: Path) -> None:
    """Deferred 4.7.5, never unsigned, never refused; mail of other domains goes on, over the same session."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port, clock=then(), signing=signing(Broken())) as home:
        home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]
        stays = await home.submit("bob@example.org", content=CONTENT)
        assert (await home.deliver()).trouble is None
        goes = await home.submit("bob@example.org", content=CONTENT.replace(b"example.com", b"example.net"))
        await home.deliver()
        waiting = await home.recipient(stays)
        assert (waiting.status, waiting.attempts, waiting.doubts) == (Status.PENDING, 1, 0)
        assert waiting.next_attempt_at is not None and waiting.reply is not None
        assert (waiting.reply.code, waiting.reply.enhanced) == (None, "4.7.5")
        assert waiting.reply.text == "the message can't be signed: the key example.com/2026 can't sign (MemoryError)"
        assert (await home.recipient(goes)).status is Status.SENT and len(mx.connections) == 1
        assert [it.content for it in mx.messages] == [CONTENT.replace(b"example.com", b"example.net")]
