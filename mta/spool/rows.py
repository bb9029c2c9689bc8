"""Rows and values: how a recipient is read and changed, and what makes a row unfit.

Rules: what is read was perhaps damaged: `flaw_of` decides whether a message may be tried, views read whatever there is.
Every change of status goes through `move`, or `mark_sent`, which keep the counts.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import TypeVar

import msgspec

from mta.model.address import AddressError, parse_address
from mta.model.envelope import ByMode, DeliverBy, Kind, MailClass
from mta.model.lifecycle import FINISHED, WAITING, Event, Status, after
from mta.model.reply import Reply
from mta.spool.batch import Effects, Sum
from mta.spool.schema import MESSAGE_SHIFT

E = TypeVar("E", bound=StrEnum)


def first_id(message: int) -> int:
    """The lowest id that a recipient or chunk of this message can have."""
    return message << MESSAGE_SHIFT


def last_id(message: int) -> int:
    return (message + 1 << MESSAGE_SHIFT) - 1


def message_of(recipient: int) -> int:
    return recipient >> MESSAGE_SHIFT


class RecipientRow(msgspec.Struct):
    """A recipient as the writing verbs change it. The first eight columns never change; the last seven are its message's."""

    id: int
    address: str
    original: str
    notify: str
    destination: str
    mail_class: int
    fails_at: float | None
    queue_id: str
    status: str
    waiting: int
    attempts: int
    doubts: int
    refusals: int
    warned: int
    bounced: int
    next_at: float | None
    overdue_at: float
    late_at: float | None
    finished_at: float | None
    in_flight: int
    requested: str
    held_from: str
    remote_host: str
    remote_address: str
    remote_id: str
    doubt_host: str
    doubt_address: str
    signed: str
    category: str
    reply_code: int | None
    reply_enhanced: str | None
    reply_text: str | None
    kind: str
    reverse_path: str
    damaged: str
    expires_at: float
    lifetime: float
    doubt_order: str


_CLASSES, _KINDS, _MODES = frozenset(MailClass), frozenset(Kind), frozenset(ByMode)
_NAMES = RecipientRow.__struct_fields__
_CHANGING = _NAMES[_NAMES.index("status") : _NAMES.index("kind")]
_OF_MESSAGE = {"queue_id", *_NAMES[_NAMES.index("kind") :]}
_COLUMNS = ", ".join(
    "r.class" if name == "mail_class" else f"{'m' if name in _OF_MESSAGE else 'r'}.{name}" for name in _NAMES
)
_SELECT = f"SELECT {_COLUMNS} FROM recipients r JOIN messages m ON m.id = r.id >> {MESSAGE_SHIFT} "
_UPDATE = f"UPDATE recipients SET {', '.join(f'{name} = ?' for name in _CHANGING)} WHERE id = ?"
_values = attrgetter(*_CHANGING, "id")
_MARK = """UPDATE recipients SET status = ?, in_flight = 1, doubt_host = ?, doubt_address = ?, signed = ? WHERE id = ?"""


def recipients_where(db: sqlite3.Connection, condition: str, values: Iterable[object]) -> list[RecipientRow]:
    """Rows by a condition over `r` (recipients) and `m` (messages), one of this package's own texts."""
    return [RecipientRow(*row) for row in db.execute(_SELECT + condition, tuple(values))]


def recipient(db: sqlite3.Connection, recipient_id: int) -> RecipientRow | None:
    rows = recipients_where(db, "WHERE r.id = ?", (recipient_id,))
    return rows[0] if rows else None


def save(db: sqlite3.Connection, row: RecipientRow) -> None:
    db.execute(_UPDATE, _values(row))


def mark_sent(
    db: sqlite3.Connection, effects: Effects, recipient_id: int, host: str, address: str, signed: str
) -> bool:
    """The mark before the dot; False: the recipient waits no more. A whole row read and written would touch every index."""
    row = db.execute("SELECT status, class FROM recipients WHERE id = ? AND waiting", (recipient_id,)).fetchone()
    if row is None:
        return False
    status, mail_class = row
    marked = after(Status(status), Event.MARKED).value
    effects.change(Sum.COUNT, (status, mail_class), -1)
    effects.change(Sum.COUNT, (marked, mail_class), 1)
    db.execute(_MARK, (marked, host, address, signed, recipient_id))
    return True


