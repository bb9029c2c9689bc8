"""Field cases of area K, from the submission to two independent verifiers."""

import signal

import pytest

from tests.e2e.keys import sign
from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.mx import Hold, Message, ScriptedMx
from tests.support.smtp_client import stuffed
from tests.support.verifiers import by_dkimpy, by_mail_dkim, key, published

RSA, ED = key("shop.test/2026", "rsa"), key("shop.test/2026ed")
OURS = key("out.test/1")
PUBLISHED = published(RSA, ED, OURS)
HEAD = b"From: Shop <app@shop.test>\r\nTo: ann@good.test\r\nSubject: hello\r\n"

BODIES = [
    b"", b"\r\n", b"  \r\n", b"hello", b"hello\r\n\r\n\r\n", b"Hello!\r\n  \r\n\r\n", b"one\ntwo\r\n", b"a\rb\r\n",
    b".dot\r\n", b"..\r\n.\r\r\n", "grüße \t an  alle\r\n".encode(), b"x" * 900 + b" \r\n" * 40_000,
]  # fmt: skip


@pytest.fixture
def world(world: World) -> World:
    """Mail from shop.test is signed by two keys, our own by one."""
    sign(world, RSA, ED, OURS)
    return world


async def carried(world: World, mx: ScriptedMx, bodies: list[bytes], head: bytes = HEAD) -> list[bytes]:
    """What has arrived of messages with these bodies, submitted as they are but for dots."""
    before = len(mx.messages)
    async with await world.daemon.client() as client:
        for body in bodies:
            reply = await client.submit(stuffed(head + b"\r\n" + body), "app@shop.test", ["ann@good.test"])
            assert reply.startswith("250 "), reply
    await until(lambda: len(mx.messages) == before + len(bodies))
    return [message.content for message in mx.messages[before:]]


async def test_b41_dkimpy_verifies_every_body_as_it_arrived(world: World) -> None:
    mx = await world.mx("good.test")
    await world.daemon.start()
    for content in await carried(world, mx, BODIES):
        assert by_dkimpy(content, PUBLISHED) == [True, True], content


@pytest.mark.dkim
async def test_b41_mail_dkim_verifies_every_body_as_it_arrived(world: World) -> None:
    """The RSA signature; Ed25519 too from 1.20240923 on, which Debian 12 has not (1.20230212): there dkimpy alone verifies
    it, and the example of RFC 8463 (tests/policy/test_dkim.py)."""
    mx = await world.mx("good.test")
    await world.daemon.start()
    results = by_mail_dkim(await carried(world, mx, BODIES), PUBLISHED)
    assert [{*it} for it in results] == [{"pass"}] * len(BODIES)


@pytest.mark.dkim
async def test_b41_odd_header_fields_are_verified_by_both(world: World) -> None:
    """Folded, blank, with control headers and Bcc that were taken out, without Date and Message-ID. dkimpy does not know
    that a blank may stand before the colon (RFC 6376 section 3.4.2)."""
    head = (
        b"From: \tShop\r\n\t <app@shop.test> \r\nBcc: secret@good.test\r\nsubject:  a \t b\r\n   c\r\n \td \r\n"
        b"To:ann@good.test\r\nLatest-Delivery-Time: 10m\r\nCc:\r\n"
        b"List-Unsubscribe: <https://shop.test/u?x=1>,\r\n <mailto:u@shop.test>\r\n"
        b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\nX-Empty:\r\nReferences: <1@a.test>\r\n  <2@a.test>\r\n"
    )
    mx = await world.mx("good.test")
    await world.daemon.start()
    contents = await carried(world, mx, [b"hello\r\n"], head)
    assert b"secret" not in contents[0] and b"Message-ID" in contents[0]
    assert b"\r\nList-Unsubscribe: <https://shop.test/u?x=1>,\r\n <mailto:u@shop.test>\r\n" in contents[0]  # NBR-05
    contents.append((await carried(world, mx, [b"hello\r\n"], head.replace(b"To:", b"To \t:")))[-1])
    assert [{*it} for it in by_mail_dkim(contents, PUBLISHED)] == [{"pass"}] * 2
    assert by_dkimpy(contents[0], PUBLISHED) == [True, True]


@pytest.mark.dkim
async def test_the_other_verifier_finds_what_is_wrong(world: World) -> None:
    mx = await world.mx("good.test")
    await world.daemon.start()
    (content,) = await carried(world, mx, [b"hello\r\n"])
    altered = [content + b"x\r\n", content.replace(b"From: Shop", b"Subject: x\r\nFrom: Shop")]
    body, head = by_mail_dkim(altered, PUBLISHED)
    assert "fail (body has been altered)" in body and "fail (message has been altered)" in head


async def test_a_bounce_is_signed_as_our_own(world: World) -> None:
    """From MAILER-DAEMON at the host, which is below a domain that has a table."""
    await world.mx("bad.test", script={"RCPT": "550 5.1.1 no such user"})
    await world.daemon.start()
    await world.daemon.submit("nobody@bad.test")
    bounce: Message = (await until(world.bounces))[0]
    assert b"From: " in bounce.content and b"d=out.test;" in bounce.content
    assert by_dkimpy(bounce.content, PUBLISHED) == [True]


async def test_b57_after_a_crash_before_the_reply_the_same_bytes_go_out(world: World) -> None:
    """Though a key was added meanwhile."""
    tables, hold = world.daemon.config["dkim"], Hold("250 2.0.0 ok")
    world.configure("", dkim=tables[:1])
    mx = await world.mx("good.test", script={"FINAL": [hold]})
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@good.test")
    await hold.reached.wait()
    world.configure("", dkim=tables)
    await world.daemon.restart(signal.SIGKILL)
    await until(lambda: world.daemon.has(queue_id, "sent"))
    first, second = mx.messages
    assert first.raw == second.raw
    assert by_dkimpy(second.content, PUBLISHED) == [True]


async def test_it_is_in_the_timeline(world: World) -> None:
    mx = await world.mx("good.test")
    await world.daemon.start()
    queue_id = await world.daemon.submit("ann@good.test")
    await until(lambda: world.daemon.has(queue_id, "sent"))
    assert (await world.daemon.show(queue_id))["timeline"][-1]["signed"] == "shop.test/2026,shop.test/2026ed"
    assert "signed shop.test/2026,shop.test/2026ed" in (await world.daemon.cli("show", queue_id)).out
    assert mx.messages
