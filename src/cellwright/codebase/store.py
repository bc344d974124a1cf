"""The index of one project on disk: an SQLite file in the cache folder, written by one process and read by many.

An `IndexRequest` is the task of the process that writes it.

A file's rows are replaced in one transaction, so a reader sees it old or new. Words and texts are in FTS5 tables without
content, in which nothing can be deleted: each version of a file has an id of its own, and what is dead is left out by
joining with the living. It is a cache: what is damaged or of another version is thrown away and made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from msgspec import Struct

from cellwright.sessions.state_dir import make_private_folder

if TYPE_CHECKING:
    import sqlite3

BUSY = 3
"""The answer of an indexer that found another one at work, for longer than it was to wait."""

NICENESS = 10
"""Of the processes that fill an index: what the user waits for comes first."""

VERSION = 3
"""Of the tables, and of what is put into them."""

_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE job (
  priority INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, total INTEGER NOT NULL, left INTEGER NOT NULL);
CREATE TABLE file (
  id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT UNIQUE NOT NULL, language TEXT NOT NULL, parser TEXT NOT NULL,
  size INTEGER NOT NULL, mtime INTEGER NOT NULL, hash BLOB, lines INTEGER NOT NULL, cells TEXT NOT NULL DEFAULT '',
  texts INTEGER NOT NULL DEFAULT 0);
CREATE INDEX file_texts ON file (texts) WHERE texts = 0;
CREATE TABLE symbol (
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL, name TEXT NOT NULL, qualified TEXT NOT NULL,
  kind TEXT NOT NULL, line INTEGER NOT NULL, end_line INTEGER NOT NULL, parent INTEGER, signature TEXT NOT NULL,
  doc TEXT NOT NULL, declared INTEGER NOT NULL, cyclomatic INTEGER NOT NULL, cognitive INTEGER NOT NULL,
  nesting INTEGER NOT NULL);
CREATE INDEX symbol_name ON symbol (name);
CREATE INDEX symbol_lower ON symbol (lower(name));
CREATE INDEX symbol_file ON symbol (file);
CREATE TABLE call (name TEXT NOT NULL, file INTEGER NOT NULL, caller INTEGER, line INTEGER NOT NULL);
CREATE INDEX call_name ON call (name);
CREATE INDEX call_file ON call (file);
CREATE TABLE import (module TEXT NOT NULL, file INTEGER NOT NULL, names TEXT NOT NULL, line INTEGER NOT NULL);
CREATE INDEX import_file ON import (file);
CREATE TABLE unit (
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, symbol INTEGER, line INTEGER NOT NULL,
  end_line INTEGER NOT NULL, vector BLOB);
CREATE INDEX unit_file ON unit (file);
CREATE INDEX unit_vector ON unit (vector);
CREATE TABLE vector (hash BLOB PRIMARY KEY, scale REAL NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE vector_bits (hash BLOB PRIMARY KEY, bits BLOB NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE word USING fts5 (
  words, content='', detail=none, tokenize="unicode61 remove_diacritics 0 tokenchars '_$'");
CREATE VIRTUAL TABLE unit_text USING fts5 (name, body, content='', tokenize="porter unicode61");
PRAGMA user_version = {VERSION};
"""


class IndexRequest(Struct, frozen=True):
    """The task of an indexer. `listing` is the command that lists the project's files, each with a NUL byte behind it.

    `restrictions` are the deny and ask rules in force, each with what its `/x` paths start from: files that one of them
    keeps from being read are left out. `wait_seconds`: for another indexer to end. `check`: look for damage first;
    `rebuild`: begin anew. `keep_seconds`: the process ends when no other request has come for so long after this one.
    """

    root: str
    database: str
    listing: Sequence[str]
    restrictions: Sequence[tuple[str, str]] = ()
    wait_seconds: float = 5.0
    check: bool = False
    rebuild: bool = False
    keep_seconds: float = 60.0


def index_folder() -> Path:
    """The folder of all indexes: `index` in `$CELLWRIGHT_HOME`, or else in the platform's cache folder."""
    if home := os.environ.get("CELLWRIGHT_HOME"):
        return Path(home).expanduser().absolute() / "index"

    return Path(platformdirs.user_cache_dir("cellwright", appauthor=False)) / "index"


def index_path(project: Path) -> Path:
    """The file of the index of the project at `project`: readable by its name, unique by its real path's hash."""
    real = project.resolve()
    name = re.sub(r"[^\w.-]+", "-", real.name)[:40] or "root"
    return index_folder() / f"{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}.sqlite"


def lock_path(database: Path) -> Path:
    """The file that who writes an index holds the lock of."""
    return database.with_suffix(".lock")


def vectors_lock_path(database: Path) -> Path:
    """The file that who embeds the texts of an index holds the lock of."""
    return database.with_suffix(".vectors.lock")


def agreement_path(database: Path) -> Path:
    """The file that says what the user has agreed to for this project; an index that is made anew does not undo that."""
    return database.with_suffix(".agreed")


def models_folder() -> Path:
    """The folder of downloaded models."""
    return index_folder() / "models"


def remove(database: Path) -> None:
    """Remove an index; by who holds its lock."""
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def open_to_write(database: Path, *, check: bool = False) -> sqlite3.Connection:
    """The index at `database`, by who holds its lock; made anew where there is none that can be used.

    `check`: look through all of it for damage first, which takes a second for each 100 MB.
    """
    make_private_folder(database.parent)
    try:
        connection = _opened(database)
        if _is_usable(connection, check=check):
            return connection
        connection.close()
    except sqlite3.DatabaseError:
        pass
    remove(database)
    connection = _opened(database)
    connection.executescript(_SCHEMA)
    return connection


def _opened(database: Path) -> sqlite3.Connection:
    database.touch(mode=0o600)
    connection = sqlite3.connect(database, timeout=30, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute("PRAGMA journal_size_limit = 16000000")
    return connection


def _is_usable(connection: sqlite3.Connection, *, check: bool) -> bool:
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        return False
    connection.execute("SELECT count(*) FROM meta").fetchone()
    return not check or connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"


@contextlib.contextmanager
def open_to_read(database: Path, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
    """The index at `database`, for one thread. Raises sqlite3.Error where there is none that can be used.

    `writes`: something is added to what is there, and waits for the indexer's own batches.
    """
    # not mode=ro: the first reader after a crash makes the log's shared memory anew
    connection = sqlite3.connect(
        f"{database.absolute().as_uri()}?mode=rw", uri=True, timeout=30 if writes else 2, isolation_level=None
    )
    try:
        if not writes:
            connection.execute("PRAGMA query_only = 1")
        if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            raise sqlite3.OperationalError("no index of this version")  # just being made, or to be made anew
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing of what is written within."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
