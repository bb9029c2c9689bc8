"""The DSNs that have a golden file each. `python -m tests.policy.dsn_cases` writes the files anew."""

from pathlib import Path
from typing import Any

from mta.model.reply import Reply, finding, parse_reply
from mta.policy.compose import Stamp
from mta.policy.dsn import Dsn, DsnRecipient, Fate
from mta.policy.dsn_mail import compose_dsn
from mta.policy.dsn_return import WHOLE_LIMIT, returned

GOLDEN = Path(__file__).parent / "golden"
STAMP = Stamp("mail.example.com", 1767323045.678, "<06DSN00000000001@mail.example.com>", "=_00112233445566778899aabb")
HEADER = (
    b"Received: from app (localhost [127.0.0.1])\r\n\tby mail.example.com with ESMTP id 06ABCDEFGHJKMN00\r\n"
    b"From: Shop <shop@example.com>\r\nTo: ann@example.org\r\nSubject: Your order 1234\r\n"
    b"Message-ID: <order-1234@example.com>\r\n\r\nBody that stays here.\r\n"
)
EIGHT_BIT = HEADER.replace(
    b"\r\n\r\n", b"\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Transfer-Encoding: 8bit\r\n\r\nGr\xc3\xb6\xc3\x9fe XL, bestellt\r\n.\r\nFrom here on: "
)  # fmt: skip
BUSY = parse_reply(450, ["4.2.1 mailbox busy"])
UNKNOWN = parse_reply(550, ["5.1.1 no such user here"])
DOUBT = finding("4.4.2", "connection lost after the final dot")


def recipient(
    address: str = "ann@example.org",
    fate: Fate = Fate.REFUSED,
    reply: Reply = UNKNOWN,
    host: str = "mx1.example.org",
    phase: str = "rcpt",
    attempts: int = 1,
    doubts: int = 0,
    submitted_as: str = "",
    orcpt: str = "",
) -> DsnRecipient:
    return DsnRecipient(address, submitted_as, fate, reply, host, phase, attempts, doubts, orcpt)


def dsn(
    *recipients: DsnRecipient, header: bytes = HEADER, subject: str = "Your order 1234", whole: bool = False, **more: Any
) -> Dsn:
    """`header` is the message, of which more than the header section goes back only if `whole`."""
    back = returned(header, whole=whole)
    return Dsn(
        to="shop@example.com",
        queue_id="06ABCDEFGHJKMN00",
        message_id="<order-1234@example.com>",
        subject=subject,
        arrival_date=1767322980.0,
        will_retry_until=1767754980.0,
        recipients=recipients,
        original_header=() if back.whole else back.lines,
        original_message=back.lines if back.whole else (),
        withheld=back.withheld,
        **more,
    )


MULTI_LINE = parse_reply(550, ["5.2.1 The mailbox is", "5.2.1 disabled: see", "5.2.1 https://example.org/help"])
NON_ASCII = parse_reply(550, [b"black ip \xb7\xa2\xd0\xc5\xc8\xcb \x1b[2J\0"])
LONG = parse_reply(554, ["5.7.1 " + "https://example.org/" + "x" * 1200 + " " + "spam " * 60])
TAKEN = parse_reply(250, ["2.0.0 Ok: queued as 4QXYZ"])
LATE = "not delivered by Fri, 02 Jan 2026 03:05:00 +0000, the time asked for; the last answer was: 450 4.2.1 mailbox busy"
TIME = 1767323100.0
NULL_MX = finding("5.1.10", "nullmx.example accepts no mail (null MX)")

CASES: dict[str, Dsn] = {
    "failed": dsn(recipient()),
    "failed-several": dsn(
        recipient(),
        recipient("bob@example.org", reply=parse_reply(552, ["5.2.2 quota exceeded"]), phase="final"),
        recipient("carl@example.org", Fate.GIVEN_UP, BUSY, attempts=23, submitted_as="root@mail.example.com"),
    ),
    "delayed": dsn(recipient(fate=Fate.DELAYED, reply=BUSY, attempts=7)),
    "dead-with-doubt": dsn(recipient(fate=Fate.GIVEN_UP, reply=DOUBT, phase="final", attempts=12, doubts=2)),
    "held-doubt": dsn(recipient(fate=Fate.UNDECIDED, reply=DOUBT, phase="final", doubts=1)),
    "null-mx": dsn(recipient("a@nullmx.example", reply=NULL_MX, host="", phase="")),
    "multi-line-reply": dsn(recipient(reply=MULTI_LINE)),
    "non-ascii-reply": dsn(recipient(reply=NON_ASCII), subject="Größe XL bestellt"),
    "long-reply": dsn(recipient(reply=LONG, phase="final")),
    "deadline": dsn(
        recipient(reply=finding("5.4.7", LATE), host="", phase="", attempts=3),
        deliver_by=TIME,
        future_release="until;2026-01-02T03:04:00Z",
        priority=4,
    ),
    "late": dsn(recipient(fate=Fate.DELAYED, reply=finding("4.4.7", LATE), host="", phase=""), deliver_by=TIME),
    "relayed": dsn(recipient(fate=Fate.RELAYED, reply=TAKEN, phase="final"), deliver_by=TIME),
    "purged-original": dsn(recipient(), header=b""),
    "asked": dsn(
        recipient(orcpt="rfc822;Ann+2BShop@Example.org", submitted_as="ann@mail.example.com"),
        recipient("bob@example.org", orcpt="x-id;4+20711+C3+A9"),
        envid="Q+2BQ314159+3D",
    ),
    "whole": dsn(recipient(), whole=True),
    "whole-8-bit": dsn(recipient(), header=EIGHT_BIT, whole=True),
    "whole-too-large": dsn(recipient(), header=HEADER + b"x" * WHOLE_LIMIT, whole=True),
    "whole-purged": dsn(recipient(), header=b"", whole=True),
}


def write_golden_files() -> None:
    for name, case in CASES.items():
        (GOLDEN / f"{name}.eml").write_bytes(compose_dsn(case, STAMP))


if __name__ == "__main__":
    write_golden_files()
