"""REQUIRETLS and TLS-Required at submission: TLS-08, TLS-09 (RFC 8689 sections 2, 3 and 4.1)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.listener.test_tls import connect_inside, secure_door, starttls
from tests.support.smtp_client import SmtpClient
from tests.support.submission import Bench
from tests.support.tls import server_context

Start = Callable[..., Any]
MAIL = "MAIL FROM:<app@shop.test>"


async def test_tls_09_it_is_offered_inside_tls_alone(start: Start) -> None:
    running: Bench = await start(tls=server_context())
    async with await SmtpClient.connect(running.endpoint) as client:
        assert "REQUIRETLS" not in await client.command("EHLO c.test")
        await starttls(client)
        assert "REQUIRETLS" in (await client.command("EHLO c.test")).split()
    async with await connect_inside(await secure_door(running)) as client:
        assert "REQUIRETLS" in await client.command("EHLO c.test")


@pytest.mark.parametrize("has_tls", [True, False])
async def test_tls_09_in_clear_it_is_refused(start: Start, has_tls: bool) -> None:
    """530 5.7.10; the session goes on."""
    running: Bench = await start(tls=server_context() if has_tls else None)
    async with await SmtpClient.connect(running.endpoint) as client:
        await client.command("EHLO c.test")
        assert (await client.command(f"{MAIL} REQUIRETLS")).startswith("530 5.7.10 ")
        assert (await client.command(MAIL)).startswith("250 ")


async def test_tls_09_it_has_no_value(start: Start) -> None:
    running: Bench = await start(tls=server_context())
    async with await connect_inside(await secure_door(running)) as client:
        await client.command("EHLO c.test")
        assert (await client.command(f"{MAIL} REQUIRETLS=YES")).startswith("501 5.5.4 ")


@pytest.mark.parametrize(
    ("parameter", "fields", "kept"),
    [
        ("", "", (False, False)),
        (" REQUIRETLS", "", (True, False)),
        (" requiretls", "", (True, False)),
        ("", "TLS-Required: No\r\n", (False, True)),
        ("", "tls-required:  nO \r\n", (False, True)),
        ("", "TLS-Required: yes\r\n", (False, False)),
        ("", "TLS-Required: No\r\nTLS-Required: No\r\n", (False, False)),
        (" REQUIRETLS", "TLS-Required: No\r\n", (True, False)),
    ],
)
async def test_tls_08_tls_09_what_is_kept(start: Start, parameter: str, fields: str, kept: tuple[bool, bool]) -> None:
    """The field stays in the message: it is for every server on the way."""
    running: Bench = await start(tls=server_context())
    async with await connect_inside(await secure_door(running)) as client:
        await client.command("EHLO c.test")
        for line in (f"{MAIL}{parameter}", "RCPT TO:<ann@example.org>"):
            assert (await client.command(line)).startswith("250"), line
        await client.command("DATA")
        reply = await client.command(f"From: app@shop.test\r\n{fields}Subject: x\r\n\r\nx\r\n.")
        assert reply.startswith("250"), reply
    message, content = running.spool.last
    assert (message.require_tls, message.tls_optional) == kept
    assert fields.encode() in content
