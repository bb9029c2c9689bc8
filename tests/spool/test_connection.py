"""What an error leaves on a connection: nothing."""

import sqlite3
from pathlib import Path

import pytest

from mta.spool.connection import complete, open_reader, open_writer, snapshot
from mta.spool.schema import create_missing


def half_way(db: sqlite3.Connection) -> None:
    """Fails while a statement is open."""
    rows = db.execute("SELECT 1 UNION SELECT name FROM tallies UNION SELECT 2")
    next(rows)
    raise sqlite3.OperationalError("disk I/O error")


def count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM tallies").fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_missing(tmp_path / "spool.db")
    return tmp_path / "spool.db"


def test_a_reader_sees_what_is_new_after_an_error_that_somebody_still_holds(path: Path):
    writer, reader = open_writer(path), open_reader(path)
    with pytest.raises(sqlite3.OperationalError) as held:
        snapshot(half_way, reader)
    writer.execute("INSERT INTO tallies VALUES ('untold', 1)")
    assert snapshot(count, reader) == 1, held
    writer.close()
    reader.close()


def test_a_writer_can_write_after_an_error_that_somebody_still_holds(path: Path):
    writer, other = open_writer(path), open_writer(path)
    with pytest.raises(sqlite3.OperationalError) as held:
        complete(half_way, writer)
    other.execute("INSERT INTO tallies VALUES ('untold', 1)")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("COMMIT")
    assert complete(count, writer) == 1, held
    writer.close()
    other.close()
