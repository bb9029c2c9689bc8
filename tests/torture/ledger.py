"""What was acknowledged, what has arrived, what the spool says, and whether the three agree.

Rules: a copy is counted when its final dot has come, whatever becomes of the reply, unless the server refuses it: the
daemon's excuse must be a doubt, not luck. Copies are counted for each Message-ID and recipient, reports included.
"""

import hashlib
import re
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.mx import Message
from tests.torture.letters import Letter

_ACCEPTED = re.compile(r"250 2\.0\.0 Ok: (?:queued as|duplicate of) ([0-9A-Z]{16})( \([a-z_]+\))?\Z")
_LEGAL = {"pending", "in_doubt", "sent"}
_ROWS = """SELECT m.queue_id, m.message_id, m.idempotency_key, r.address, r.status, r.doubts, r.in_flight
    FROM recipients r JOIN messages m ON m.id = r.id >> 20"""

Copy = tuple[str, str]
"""A Message-ID and a recipient."""


@dataclass(frozen=True)
class Row:
    """A recipient as the spool has it."""

    queue_id: str
    message_id: str
    key: str | None
    address: str
    status: str
    doubts: int
    in_flight: int

    @property
    def copy(self) -> Copy:
        return self.message_id, self.address


@dataclass
class Ledger:
    """`faults` has all that must not be, in words; `lost` and `twice` the copies that it is about."""

    seed: int
    spool: Path
    hold: bool
    acknowledged: dict[str, str] = field(default_factory=dict)
    """Queue ids by key."""
    copies: Counter[Copy] = field(default_factory=Counter)
    doubtful: int = 0
    """Recipients of letters that were ever in doubt, as of the last audit."""
    lost: set[str] = field(default_factory=set)
    twice: set[Copy] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    _digests: dict[str, bytes] = field(default_factory=dict)

    # ------------------------------------------------ what submitters and servers saw
    def answered(self, letter: Letter, reply: str) -> None:
        """A submission under a key has its reply: only a 250 with the queue id of the first will do."""
        accepted = _ACCEPTED.match(reply)
        if accepted is None:
            self.faults.append(f"{letter.key} is answered {reply!r}")
        elif self.acknowledged.setdefault(letter.key, accepted[1]) != accepted[1]:
            self.faults.append(f"{letter.key} is {self.acknowledged[letter.key]} and {accepted[1]}")

    def arrived(self, message: Message, refused: bool) -> None:
        """A final dot has come. Every copy has the same octets, and the body that was submitted."""
        head, _, body = message.content.partition(b"\r\n\r\n")
        message_id, subject = _field(head, "Message-ID"), _field(head, "Subject")
        if self._digests.setdefault(message_id, _digest(message.raw)) != _digest(message.raw):
            self.faults.append(f"two copies of {message_id} ({subject}) differ")
        number = re.fullmatch(r"Torture ([0-9]+)", subject)
        if number and body != Letter(self.seed, int(number[1])).body:
            self.faults.append(f"the body of {message_id} ({subject}) has changed")
        if not refused:
            self.copies.update((message_id, address) for address in message.forward_paths)

    # ------------------------------------------------ what must hold
    def audit(self) -> None:
        """While the daemon runs or not: what has arrived before the look into the spool is allowed by it, and what it says
        was sent has arrived after."""
        before = Counter(self.copies)
        rows = self.rows()
        self._audit_keys(rows)
        for row in rows:
            allowed = 1 if self.hold else 1 + row.doubts
            if before[row.copy] > allowed:
                self.twice.add(row.copy)
                self.faults.append(f"{before[row.copy]} copies of {row}")
            if row.status not in _LEGAL:
                self.faults.append(f"a status without a cause: {row}")
            if row.status == "sent" and not self.copies[row.copy]:
                self._lose(row.queue_id, f"sent, but not arrived: {row}")
        unknown = set(before) - {row.copy for row in rows}
        self.faults += [f"arrived, but not in the spool: {copy}" for copy in unknown]
        self.doubtful = sum(row.doubts > 0 for row in rows if row.key)

    def audit_end(self) -> None:
        """When nothing is left to do."""
        self.audit()
        for row in self.rows():
            if row.status == "pending" or row.in_flight or (row.status == "in_doubt" and not self.hold):
                self._lose(row.queue_id, f"never finished: {row}")

    def settled(self) -> bool:
        """Whether nothing is left to do: no delivery and no report."""
        waits = "status IN ('pending', 'sending') OR in_flight" + ("" if self.hold else " OR status = 'in_doubt'")
        with self._look() as db:
            (count,) = db.execute(
                f"SELECT (SELECT count(*) FROM recipients WHERE {waits}) + (SELECT count(*) FROM notices)"
            ).fetchone()
        return bool(count == 0)

    def rows(self) -> list[Row]:
        with self._look() as db:
            return [Row(*row) for row in db.execute(_ROWS)]

    def _look(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self.spool, isolation_level=None, timeout=20))

    def _audit_keys(self, rows: list[Row]) -> None:
        """Every message that was acknowledged before the look is there, with all its recipients."""
        stored: dict[str, set[str]] = {}
        for row in rows:
            stored.setdefault(row.queue_id, set()).add(row.address)
        for key, queue_id in self.acknowledged.items():
            letter = Letter(self.seed, int(key.rpartition("-")[2]))
            if stored.get(queue_id) != set(letter.recipients):
                self._lose(queue_id, f"{key} was acknowledged as {queue_id}; the spool has {stored.get(queue_id)}")

    def _lose(self, queue_id: str, how: str) -> None:
        self.lost.add(queue_id)
        self.faults.append(how)


def _field(head: bytes, name: str) -> str:
    found = re.search(rf"(?im)^{name}:[ \t]*(.*?)\r?$", head.decode("utf-8", "replace"))
    return found[1].strip() if found else ""


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
