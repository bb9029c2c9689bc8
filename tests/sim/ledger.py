"""What the world knows of the mail, from outside the daemon: what programs were told, what servers took."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from tests.sim.remote import Taken
from tests.sim.scenario import Email

_TAG = re.compile(rb"^X-Sim: (\d+)\.(\d+)\r$", re.MULTILINE)
_QUEUE_ID = re.compile(rb"^Received: .*?\bid ([0-9A-Za-z]+)", re.DOTALL)
_ABOUT = re.compile(rb"^Final-Recipient: rfc822; ?(\S+)\r$", re.MULTILINE)
_ACTION = re.compile(rb"^Action: (\w+)\r$", re.MULTILINE)


class Told(StrEnum):
    """What a program knows of a submission."""

    YES = "acknowledged"
    NO = "refused"
    BROKEN_OFF = "broken off"
    """It went away before the final dot."""
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Submission:
    """The `n`-th time that a program gives an email. `code` is that of the last reply."""

    email: Email
    n: int
    at: float = 0.0
    """When it said MAIL, in seconds from the start."""
    told: Told = Told.UNKNOWN
    queue_id: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Copy:
    """A mail that a server took for one recipient. `doubts` is how often the spool had said "in doubt" by then."""

    taken: Taken
    n: int
    recipient: str
    queue_id: str
    doubts: int


@dataclass(frozen=True, slots=True)
class Dsn:
    taken: Taken
    about: str
    action: str


@dataclass(slots=True)
class Ledger:
    submissions: dict[int, list[Submission]] = field(default_factory=dict)
    """By the email's number."""
    copies: dict[str, list[Copy]] = field(default_factory=dict)
    """By recipient: each email has its own."""
    dsns: list[Dsn] = field(default_factory=list)
    reports: list[Taken] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Recipients that a server refused for good; domains, where it refused everybody."""
    touched: dict[int, set[str]] = field(default_factory=dict)
    """By the email's number: the verbs with which a person changed it."""

    def take_own(self, taken: Taken, notices: list[tuple[str, str]]) -> None:
        """A mail of the daemon's: a DSN, or another report."""
        self.dsns += [Dsn(taken, about, action) for about, action in notices]
        if not notices:
            self.reports.append(taken)

    def queue_id(self, number: int) -> str:
        """That of an acknowledged email, "" for none."""
        return next((it.queue_id for it in self.submissions.get(number, ()) if it.queue_id), "")


def address(email: Email, place: int, domain: str) -> str:
    return f"m{email.number}.{place}@{domain}"


@lru_cache(1024)
def body(number: int, size: int) -> bytes:
    """The text of an email: lines with dots in front, empty ones, as long as they may be."""
    lines, length = [], 0
    while length < size:
        line = ("." * (len(lines) % 4) + f"line {len(lines)} of {number} ").encode() + b"x" * (size % 900)
        lines.append(line)
        length += len(line) + 2
    return b"\r\n".join([*lines, b".", b"", b""])


def tag_of(content: bytes) -> tuple[int, int] | None:
    """Number and n of a program's mail; None: a mail of the daemon's."""
    found = _TAG.search(content.partition(b"\r\n\r\n")[0] + b"\r\n")
    return (int(found[1]), int(found[2])) if found else None


def queue_id_of(content: bytes) -> str:
    found = _QUEUE_ID.search(content)
    return found[1].decode() if found else ""


def notices_of(content: bytes) -> list[tuple[str, str]]:
    """(recipient, action) of each recipient a DSN tells of (RFC 3464)."""
    actions = [it.decode() for it in _ACTION.findall(content)]
    return list(zip((it.decode() for it in _ABOUT.findall(content)), actions, strict=False))
