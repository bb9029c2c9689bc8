"""SQL of what can be looked at: read-only and forgiving: a damaged row is shown, it hides nothing.

Rules: `sending` is a waiting recipient that is claimed; nothing that is asked often counts rows.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence

import msgspec

from mta.model.envelope import DoubtOrder, Kind, MailClass, Notice
from mta.model.lifecycle import FINISHED, STORED, WAITING, Status
from mta.spool.base import (
    ClassCount,
    DestinationView,
    Filter,
    MessageView,
    Overview,
    RecipientView,
    TimelineEntry,
)
from mta.spool.rows import (
    as_class,
    as_member,
    as_number,
    as_text,
    as_time,
    deliver_by_of,
    first_id,
    last_id,
    message_flaw,
    reply_of,
)
from mta.spool.schema import MESSAGE_SHIFT, NOTABLE

LARGEST = 50
MATCHES = 100
COUNTED = 1000
"""Of what a person has to see to, so many are counted at most."""
_HELD_DOUBTS = f"""SELECT count(*) FROM (SELECT 1 FROM recipients INDEXED BY recipients_notable
    WHERE {NOTABLE} AND status = 'in_doubt' AND next_at IS NULL LIMIT ?)"""
_UNTOLD = """SELECT coalesce(sum(untold), 0) FROM
    (SELECT untold FROM messages INDEXED BY messages_untold WHERE untold LIMIT ?)"""
_FINISHED = "(" + ", ".join(f"'{status}'" for status in sorted(FINISHED)) + ")"


def find(db: sqlite3.Connection, ref: str) -> list[str]:
    """At most `MATCHES` queue ids, the oldest first."""
    rows = db.execute("SELECT queue_id FROM messages WHERE queue_id IN (?, upper(?))", (ref, ref)).fetchall()
    if not rows and ref.startswith("<"):
        rows = db.execute(
            "SELECT queue_id FROM messages WHERE message_id = ? ORDER BY id LIMIT ?", (ref, MATCHES)
        ).fetchall()
    if not rows:
        rows = db.execute(
            "SELECT queue_id FROM messages WHERE idempotency_key = ? ORDER BY id LIMIT ?", (ref, MATCHES)
        ).fetchall()
    return [queue_id for (queue_id,) in rows]


def show(db: sqlite3.Connection, busy: Collection[int], queue_id: str) -> MessageView | None:
    row = db.execute("SELECT id FROM messages WHERE queue_id = ?", (queue_id,)).fetchone()
    return None if row is None else _message(db, busy, row[0], with_timeline=True)


def queue(db: sqlite3.Connection, busy: Collection[int], wanted: Filter) -> tuple[list[MessageView], int]:
    condition, values = _condition(wanted, busy)
    origin = f"FROM messages m INDEXED BY messages_open WHERE m.unfinished > 0{condition}"
    total = db.execute(f"SELECT count(*) {origin}", values).fetchone()[0]
    page = db.execute(f"SELECT m.id {origin} ORDER BY m.id LIMIT :limit", {**values, "limit": wanted.limit})
    return [_message(db, busy, message) for (message,) in page.fetchall()], total


def _condition(wanted: Filter, busy: Collection[int]) -> tuple[str, dict[str, object]]:
    values: dict[str, object] = {"class": wanted.mail_class, "sender": wanted.sender, "older": wanted.older_than,
              "release": wanted.scheduled_after, "domain": wanted.domain.lower(),
              "busy": json.dumps(list(busy))}  # fmt: skip
    condition = "".join(
        text
        for text, given in (
            (" AND m.class = :class", wanted.mail_class is not None),
            (" AND m.reverse_path = :sender COLLATE NOCASE", wanted.sender is not None),
            (" AND m.accepted_at < :older", wanted.older_than is not None),
        )
        if given
    )
    recipient = f"r.id BETWEEN m.id << {MESSAGE_SHIFT} AND (m.id + 1 << {MESSAGE_SHIFT}) - 1 AND r.status NOT IN {_FINISHED}"
    if wanted.domain:
        recipient += " AND r.destination = :domain"
    if wanted.status is not None:
        recipient += _status_condition(wanted.status)
    if wanted.scheduled_after is not None:  # one that was tried is late and not scheduled, whatever the clock says now
        recipient += " AND r.status = 'pending' AND r.attempts = 0 AND r.next_at > :release"
        condition += " AND m.not_before > :release"
    if wanted.domain or wanted.status is not None or wanted.scheduled_after is not None:
        condition += f" AND EXISTS (SELECT 1 FROM recipients r WHERE {recipient})"
    return condition, values


def _status_condition(status: Status) -> str:
    claimed = "r.id IN (SELECT value FROM json_each(:busy)) AND r.status IN ('pending', 'in_doubt')"
    return f" AND {claimed}" if status is Status.SENDING else f" AND r.status = '{status.value}' AND NOT ({claimed})"


def needing_person(
    db: sqlite3.Connection, busy: Collection[int], limit: int, unreported: bool
) -> tuple[list[MessageView], int]:
    wanted = f"""SELECT id >> {MESSAGE_SHIFT} AS message FROM recipients INDEXED BY recipients_notable
        WHERE {NOTABLE} AND (status = 'dead' OR (status = 'in_doubt' AND next_at IS NULL))
        UNION SELECT id FROM messages INDEXED BY messages_damaged WHERE damaged <> '' AND unfinished > 0
        UNION SELECT id FROM messages INDEXED BY messages_untold WHERE untold"""
    if unreported:
        wanted += f" UNION SELECT recipient >> {MESSAGE_SHIFT} FROM notices WHERE kind = '{Notice.REPORT}'"
    total = db.execute(f"SELECT count(*) FROM ({wanted})").fetchone()[0]
    page = db.execute(f"SELECT message FROM ({wanted}) ORDER BY message LIMIT ?", (limit,)).fetchall()
    return [_message(db, busy, message) for (message,) in page], total


def damaged(db: sqlite3.Connection) -> tuple[str, ...]:
    """The queue ids in quarantine that are not ended."""
    wanted = "FROM messages INDEXED BY messages_damaged WHERE damaged <> '' AND unfinished > 0"
    rows = db.execute(f"SELECT queue_id {wanted} ORDER BY id")
    return tuple(as_text(queue_id) for (queue_id,) in rows)


_MESSAGE = """SELECT queue_id, message_id, reverse_path, subject, size, class, kind, accepted_at, expires_at, damaged,
    octets, idempotency_key, scope, doubt_order, eight_bit, duplicates, duplicate_at,
    deliver_by, by_mode, by_trace, not_before, priority, ret, envid, utf8, submitter, untold,
    require_tls, tls_optional FROM messages WHERE id = ?"""
_RECIPIENTS = """SELECT id, address, original, status, attempts, doubts, next_at, finished_at, remote_host, remote_address,
    remote_id, notify, orcpt, category, reply_code, reply_enhanced, reply_text,
    (SELECT min(h.destination) FROM standing_holds h WHERE h.destination IN ('*', recipients.destination))
    FROM recipients WHERE id BETWEEN ? AND ? ORDER BY id"""


def _message(db: sqlite3.Connection, busy: Collection[int], message: int, *, with_timeline: bool = False) -> MessageView:
    row = db.execute(_MESSAGE, (message,)).fetchone() or (None,) * 29
    queue_id, message_id, reverse_path, subject, size, mail_class, kind, accepted, expires, damaged, octets = row[:11]
    key, scope, order, eight_bit, *repeats = row[11:17]
    *deadline, not_before, priority, ret, envid, utf8, submitter, untold, require_tls, tls_optional = row[17:]
    recipients = db.execute(_RECIPIENTS, (first_id(message), last_id(message))).fetchall()
    return MessageView(
        queue_id=as_text(queue_id), message_id=as_text(message_id), reverse_path=as_text(reverse_path),
        subject=as_text(subject), size=int(as_number(size)), mail_class=as_class(mail_class),
        kind=as_member(Kind, kind, Kind.MAIL), accepted_at=as_number(accepted), expires_at=as_number(expires),
        key=as_text(key), scope=as_text(scope), in_doubt=as_member(DoubtOrder, order, DoubtOrder.DEFAULT),
        eight_bit=bool(eight_bit),
        damaged=as_text(damaged) or message_flaw(reverse_path, mail_class, kind, (accepted, expires), octets,
                                                 (deadline[0], deadline[1])),
        recipients=tuple(_recipient(recipient, recipient[0] in busy) for recipient in recipients),
        timeline=_timeline(db, message, as_number(accepted), size, repeats) if with_timeline else (),
        deliver_by=deliver_by_of(*deadline), not_before=as_time(not_before), priority=int(as_number(priority)),
        ret=as_text(ret), envid=as_text(envid), utf8=bool(utf8), submitter=as_text(submitter),
        untold=int(as_number(untold)), require_tls=bool(require_tls), tls_optional=bool(tls_optional),
    )  # fmt: skip


def _recipient(row: tuple[object, ...], claimed: bool) -> RecipientView:
    _, address, original, stored, attempts, doubts, next_at, finished_at, host, remote_address = row[:10]
    remote_id, notify, orcpt, category, *reply, hold = row[10:]
    status = as_member(Status, stored, Status.PENDING)
    shown = Status.SENDING if claimed and status in WAITING else status
    return RecipientView(
        address=as_text(address), original=as_text(original), status=shown, attempts=int(as_number(attempts)),
        doubts=int(as_number(doubts)), next_attempt_at=as_time(next_at) if shown in WAITING else None,
        finished_at=as_time(finished_at), remote_host=as_text(host), remote_address=as_text(remote_address),
        remote_id=as_text(remote_id), reply=reply_of(*reply),
        standing_hold=as_text(hold) if shown in WAITING else "", notify=as_text(notify), orcpt=as_text(orcpt),
        category=as_text(category),
    )  # fmt: skip


def _timeline(
    db: sqlite3.Connection, message: int, accepted_at: float, size: object, repeats: Sequence[object]
) -> tuple[TimelineEntry, ...]:
    """In the order of time; all duplicates that were refused are one entry, at the last of them."""
    rows = db.execute("SELECT at, event, recipient, detail FROM timeline WHERE message = ? ORDER BY seq", (message,))
    entries = [TimelineEntry(accepted_at, "accepted", "", {"size": int(as_number(size))})]
    for at, event, who, detail in rows:
        entries.append(TimelineEntry(as_number(at), as_text(event), as_text(who), _detail(detail)))
    count, last = (as_number(value) for value in repeats)
    if count:
        place = next((i for i, it in enumerate(entries) if i and it.at > last), len(entries))
        entries.insert(place, TimelineEntry(last, "duplicate", "", {"count": int(count)}))
    return tuple(entries)


def _detail(stored: object) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(as_text(stored), type=dict[str, object])
    except msgspec.DecodeError:
        return {"unreadable": as_text(stored)}


def overview(db: sqlite3.Connection, busy: Collection[int], now: float) -> Overview:
    counted = {(status, mail_class): n for status, mail_class, n in db.execute("SELECT status, class, n FROM counters")}
    sending = _statuses_of(db, busy)
    stored = {status: sum(counted.get((status.value, one), 0) for one in MailClass) for status in STORED}
    recipients: dict[Status, int] = {status: stored[status] - sending.get(status, 0) for status in STORED}
    tallies = dict(db.execute("SELECT name, n FROM tallies").fetchall())
    return Overview(
        recipients={**recipients, Status.SENDING: sum(sending.values())},
        classes={mail_class: _class_count(db, counted, mail_class, now) for mail_class in MailClass},
        damaged=tallies.get("damaged", 0),
        untold=db.execute(_UNTOLD, (COUNTED,)).fetchone()[0],
        held_destinations=tuple(name for (name,) in db.execute("SELECT destination FROM standing_holds")),
        largest=tuple(
            DestinationView(name, waiting, as_text(reply))
            for name, waiting, reply in db.execute(
                """SELECT destination, waiting, last_reply FROM destinations WHERE waiting > 0
                ORDER BY waiting DESC, destination LIMIT ?""",
                (LARGEST,),
            )
        ),
        held_doubts=db.execute(_HELD_DOUBTS, (COUNTED,)).fetchone()[0],
    )


_START = "max(accepted_at, coalesce(not_before, accepted_at))"
_OLDEST = f"""SELECT {_START} FROM messages INDEXED BY messages_open WHERE unfinished > 0 AND (waiting = 0) = 0
    AND class = ? AND {_START} <= ? ORDER BY {_START} LIMIT 1"""


def _statuses_of(db: sqlite3.Connection, busy: Collection[int]) -> dict[Status, int]:
    """How many of the claimed recipients wait, by stored status."""
    rows = db.execute(
        """SELECT status, count(*) FROM recipients WHERE id IN (SELECT value FROM json_each(?)) AND waiting
        GROUP BY status""",
        (json.dumps(list(busy)),),
    )
    return {Status(status): n for status, n in rows if status in WAITING}


def _class_count(
    db: sqlite3.Connection, counted: Mapping[tuple[str, int], int], mail_class: MailClass, now: float
) -> ClassCount:
    oldest = db.execute(_OLDEST, (int(mail_class), now)).fetchone()
    waiting = sum(counted.get((status.value, mail_class), 0) for status in WAITING)
    return ClassCount(waiting, as_time(oldest[0]) if oldest else None)
