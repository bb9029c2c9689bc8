"""The SQLite spool's tables, their versions, and the birth of the file.

Rules: a spool comes into being whole (made beside, then renamed); what is not a spool of a known version is refused and
left as it is; a version never changes once released, a new one is added to `MIGRATIONS`.

Keys: a recipient's id and a chunk's id hold their message's id above `MESSAGE_SHIFT` bits, so both lie beside each other
in message order and need no index of their own. `waiting` is 1 for a recipient that a claim may take when it is due.
"""

import contextlib
import os
import sqlite3
from pathlib import Path

from mta.spool.base import SpoolDamaged

APPLICATION_ID = 0x6D746173
"""Says in the file's header that it is ours ("mtas")."""
MESSAGE_SHIFT = 20
"""A message has at most 2**20 recipients and 2**20 chunks."""

WITH_DEADLINE = "waiting AND next_at IS NOT NULL"
"""What the indexes of deadlines hold, beside having one; a query has to repeat it word for word."""
NOTABLE = "(status IN ('in_doubt', 'dead') OR requested <> '')"
"""The condition of the index that recovery and `needing_person` go by; a query has to repeat it word for word."""

_VERSION_1 = (
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY, queue_id TEXT NOT NULL UNIQUE, message_id TEXT, reverse_path TEXT, subject TEXT,
        size INTEGER, octets INTEGER, eight_bit INTEGER, class INTEGER, kind TEXT,
        accepted_at REAL, expires_at REAL, warn_at REAL, lifetime REAL,
        unfinished INTEGER NOT NULL, waiting INTEGER NOT NULL, finished_at REAL,
        scope TEXT NOT NULL DEFAULT '', idempotency_key TEXT, fingerprint TEXT NOT NULL DEFAULT '',
        duplicates INTEGER NOT NULL DEFAULT 0, duplicate_at REAL, doubt_order TEXT NOT NULL DEFAULT '',
        content_gone INTEGER NOT NULL DEFAULT 0, untold INTEGER NOT NULL DEFAULT 0,
        damaged TEXT NOT NULL DEFAULT '')""",
    "CREATE UNIQUE INDEX messages_by_key ON messages (idempotency_key, scope) WHERE idempotency_key IS NOT NULL",
    "CREATE INDEX messages_by_message_id ON messages (message_id)",
    "CREATE INDEX messages_open ON messages (waiting = 0, class) WHERE unfinished > 0",
    "CREATE INDEX messages_finished ON messages (content_gone, finished_at) WHERE finished_at IS NOT NULL",
    "CREATE INDEX messages_damaged ON messages (id) WHERE damaged <> ''",
    "CREATE INDEX messages_untold ON messages (id) WHERE untold",
    "CREATE TABLE content (id INTEGER PRIMARY KEY, chunk BLOB)",
    """CREATE TABLE recipients (
        id INTEGER PRIMARY KEY, address TEXT, original TEXT, destination TEXT, class INTEGER,
        status TEXT NOT NULL DEFAULT 'pending', waiting INTEGER NOT NULL DEFAULT 1,
        attempts INTEGER NOT NULL DEFAULT 0, doubts INTEGER NOT NULL DEFAULT 0, refusals INTEGER NOT NULL DEFAULT 0,
        warned INTEGER NOT NULL DEFAULT 0, bounced INTEGER NOT NULL DEFAULT 0,
        next_at REAL, overdue_at REAL, finished_at REAL,
        in_flight INTEGER NOT NULL DEFAULT 0, requested TEXT NOT NULL DEFAULT '', held_from TEXT NOT NULL DEFAULT '',
        remote_host TEXT NOT NULL DEFAULT '', remote_address TEXT NOT NULL DEFAULT '',
        remote_id TEXT NOT NULL DEFAULT '',
        doubt_host TEXT NOT NULL DEFAULT '', doubt_address TEXT NOT NULL DEFAULT '',
        reply_code INTEGER, reply_enhanced TEXT, reply_text TEXT)""",
    "CREATE INDEX recipients_due ON recipients (destination, class, next_at) WHERE waiting",
    "CREATE INDEX recipients_overdue ON recipients (destination, overdue_at) WHERE waiting",
    f"CREATE INDEX recipients_notable ON recipients (status) WHERE {NOTABLE}",
    """CREATE TABLE timeline (message INTEGER, seq INTEGER, at REAL, event TEXT, recipient TEXT, detail TEXT,
        PRIMARY KEY (message, seq)) WITHOUT ROWID""",
    """CREATE TABLE notices (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, step INTEGER NOT NULL, at REAL NOT NULL,
        recipient INTEGER NOT NULL, phase TEXT, remote_host TEXT,
        reply_code INTEGER, reply_enhanced TEXT, reply_text TEXT)""",
    "CREATE INDEX notices_by_kind ON notices (kind, step)",
    "CREATE INDEX notices_by_recipient ON notices (recipient)",
    "CREATE TABLE destinations (destination TEXT PRIMARY KEY, waiting INTEGER NOT NULL, last_reply TEXT) WITHOUT ROWID",
    "CREATE TABLE counters (status TEXT, class INTEGER, n INTEGER NOT NULL, PRIMARY KEY (status, class)) WITHOUT ROWID",
    "CREATE TABLE tallies (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE standing_holds (destination TEXT PRIMARY KEY) WITHOUT ROWID",
)
_VERSION_2 = (
    "ALTER TABLE messages ADD COLUMN priority INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE messages ADD COLUMN deliver_by REAL",
    "ALTER TABLE messages ADD COLUMN by_mode TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE messages ADD COLUMN by_trace INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE messages ADD COLUMN not_before REAL",
    "ALTER TABLE messages ADD COLUMN hold_request TEXT NOT NULL DEFAULT ''",
    "DROP INDEX messages_open",
    """CREATE INDEX messages_open ON messages (waiting = 0, class, max(accepted_at, coalesce(not_before, accepted_at)))
        WHERE unfinished > 0""",
    "ALTER TABLE recipients ADD COLUMN fails_at REAL",
    "ALTER TABLE recipients ADD COLUMN late_at REAL",
    "ALTER TABLE recipients ADD COLUMN sender INTEGER NOT NULL DEFAULT 0",
    "DROP INDEX recipients_due",
    "CREATE INDEX recipients_due ON recipients (destination, class, next_at, fails_at) WHERE waiting",
    f"CREATE INDEX recipients_fails ON recipients (fails_at) WHERE {WITH_DEADLINE} AND fails_at IS NOT NULL",
    f"CREATE INDEX recipients_late ON recipients (late_at) WHERE {WITH_DEADLINE} AND late_at IS NOT NULL",
)
"""`fails_at` is the deadline of what fails by it, `late_at` of what is only told late and was not yet; `sender` is a number
that stands for the sender (0 for all that came with version 1)."""
_VERSION_3 = (
    *(
        f"ALTER TABLE {table} ADD COLUMN {name} TEXT NOT NULL DEFAULT ''"
        for table, names in (("messages", ("ret", "envid", "submitter")), ("recipients", ("notify", "orcpt")))
        for name in names
    ),
    "ALTER TABLE messages ADD COLUMN utf8 INTEGER NOT NULL DEFAULT 0",
)
_VERSION_4 = (
    "ALTER TABLE messages ADD COLUMN require_tls INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE messages ADD COLUMN tls_optional INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE recipients ADD COLUMN category TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE recipients ADD COLUMN signed TEXT NOT NULL DEFAULT ''",
    """CREATE TABLE memories (kind TEXT, name TEXT, value TEXT NOT NULL, at REAL NOT NULL, expires_at REAL,
        PRIMARY KEY (kind, name)) WITHOUT ROWID""",
    "CREATE INDEX memories_by_end ON memories (expires_at) WHERE expires_at IS NOT NULL",
)
_BY_SENDER = """CREATE INDEX IF NOT EXISTS recipients_by_sender
    ON recipients (destination, class, sender, next_at, fails_at) WHERE waiting"""
_TABLES = """('messages', 'content', 'recipients', 'timeline', 'notices', 'destinations', 'counters', 'tallies',
    'standing_holds')"""
MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4)
"""Entry n makes version n + 1 out of version n."""


def create_missing(path: Path) -> None:
    """Makes a new spool where there is none, mode 0600, durable under its name. Raises `SpoolDamaged`, sqlite3.Error and
    OSError."""
    _refuse_remains(path)
    if path.exists():
        return
    young = path.with_name(path.name + ".new")
    young.unlink(missing_ok=True)
    descriptor = os.open(young, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    os.close(descriptor)
    with contextlib.closing(sqlite3.connect(young, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(db, MIGRATIONS)
    young.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def migrate(db: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> None:
    """Brings the schema to the version `len(migrations)`, each step a transaction."""
    for version in range(_pragma(db, "user_version"), len(migrations)):
        db.execute("BEGIN IMMEDIATE")
        try:
            for statement in migrations[version]:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def fit(db: sqlite3.Connection, by_sender: bool) -> None:
    """The index that turns by sender go by is there only while they are taken: each message would pay for it."""
    db.execute(_BY_SENDER if by_sender else "DROP INDEX IF EXISTS recipients_by_sender")


def check(db: sqlite3.Connection, path: Path) -> None:
    """Raises `SpoolDamaged` unless this is a spool of a version that we know."""
    try:
        application, version = _pragma(db, "application_id"), _pragma(db, "user_version")
        tables = db.execute(f"SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN {_TABLES}").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise
        raise _refusal(path, f"is damaged or is no SQLite database ({error})") from None
    if application != APPLICATION_ID:
        raise _refusal(path, "is a database of another program")
    if version > len(MIGRATIONS):
        raise SpoolDamaged(
            f"the spool {path} was written by a newer mta (schema {version}, this one knows up to {len(MIGRATIONS)}); "
            "it was left as it is: run the newer mta, or name another file"
        )
    if not version or tables != (9,):
        raise _refusal(path, "lacks tables that a spool has")


def _refuse_remains(path: Path) -> None:
    """Raises `SpoolDamaged` for an empty file, or a journal whose spool is gone: a new spool in its place would hide the
    loss."""
    wal = path.with_name(path.name + "-wal")
    if path.exists() and path.stat().st_size == 0:
        raise _refusal(path, "is an empty file")
    if not path.exists() and wal.exists():
        raise _refusal(path, f"is gone, but its journal {wal} is there")


def _refusal(path: Path, what: str) -> SpoolDamaged:
    return SpoolDamaged(
        f"the spool {path} {what}; it was left as it is: restore a backup, or move it away to begin a new one"
    )


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
