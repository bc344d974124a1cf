"""The catalog's file, and how it is brought up to date with the transcripts: what has not changed is not read.

It is SQLite with FTS5, in the state folder, for the user alone, used by many processes at once. Nothing in it is needed: it
is made from the transcripts. A file that is damaged is put away and made anew, one with another schema is emptied. If it
cannot be used at all (a folder that cannot be written to, a file that stays locked), the catalog is made in memory for
the moment.

Each word is found at the beginning of words, whatever its accents and case; what stands in "quotes" is found as it
stands. Chinese and Japanese are written without spaces: there each character counts as a word, and several as a
phrase.

Transcripts have changed if their sizes or times have. Any number of processes may look at once. A transcript is read
outside of a transaction; what came of it is written only if the row is still what the reading went on from. Rows are
written a few at a time: a crash loses the last few, and the next time they are read again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.metadata import (
    ReadPosition,
    SearchableText,
    SessionMetadata,
    TranscriptExtract,
    WholeTranscript,
    about_path,
    read_about,
    read_on,
    read_whole,
    shown_tags,
)
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder
from cellwright.sessions.transcripts import transcript_lock as lease
from cellwright.sessions.transcripts.transcript import NO_MESSAGES
from cellwright.text import lazy_pattern

_Result = TypeVar("_Result")

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


HIT_BEGIN, HIT_END = "⟪", "⟫"

_BORDER = "\u200b"
"""A character of no width, between characters that are words each; FTS5 takes it for a space."""

# Hiragana, Katakana, ideographs with their extensions; Thai, Lao, Khmer and Burmese know no spaces either
_UNSPACED = lazy_pattern(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)
_WORDS = lazy_pattern(r'"([^"]*)"?|([^\s"]+)')
_HITS = str.maketrans({HIT_BEGIN: "«", HIT_END: "»", "\0": " "})


UNREADABLE = ReadPosition(0, 0, 0)

_TRANSCRIPT, _ABOUT = ".jsonl", about_path(Path("x.jsonl")).suffix

_ROW = "id, path, size, mtime, about_size, about_mtime, read_size, read_check, epoch, damaged"


def with_database(path: Path, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
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


def indexed(text: str) -> str:
    """`text` as it goes into the index: hits can be marked in it, and halves of surrogate pairs are gone."""
    text = text.translate(_HITS)
    if text.isascii():
        return text
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _UNSPACED.sub(f"{_BORDER}\\1{_BORDER}", text)


def shown(snippet: str) -> str:
    """A snippet of an indexed text, in one line."""
    snippet = snippet.replace(f"{HIT_END}{_BORDER}{HIT_BEGIN}", "").replace(_BORDER, "")
    return " ".join(snippet.split())


def terms(query: str) -> list[str]:
    """The query's words, each as an FTS5 string; none where there is nothing to search for."""
    found: list[str] = []
    for phrase, word in _WORDS.findall(indexed(query[:1_000])):
        text = phrase or word
        if any(character.isalnum() for character in text):
            quoted = text.replace('"', '""')
            found.append(f'"{quoted}"' if phrase else f'"{quoted}"*')
    return list(dict.fromkeys(found))[:20]


class FileStamp(NamedTuple):
    """By what it is told whether a session has changed: size and time of its transcript, and of what is known besides."""

    size: int
    mtime: int
    about_size: int
    about_mtime: int


class IndexedSession(Struct, frozen=True):
    """A session that is in the catalog, as far as it was read."""

    id: int
    stamp: FileStamp
    position: ReadPosition
    damaged: bool


class _Change(Struct, frozen=True):
    """The update of one session. `known` is what it goes on from; None of the parts: they stay as they are."""

    path: Path
    stamp: FileStamp
    indexed: IndexedSession | None
    whole: WholeTranscript | None = None
    more: TranscriptExtract | None = None
    about: SessionMetadata | None = None


def catch_up(connection: sqlite3.Connection, sessions: Path, folder: str | None) -> int:
    """Bring the sessions below the folder `sessions` up to date, all or those of the project folder named `folder`.

    Gives how many were read, wholly or in part.
    """
    count = 0
    # what another process was faster with is looked at again: it may have read less
    for _ in range(5):
        read, all_written = _catch_up_once(connection, sessions, folder)
        count += read
        if all_written:
            break
    return count