def move(effects: Effects, row: RecipientRow, status: Status) -> None:
    """The recipient's new status, in `row` and in the counts; the caller saves the row. What is unfinished of a damaged
    message waits for nothing and is not counted."""
    waiting = int(status in WAITING and not row.damaged)
    if row.status in FINISHED or not row.damaged:
        effects.change(Sum.COUNT, (row.status, row.mail_class), -1)
    if status in FINISHED or not row.damaged:
        effects.change(Sum.COUNT, (status.value, row.mail_class), 1)
    message = message_of(row.id)
    if waiting != row.waiting:
        effects.change(Sum.WAITING, row.destination, waiting - row.waiting)
        effects.change(Sum.WAITING_OF, message, waiting - row.waiting)
    if ended := (status in FINISHED) - (row.status in FINISHED):
        effects.change(Sum.UNFINISHED_OF, message, -ended)
    row.status, row.waiting = status.value, waiting
    if status in FINISHED:
        row.next_at, row.finished_at = None, effects.now
    else:
        row.finished_at = None


def ring(effects: Effects, row: RecipientRow) -> None:
    """Tells of a recipient that is free again, if it is to be tried."""
    if row.waiting and row.next_at is not None:
        effects.ring(row.destination, row.next_at, as_class(row.mail_class))
        effects.deadlines |= row.fails_at is not None or row.late_at is not None


def tell(
    db: sqlite3.Connection, effects: Effects, message: int, event: str, address: str, detail: Mapping[str, object]
) -> None:
    """One more entry of the message's timeline; what is empty in `detail` is left out."""
    kept = {key: value for key, value in detail.items() if value not in (None, "")}
    db.execute(
        """INSERT INTO timeline (message, seq, at, event, recipient, detail)
        VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM timeline WHERE message = ?1), ?2, ?3, ?4, ?5)""",
        (message, effects.now, event, address, msgspec.json.encode(kept).decode()),
    )


def reply_detail(reply: Reply) -> dict[str, object]:
    return {"code": reply.code, "enhanced": reply.enhanced, "text": reply.text}


def reply_of(code: object, enhanced: object, text: object) -> Reply | None:
    """A stored reply, None where there is none."""
    if text is None:
        return None
    return Reply(code if isinstance(code, int) else None, None if enhanced is None else as_text(enhanced), as_text(text))


def address_flaw(address: object) -> str:
    """Why a stored recipient's address can't be used, "" if it can."""
    if not isinstance(address, str) or not address:
        return "a recipient's address is missing"
    try:
        parse_address(address, utf8=True)
    except AddressError as error:
        return f"a recipient's address is unusable: {error}"
    return ""


def message_flaw(
    reverse_path: object, mail_class: object, kind: object, times: Iterable[object], octets: object,
    deadline: tuple[object, object],
) -> str:  # fmt: skip
    """Why a stored message can't be tried, "" if it can; `deadline` is its instant and its mode."""
    if not isinstance(reverse_path, str) or (reverse_path and address_flaw(reverse_path)):
        return "the reverse-path is unusable"
    if mail_class not in _CLASSES or kind not in _KINDS:
        return "the class or kind is unknown"
    if not all(isinstance(time, float) for time in times):
        return "a time is missing"
    if not isinstance(octets, int) or octets <= 0:
        return "the content's size is missing"
    at, mode = deadline
    if not (isinstance(at, float) and mode in _MODES if mode else at is None):
        return "the deadline is unusable"
    return ""


def deliver_by_of(at: object, mode: object, trace: object) -> DeliverBy | None:
    """A stored deadline, None where there is none."""
    if not isinstance(at, int | float) or mode not in _MODES:
        return None
    return DeliverBy(float(at), ByMode(as_text(mode)), bool(trace))


def as_text(value: object) -> str:
    """Whatever is stored, as text for a view."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def as_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def as_time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def as_member(kind: type[E], value: object, otherwise: E) -> E:
    try:
        return kind(value) if isinstance(value, str) else otherwise
    except ValueError:
        return otherwise


def as_class(value: object) -> MailClass:
    return MailClass(value) if isinstance(value, int) and value in _CLASSES else MailClass.NORMAL
