"""Migrations: in order, each whole or not at all."""

import contextlib
import sqlite3

import pytest

from mta.spool import schema


def version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_each_step_is_taken_once_in_order() -> None:
    first, second = ("CREATE TABLE a (x)",), ("ALTER TABLE a ADD COLUMN y", "INSERT INTO a VALUES (1, 2)")
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        schema.migrate(db, (first,))
        assert version(db) == 1
        for _ in range(2):
            schema.migrate(db, (first, second))
            assert version(db) == 2
            assert db.execute("SELECT x, y FROM a").fetchall() == [(1, 2)]


def test_a_step_that_fails_leaves_the_version_before_it() -> None:
    first, broken = ("CREATE TABLE a (x)",), ("CREATE TABLE b (x)", "CREATE TABLE a (x)")
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        with pytest.raises(sqlite3.OperationalError):
            schema.migrate(db, (first, broken))
        assert version(db) == 1
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("a",)]
