"""The part of a spool that the reports stage uses, in memory, with failures on order."""

import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mta.doorbell import Doorbell
from mta.model.envelope import Kind, NewMessage, Notice
from mta.model.lifecycle import Status
from mta.model.reply import parse_reply
from mta.spool.base import ContentBuffer, DueNotice, SpoolError, SpoolFull

MARK = DueNotice(
    id=0,
    notice=Notice.DSN_FAILED,
    step=0,
    at=1_800_000_000.0,
    queue_id="06ABCDEFGHJKMN00",
    message_id="<order-1234@example.com>",
    reverse_path="shop@example.com",
    kind=Kind.MAIL,
    subject="Your order 1234",
    accepted_at=1_799_999_000.0,
    expires_at=1_800_400_000.0,
    recipient="ann@example.org",
    original="",
    status=Status.FAILED,
    attempts=1,
    doubts=0,
    reply=parse_reply(550, ["5.1.1 no such user here"]),
    remote_host="mx1.example.org",
    phase="rcpt",
)


class Buffer:
    """A `ContentBuffer`; `full` refuses what is written."""

    def __init__(self, full: bool) -> None:
        self.octets, self.full, self.closed = b"", full, False

    @property
    def size(self) -> int:
        return len(self.octets)

    def write(self, data: bytes) -> None:
        if self.full:
            raise SpoolFull("no space left")
        self.octets += data

    def prefix(self, length: int) -> bytes:
        return self.octets[:length]

    def replace_prefix(self, length: int, by: bytes) -> None:
        self.octets = by + self.octets[length:]

    def chunks(self) -> Iterator[bytes]:
        yield self.octets

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeSpool:
    """`written` has what went in; `untold` the marks told to nobody. Each `fail_...` counts the failures to come."""

    doorbell: Doorbell = field(default_factory=Doorbell)
    marks: list[DueNotice] = field(default_factory=list)
    written: list[tuple[NewMessage, bytes]] = field(default_factory=list)
    untold: list[DueNotice] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    original: bytes | None = b"Subject: Your order 1234\r\n\r\nbody\r\n"
    fail_reports: int = 0
    fail_buffers: int = 0
    fail_reading: int = 0
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def mark(self, **changes: object) -> None:
        """A result was settled: its mark is there and the bell rings."""
        number = next(self.ids)
        self.marks.append(replace(MARK, **({"id": number, "step": number} | changes)))
        self.doorbell.ring_notices()

    async def notices(self, kinds: Iterable[Notice], limit: int, now: float) -> Sequence[DueNotice]:
        if self.fail_reading:
            self.fail_reading -= 1
            raise SpoolError("disk I/O error")
        wanted = set(kinds)
        fitting = [mark for mark in self.marks if mark.notice in wanted]
        steps = {mark.step for mark in fitting[:limit]}
        return [mark for mark in fitting if mark.step in steps]

    def buffer(self) -> Buffer:
        self.buffers.append(Buffer(full=self.fail_buffers > 0))
        self.fail_buffers = max(self.fail_buffers - 1, 0)
        return self.buffers[-1]

    async def report(
        self, notice_ids: Sequence[int], message: NewMessage | None, content: ContentBuffer | None, now: float
    ) -> None:
        if self.fail_reports:
            self.fail_reports -= 1
            raise SpoolError("database is locked")
        told = [mark for mark in self.marks if mark.id in notice_ids]
        self.marks = [mark for mark in self.marks if mark.id not in notice_ids]
        if message is None or content is None:
            self.untold += told
            return
        self.written.append((message, b"".join(content.chunks())))
        content.close()

    async def told(self, notice_ids: Sequence[int], now: float) -> None:
        if self.fail_reports:
            self.fail_reports -= 1
            raise SpoolError("database is locked")
        self.marks = [mark for mark in self.marks if mark.id not in notice_ids]

    async def content(self, queue_id: str) -> AsyncIterator[bytes]:
        if self.original is None:
            raise SpoolError("content is missing")
        yield self.original
