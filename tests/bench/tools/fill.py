"""Fills the spool of a daemon that is down: `python -m tests.bench.tools.fill SPOOL MESSAGES DESTINATIONS SIZE`.

The messages go in by the spool's own verb, as what the listener makes of smtp-source's mail: the same rows, the same form of
content. Message i is to ann@wN.test, N being i modulo DESTINATIONS.
"""

import asyncio
import email.utils
import itertools
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from mta.doorbell import Doorbell
from mta.model.envelope import Kind, MailClass, NewMessage, NewRecipient
from mta.model.queue_id import RANDOM_BITS, queue_id
from mta.spool.base import DoubtPolicy, Spool
from mta.spool.sqlite import open_sqlite
from tests.bench.traffic import SENDER, text

WRITERS = 100
"""Messages at once: as many as that share a commit."""
CONTENT = """\
Received: from source ([127.0.0.1])\r
\tby mail.bench.test with SMTP id {queue_id}\r
\tfor <{recipient}>;\r
\t{date}\r
From: <{sender}>\r
To: <{recipient}>\r
Date: {date}\r
Message-Id: {message_id}\r
\r
"""
GIVE_UP_AFTER, WARN_AFTER = 5 * 86400.0, 4 * 3600.0
"""Seconds: the schedule of normal mail."""


async def write(spool: Spool, numbers: Iterator[int], destinations: int, body: bytes) -> None:
    for number in numbers:
        now = time.time()
        name, message_id = queue_id(int(now * 1000), random.getrandbits(RANDOM_BITS)), f"<{number:x}.fill@bench.test>"
        domain = f"w{number % destinations}.test"
        recipient = f"ann@{domain}"
        head = CONTENT.format(
            queue_id=name, recipient=recipient, date=email.utils.formatdate(now), sender=SENDER, message_id=message_id
        )
        content = spool.buffer()
        content.write(head.encode() + body)
        message = NewMessage(
            queue_id=name, message_id=message_id, reverse_path=SENDER, recipients=(NewRecipient(recipient, domain),),
            subject="", size=content.size, eight_bit=False, mail_class=MailClass.NORMAL, kind=Kind.MAIL, accepted_at=now,
            expires_at=now + GIVE_UP_AFTER, warn_at=now + WARN_AFTER,
        )  # fmt: skip
        await spool.accept(message, content, now)


async def main(path: str, messages: str, destinations: str, size: str) -> None:
    numbers, body = iter(range(int(messages))), text(int(size))
    spool, _ = await open_sqlite(Path(path), doubts=DoubtPolicy(True, 0), now=time.time(), doorbell=Doorbell())
    writers = (write(spool, numbers, int(destinations), body) for _ in itertools.repeat(None, WRITERS))
    await asyncio.gather(*writers)
    await spool.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