def _catch_up_once(connection: sqlite3.Connection, sessions: Path, folder: str | None) -> tuple[int, bool]:
    """The count of those read, and whether all was written: no other process was faster, which may have read less."""
    # in this order: what another process adds meanwhile is not taken for gone
    where, values = ("WHERE folder = ?", (folder,)) if folder is not None else ("", ())
    rows = connection.execute(f"SELECT {_ROW} FROM session {where}", values)
    known = {path: _row(session, *rest) for session, path, *rest in rows}
    on_disk = _transcripts(sessions, folder)
    if gone := [row.id for path, row in known.items() if path not in on_disk]:
        with transaction(connection):
            for session in gone:
                _delete_texts(connection, "session = ?", (session,))
                connection.execute("DELETE FROM session WHERE id = ?", (session,))
            # the index keeps the words of what is deleted until its parts are put together
            connection.execute("INSERT INTO words(words) VALUES ('optimize')")
    changed = [path for path, stamp in on_disk.items() if path not in known or known[path].stamp != stamp]
    # the ones written last first: a process that is ended has then done what is asked for most
    changed.sort(key=lambda path: on_disk[path].mtime, reverse=True)
    changes = (change for path in changed if (change := _read(Path(path), on_disk[path], known.get(path))) is not None)
    all_written = True
    # so many sessions are written in one transaction
    while some := list(islice(changes, 20)):
        with transaction(connection):
            for change in some:
                all_written = _write(connection, change) and all_written
    return len(changed), all_written


def _transcripts(sessions: Path, folder: str | None) -> dict[str, FileStamp]:
    """The transcripts that are there, by their paths."""
    found: dict[str, FileStamp] = {}
    for project in [sessions / folder] if folder is not None else _folders(sessions):
        files = dict(_files(project))
        for name, (size, mtime) in files.items():
            if name.endswith(_TRANSCRIPT) and size:
                about = files.get(f"{name.removesuffix(_TRANSCRIPT)}{_ABOUT}", (0, 0))
                # no Path: there are thousands, and each time
                found[f"{project}{os.sep}{name}"] = FileStamp(size, mtime, *about)
    return found


