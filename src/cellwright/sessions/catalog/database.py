"""The catalog's file: SQLite with FTS5, in the state folder, for the user alone, used by many processes at once.

Nothing in it is needed: it is made from the transcripts. A file that is damaged is put away and made anew, one with
another schema is emptied. If it cannot be used at all (a folder that cannot be written to, a file that stays locked),
the catalog is made in memory for the moment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder
from cellwright.sessions.transcripts import transcript_lock as lease

T = TypeVar("T")

SCHEMA_VERSION = 2
BUSY_SECONDS = 5.0

_SCHEMA = """
CREATE TABLE session(
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, folder TEXT NOT NULL,
  size INTEGER NOT NULL, mtime INTEGER NOT NULL, about_size INTEGER NOT NULL, about_mtime INTEGER NOT NULL,
  read_size INTEGER NOT NULL, read_check INTEGER NOT NULL, epoch INTEGER NOT NULL, damaged INTEGER NOT NULL,
  cwd TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, turns INTEGER NOT NULL, cost_usd REAL,
  model TEXT NOT NULL, forked_from TEXT NOT NULL, parent TEXT NOT NULL, first_words TEXT NOT NULL,
  title TEXT NOT NULL, title_by TEXT NOT NULL, tags TEXT NOT NULL);
CREATE INDEX session_folder ON session(folder, updated, mtime);
CREATE INDEX session_updated ON session(updated, mtime);
CREATE TABLE said(id INTEGER PRIMARY KEY, session INTEGER NOT NULL, who TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX said_session ON said(session);
CREATE VIRTUAL TABLE words USING fts5(text, content='said', content_rowid='id', prefix='2 3',
  tokenize="unicode61 remove_diacritics 2");
"""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
"""SQLITE_ERROR: a table that is not there, or is another one; our own statements are right."""

logger = logging.getLogger(__name__)


def with_database(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """Return the result of `work` on the catalog at `path`; when it is damaged, on a new one; else on one in memory.

    `work` may be called more than once. Raises `CellwrightError` where SQLite cannot search texts.
    """
    for _ in range(2):
        try:
            with _opened(path) as connection:
                return work(connection)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _DAMAGED:
                logger.warning("the catalog of sessions cannot be used for now: %s", error)
                break
            logger.warning("the catalog of sessions is damaged and made anew: %s", error)
            if not _put_away(path):
                break
        except OSError as error:
            logger.warning("the catalog of sessions cannot be kept: %s", error)
            break
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        try:
            _make_schema(connection)
        except sqlite3.OperationalError as error:
            message = f"The list of sessions needs SQLite with FTS5. This Python has it not ({error}): use another one."
            raise CellwrightError(ErrorCode.SEARCH_SERVICE_ERROR, message) from error
        return work(connection)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    # opened for each use: a connection must not be shared between threads, nor live on in a forked process
    make_private_folder(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))  # SQLite would make it for all to read
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA secure_delete=ON")  # what is deleted is not left in the file
        if _version(connection) != SCHEMA_VERSION:
            _make_schema(connection)
        yield connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def empty(connection: sqlite3.Connection) -> None:
    """Take everything out, the tables as well, and make them anew."""
    with transaction(connection):
        _make_tables(connection)


def _make_schema(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        if _version(connection) != SCHEMA_VERSION:  # else another process was faster
            _make_tables(connection)


def _make_tables(connection: sqlite3.Connection) -> None:
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    # virtual tables first: they take their own with them
    for (name,) in connection.execute(f"{names} ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC").fetchall():
        connection.execute('DROP TABLE IF EXISTS "{}"'.format(name.replace('"', '""')))
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block, or nothing of it; other processes wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # it may have been rolled back by what happened
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _put_away(path: Path) -> bool:
    """Delete the damaged catalog, unless another process has put a new one in its place. Whether one may go on."""
    try:
        seen = path.stat().st_ino
        owned = lease.acquire(path.with_suffix(".lease"), BUSY_SECONDS)
        if owned is None:
            return False
        try:
            if path.stat().st_ino == seen:
                for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
                    file.unlink(missing_ok=True)
        finally:
            owned.release()
    except FileNotFoundError:
        return True
    except OSError as error:
        logger.warning("the damaged catalog of sessions cannot be deleted: %s", error)
        return False
    return True
