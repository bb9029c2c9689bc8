"""What a test needs of the listener, by EHLO keyword."""

from collections.abc import Iterable

import pytest

from tests.support.smtp_client import SmtpClient


async def offered(endpoint: tuple[str, int]) -> set[str]:
    """The keywords in the reply to EHLO."""
    async with await SmtpClient.connect(endpoint) as client:
        return keywords(await client.command("EHLO probe.test"))


def keywords(reply: str) -> set[str]:
    return {line[4:].split()[0].upper() for line in reply.split("\n")[1:]}


def require(needed: Iterable[str], found: set[str]) -> None:
    """Never silent: tests/run with CI=true takes no skipped test."""
    if missing := sorted({*needed} - found):
        pytest.skip(f"needs {' '.join(missing)}, which EHLO does not offer")
