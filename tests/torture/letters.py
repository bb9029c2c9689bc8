"""The mail that is submitted: everything about a letter follows from the seed and its number, also when it is sent anew."""

import random
from dataclasses import dataclass
from functools import cached_property

from tests.support.daemon import Daemon

DOMAINS = ("one.test", "two.test", "three.test")
_LINES = (b"hello", b".", b"..dots", b"", b"caf\xc3\xa9", b"x" * 900)


@dataclass(frozen=True)
class Letter:
    seed: int
    number: int

    @property
    def key(self) -> str:
        return f"torture-{self.seed}-{self.number}"

    @property
    def subject(self) -> str:
        return f"Torture {self.number}"

    @cached_property
    def recipients(self) -> list[str]:
        """One, or one at each of two or three destinations."""
        chance = random.Random(f"{self.key} to")
        domains = chance.sample(DOMAINS, chance.choice((1, 1, 1, 2, 3)))
        return [f"r{self.number}@{domain}" for domain in domains]

    @cached_property
    def body(self) -> bytes:
        """A few lines, now and then some hundred."""
        chance = random.Random(f"{self.key} body")
        lines = chance.choices(_LINES, k=chance.choice((1, 3, 10, 10, 300)))
        return b"\r\n".join([*lines, b"end of " + self.key.encode()]) + b"\r\n"

    async def submit(self, daemon: Daemon) -> str:
        """The reply to the final dot."""
        return await daemon.reply(
            *self.recipients, subject=self.subject, body=self.body, headers=[f"Idempotency-Key: {self.key}"]
        )