def _folders(sessions: Path) -> list[Path]:
    try:
        with os.scandir(sessions) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _files(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.endswith((_TRANSCRIPT, _ABOUT)):
                    continue
                try:
                    status = os.stat(entry.path)  # noqa: PTH116  Windows' entries tell old sizes, and Path costs time here
                except OSError:
                    continue  # deleted while we look
                yield entry.name, (status.st_size, status.st_mtime_ns)
    except OSError:
        return


def _row(session: int, *rest: int) -> IndexedSession:
    return IndexedSession(session, FileStamp(*rest[:4]), ReadPosition(*rest[4:7]), bool(rest[7]))


def _read(path: Path, stamp: FileStamp, indexed: IndexedSession | None) -> _Change | None:
    """Read what has changed in a session; None when it was deleted meanwhile."""
    about = read_about(path)
    try:
        if indexed is not None and not indexed.damaged:
            if indexed.stamp[:2] == stamp[:2]:
                return _Change(path, stamp, indexed, about=about)
            if (more := read_on(path, indexed.position)) is not None:
                return _Change(path, stamp, indexed, more=more, about=about)
        return _Change(path, stamp, indexed, whole=read_whole(path), about=about)
    except OSError:
        return None  # it was deleted, or may be read the next time
    except (CellwrightError, *NO_MESSAGES):  # one such file must not hide all others
        if not path.exists():
            return None
        unreadable = WholeTranscript(
            "", stamp.mtime / 1e9, "", "", TranscriptExtract(UNREADABLE, stamp.mtime / 1e9, damaged=True)
        )
        return _Change(path, stamp, indexed, whole=unreadable, about=about)


def _write(connection: sqlite3.Connection, change: _Change) -> bool:
    """Write the update of one session; False where another process has done so since it was read."""
    row = connection.execute(f"SELECT {_ROW} FROM session WHERE path = ?", (str(change.path),)).fetchone()
    now = None if row is None else _row(row[0], *row[2:])
    if now != change.indexed:
        return False
    session = now.id if now is not None else None
    if change.whole is not None:
        session = _write_whole(connection, change, session)
    elif change.more is not None and session is not None:
        _write_more(connection, change.more, session)
    assert session is not None, "what is not known is read as a whole"
    _write_about(connection, change.about or SessionMetadata(), session)
    connection.execute(
        "UPDATE session SET size = ?, mtime = ?, about_size = ?, about_mtime = ? WHERE id = ?", (*change.stamp, session)
    )
    return True


def _write_whole(connection: sqlite3.Connection, change: _Change, session: int | None) -> int:
    assert change.whole is not None
    whole, reading = change.whole, change.whole.reading
    if session is not None:
        _delete_texts(connection, "session = ?", (session,))
    values = {
        "path": str(change.path),
        "folder": change.path.parent.name,
        **dict.fromkeys(("size", "mtime", "about_size", "about_mtime"), 0),
        "cwd": whole.cwd,
        "created": whole.created,
        "forked_from": whole.forked_from,
        "parent": whole.parent,
        "title": "",
        "title_by": "",
        "tags": "",
        **_facts(reading),
        "turns": reading.turns,
        "cost_usd": reading.cost_usd,
        "model": reading.model,
        "first_words": indexed(reading.first_words),
    }
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    if session is None:
        session = connection.execute(f"INSERT INTO session({names}) VALUES ({marks})", values).lastrowid
        assert session is not None
    else:
        sets = ", ".join(f"{name} = :{name}" for name in values)
        connection.execute(f"UPDATE session SET {sets} WHERE id = :id", {**values, "id": session})
    _add_texts(connection, session, reading.searchable)
    return session


def _write_more(connection: sqlite3.Connection, more: TranscriptExtract, session: int) -> None:
    facts: Mapping[str, object] = {
        **_facts(more),
        "turns": more.turns,
        "cost_usd": more.cost_usd,
        "model": more.model,
        "first_words": indexed(more.first_words),
        "id": session,
    }
    connection.execute(
        """UPDATE session SET read_size = :read_size, read_check = :read_check, epoch = :epoch, damaged = :damaged,
        updated = max(updated, :updated), turns = turns + :turns, cost_usd = cost_usd + :cost_usd,
        model = CASE :model WHEN '' THEN model ELSE :model END,
        first_words = CASE first_words WHEN '' THEN :first_words ELSE first_words END WHERE id = :id""",
        facts,
    )
    _add_texts(connection, session, more.searchable)


def _facts(reading: TranscriptExtract) -> dict[str, float]:
    return {
        "read_size": reading.position.size,
        "read_check": reading.position.check,
        "epoch": reading.position.epoch,
        "damaged": int(reading.damaged),
        "updated": reading.updated,
    }


def _write_about(connection: sqlite3.Connection, about: SessionMetadata, session: int) -> None:
    """Title and tags, which can be searched for as well."""
    title = indexed(about.title)
    connection.execute(
        "UPDATE session SET title = ?, title_by = ?, tags = ? WHERE id = ?",
        (title, about.by, " ".join(about.tags), session),
    )
    _delete_texts(connection, "session = ? AND who = 'title'", (session,))
    if about.title or about.tags:
        _add_texts(connection, session, [SearchableText("title", f"{about.title} {shown_tags(about.tags)}".strip())])


def _add_texts(connection: sqlite3.Connection, session: int, texts: Sequence[SearchableText]) -> None:
    for each in texts:
        text = indexed(each.text)
        row = connection.execute("INSERT INTO said(session, who, text) VALUES (?, ?, ?)", (session, each.who, text))
        connection.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row.lastrowid, text))


def _delete_texts(connection: sqlite3.Connection, where: str, values: Sequence[int]) -> None:
    # the index must be told the very text that it has for a row
    rows = f"SELECT 'delete', id, text FROM said WHERE {where}"
    connection.execute(f"INSERT INTO words(words, rowid, text) {rows}", values)
    connection.execute(f"DELETE FROM said WHERE {where}", values)
