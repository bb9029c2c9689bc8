"""SES-30: the codes of replies, whoever asks and whatever."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.smtp_client import SmtpClient
from tests.support.tls import server_context

LINES = (
    "EHLO", "EHLO client.test", "HELO x y", "MAIL", "MAIL FROM:<a@b.test> X=1", "MAIL FROM:<a@b.test>", "RCPT TO:<>",
    "RCPT TO:<c@d.test>", "STARTTLS x", "BDAT 1 LAST x", "DATA x", "EXPN x", "VRFY x", "HELP", "TURN", "\0", "RSET", "NOOP",
    "QUIT",
)  # fmt: skip


@pytest.mark.parametrize(
    "settings", [{}, {"allow": ()}, {"tls": server_context(), "tls_required": True}, {"max_connections": 1}]
)
async def test_ses30_three_digits_from_2_to_5_and_never_521(start: Callable[..., Any], settings: dict[str, Any]) -> None:
    """`SmtpClient` holds every line to its form, the first digit among it."""
    running = await start(**settings)
    async with await SmtpClient.connect(running.endpoint) as client, await SmtpClient.connect(running.endpoint) as other:
        replies = [client.greeting, other.greeting] + [await client.command(line) for line in LINES]
        assert await client.at_end()
    assert not [reply for reply in replies if reply.startswith("521")]
