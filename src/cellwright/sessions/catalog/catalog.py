"""The catalog of sessions: which there are, what was said in them, what they are called.

Each question brings the catalog up to date first, so that what was just said is found. All of it blocks (files,
SQLite) and belongs on a worker thread.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.api_messages import begins_turn_encoded, until_turn_ended
from cellwright.sessions.catalog import metadata as about
from cellwright.sessions.catalog.index import HIT_BEGIN, HIT_END, catch_up, empty, shown, terms, with_database
from cellwright.sessions.catalog.metadata import FIRST_WORDS_CHARS, about_path
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import journal_path, sessions_folder, state_folder
from cellwright.sessions.transcripts import transcript_lock as lease
from cellwright.sessions.transcripts.fork_point import delete_transcript, parent_path
from cellwright.sessions.transcripts.transcript import in_effect, read_transcript
from cellwright.sessions.transcripts.transcript_file import Line
from cellwright.sessions.transcripts.transcript_lock import is_held, lease_path
from cellwright.text import visible_line

T = TypeVar("T")

TITLE_COUNTS = 3.0
"""So much more than in a message a word counts in a title or as a tag."""

_ENTRY = (
    "session.id, path, title, title_by, tags, cwd, created, updated, turns, cost_usd, model, size, first_words, forked_from,"
    " parent, damaged"
)
_SHOWN = "(turns > 0 OR damaged)"
"""A session whose only prompt was refused holds nothing to go on with."""


TurnStart = tuple[int, float]
"""The line that a turn begins with, which forks have in common: its `seq` and its time."""


def delete_session(transcript: Path) -> None:
    """Delete the transcript with its title and tags, and the journal of what can be taken back.

    Where forks go on from it, its lines stay for them, and are deleted with the last.
    What files held before stays in `originals/`, where other sessions may need it, until it is too old. Raises
    `CellwrightError` SESSION_NOT_FOUND, and EXECUTION_ERROR while a process (this one counts) has the session open.
    """
    if not transcript.exists():
        message = f"Session {transcript.stem} was not found; nothing was deleted."
        raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
    try:
        owned = lease.acquire(lease_path(transcript), 0)
        if owned is None:
            raise _in_use(transcript)
        try:
            # the transcript first: after a crash there is no session that lost its title, but leftovers to sweep
            delete_transcript(transcript)
            delete_leftovers(transcript)
        finally:
            owned.release()
    except OSError as error:
        message = (
            f"The session {transcript.stem} cannot be deleted: {error}. Repair access to the folder, then try again."
        )
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message, details={"path": str(transcript)}) from error


def delete_leftovers(transcript: Path) -> None:
    """Delete what belongs to a transcript that is gone; its lease last, which keeps others away meanwhile."""
    journal = journal_path(transcript.stem)
    for path in (about_path(transcript), journal, transcript.with_suffix(".new"), lease_path(transcript)):
        with contextlib.suppress(PermissionError):  # Windows deletes no file that is open: the sweep comes again
            path.unlink(missing_ok=True)
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)  # its agents' sessions


def _in_use(transcript: Path) -> CellwrightError:
    holder = lease.read_holder(lease_path(transcript))
    who = f"process {holder.pid} on {holder.host}" if holder else "a process"
    message = (
        f"The session {transcript.stem} is in use by {who}; nothing was deleted. "
        "Close it there (/clear starts a new session), then try again."
    )
    return CellwrightError(ErrorCode.EXECUTION_ERROR, message, details={"path": str(transcript)}, recoverable=True)


class CatalogEntry(Struct, frozen=True):
    """One session in the list. Times are in seconds since the epoch, `size` in bytes.

    `title_by` says whose title it is: "user", "model", "fork", or "" where it is the first words. `in_use`: some process
    has it open. `snippet` is where a search found it, with the hits between ⟪ and ⟫. `forked_from` is the session it was
    forked from, `parent` the one whose transcript it needs, "" for none; `depth` is its place in a list that is a tree.
    """

    path: Path
    title: str
    title_by: str
    tags: tuple[str, ...]
    cwd: str
    created: float
    updated: float
    turns: int
    cost_usd: float | None
    model: str
    size: int
    forked_from: str
    parent: str
    damaged: bool
    in_use: bool = False
    snippet: str = ""
    depth: int = 0

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def is_beginning_gone(self) -> bool:
        """True for a fork whose session was deleted by hand or not copied along."""
        return bool(self.parent) and not parent_path(self.path.parent, self.parent).exists()

    def to_json(self) -> dict[str, Any]:
        """The form of docs/protocol/chat.md."""
        return {
            "id": self.id,
            "title": self.title,
            "tags": list(self.tags),
            "cwd": self.cwd,
            "created": self.created,
            "updated": self.updated,
            "turns": self.turns,
            "cost_usd": self.cost_usd,
            "model": self.model,
            "size": self.size,
            "in_use": self.in_use,
            "snippet": self.snippet,
            "forked_from": self.forked_from,
            "depth": self.depth,
        }


class Catalog:
    """The sessions of the user, in the folder `state` (default: the usual one); nothing is open between two calls.

    Ids may be abbreviated. Raises `CellwrightError` SESSION_NOT_FOUND for one that there is not.

    >>> import tempfile
    >>> catalog = Catalog(Path(tempfile.mkdtemp()))
    >>> [(entry.id, entry.title, entry.cost_usd) for entry in catalog.entries(limit=10)]
    []
    """

    def __init__(self, state: Path | None = None) -> None:
        self._state = state

    @property
    def path(self) -> Path:
        """The catalog's file."""
        return (self._state or state_folder()) / "catalog.sqlite3"

    @property
    def sessions(self) -> Path:
        """The folder of all transcripts."""
        return (self._state or state_folder()) / "sessions"

    def entries(self, cwd: Path | None = None, *, limit: int = 50, offset: int = 0) -> list[CatalogEntry]:
        """The sessions of the project at `cwd`, or of all; the one that was gone on with last comes first."""

        def work(connection: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[CatalogEntry]:
            sql = f"SELECT {_ENTRY} FROM session WHERE {_SHOWN} {where} ORDER BY updated DESC, mtime DESC LIMIT ? OFFSET ?"
            return [_entry(connection, row) for row in connection.execute(sql, (*values, limit, offset)).fetchall()]

        return [_with_use(entry) for entry in self._query(cwd, work)]

    def search(self, query: str, cwd: Path | None = None, *, limit: int = 50, offset: int = 0) -> list[CatalogEntry]:
        """The sessions that hold all words of `query`, in what was said, in the title or as tags; the best first.

        A query without words gives the list.
        """
        if not query.strip():
            return self.entries(cwd, limit=limit, offset=offset)
        words = terms(query)

        def work(connection: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[CatalogEntry]:
            return _found(connection, words, where, values, limit, offset)

        return [_with_use(entry) for entry in self._query(cwd, work)] if words else []

    def entry(self, session_id: str, cwd: Path | None = None) -> CatalogEntry:
        """The session of this id, or the only one whose id begins so. Raises `CellwrightError` SESSION_NOT_FOUND."""

        def work(connection: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[CatalogEntry]:
            sql = f"SELECT {_ENTRY} FROM session WHERE true {where} ORDER BY updated DESC, mtime DESC"
            return [_entry(connection, row) for row in connection.execute(sql, values).fetchall()]

        entries = self._query(cwd, work)
        found = [entry for entry in entries if entry.id == session_id]
        found = found or [entry for entry in entries if session_id and entry.id.startswith(session_id)]
        if len(found) != 1:
            what = "is the beginning of more than one session's id" if found else "is no session"
            where = f" of {cwd}" if cwd is not None else ""
            known = ", ".join(entry.id for entry in (found or entries)[:5]) or "none"
            message = f"{session_id!r} {what}{where}. The newest: {known}."
            raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
        return _with_use(found[0])

    def rename(self, session_id: str, title: str, cwd: Path | None = None) -> CatalogEntry:
        """Give the session a title; "" takes it back. The session may be in use."""
        entry = self.entry(session_id, cwd)
        about.write_title(entry.path, title)
        return self.entry(entry.id, cwd)

    def tag(self, session_id: str, tags: Iterable[str], cwd: Path | None = None) -> CatalogEntry:
        """Give the session these tags and no others. A session with a tag is never deleted for its age."""
        entry = self.entry(session_id, cwd)
        about.write_tags(entry.path, tags)
        return self.entry(entry.id, cwd)

    def fork(self, session_id: str, turn: int | None = None, cwd: Path | None = None) -> Session:
        """A new session that goes on from this one, or from the end of its turn `turn`. The caller closes it."""
        entry = self.entry(session_id, cwd)
        session = fork_at(entry.path, turn)
        if session.path is not None:
            about.with_title_of_fork(entry.path, session.path, turn, entry.title if entry.title_by else "")
        return session

    def delete(self, session_id: str, cwd: Path | None = None) -> CatalogEntry:
        """Delete the session with all that belongs to it. Raises `CellwrightError` while some process has it open."""
        entry = self.entry(session_id, cwd)
        delete_session(entry.path)
        self.entries(cwd, limit=1)  # its words are gone from the catalog as well
        return entry

    def rebuild(self) -> int:
        """Make the catalog anew from the transcripts; gives how many there are."""

        def work(connection: sqlite3.Connection) -> int:
            empty(connection)
            return catch_up(connection, self.sessions, None)

        return with_database(self.path, work)

    def _query(
        self,
        cwd: Path | None,
        work: Callable[[sqlite3.Connection, str, tuple[str, ...]], list[CatalogEntry]],
    ) -> list[CatalogEntry]:
        folder = None if cwd is None else sessions_folder(cwd).name
        where, values = ("AND folder = ?", (folder,)) if folder is not None else ("", ())

        def caught_up(connection: sqlite3.Connection) -> list[CatalogEntry]:
            catch_up(connection, self.sessions, folder)
            connection.execute("BEGIN")  # all of the answer is of one moment, whatever others delete meanwhile
            try:
                return work(connection, where, values)
            finally:
                with contextlib.suppress(sqlite3.Error):  # an error may have ended it
                    connection.execute("ROLLBACK")

        return with_database(self.path, caught_up)


def _with_use(entry: CatalogEntry) -> CatalogEntry:
    return replace(entry, in_use=is_held(lease_path(entry.path)))


def _found(
    connection: sqlite3.Connection, words: list[str], where: str, values: tuple[str, ...], limit: int, offset: int
) -> list[CatalogEntry]:
    holds = "SELECT session FROM words JOIN said ON said.id = words.rowid WHERE words MATCH ?"
    all_of_them = " INTERSECT ".join([holds] * len(words))
    any_of_them = " OR ".join(words)
    # by its best place: in it most of the words stand close together; min() picks the row of the place as well
    sql = f"""
        WITH hit AS MATERIALIZED (SELECT rowid AS place, rank AS score FROM words WHERE words MATCH ?)
        SELECT {_ENTRY}, place, min(score * CASE who WHEN 'title' THEN {TITLE_COUNTS} ELSE 1 END) AS best
        FROM hit JOIN said ON said.id = place JOIN session ON session.id = said.session
        WHERE said.session IN ({all_of_them}) AND {_SHOWN} {where}
        GROUP BY said.session ORDER BY best, updated DESC LIMIT ? OFFSET ?"""
    rows = connection.execute(sql, (any_of_them, *words, *values, limit, offset)).fetchall()
    snippet = f"SELECT snippet(words, 0, '{HIT_BEGIN}', '{HIT_END}', '…', 14) FROM words"
    found: list[CatalogEntry] = []
    for *row, place, _ in rows:
        ((text,),) = connection.execute(f"{snippet} WHERE words MATCH ? AND rowid = ?", (any_of_them, place))
        found.append(replace(_entry(connection, row), snippet=shown(text)))
    return found


def tree_of(entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """The entries of one page, each fork behind the session that it was forked from, one step deeper, if that is there.

    A tree stands where the first of its sessions stood, and so do the forks of one session.
    """
    by_id = {entry.id: entry for entry in entries}
    forks: dict[str, list[CatalogEntry]] = {}
    roots: dict[str, None] = {}
    for entry in by_id.values():
        root, seen = entry, {entry.id}
        while root.forked_from in by_id and root.forked_from not in seen:
            root = by_id[root.forked_from]
            seen.add(root.id)
        roots.setdefault(root.id)
        if entry is not root:
            forks.setdefault(entry.forked_from, []).append(entry)
    ordered: dict[str, CatalogEntry] = {}
    waiting = [(by_id[root], 0) for root in reversed(roots)]
    while waiting:
        entry, depth = waiting.pop()
        if entry.id not in ordered:  # a damaged file may have forks in a circle
            ordered[entry.id] = replace(entry, depth=depth)
            waiting += [(fork, depth + 1) for fork in reversed(forks.get(entry.id, ()))]
    return list(ordered.values())


def _entry(connection: sqlite3.Connection, row: Any) -> CatalogEntry:
    _, path, title, title_by, tags, *rest, first_words, forked_from, parent, damaged = row
    first_words = first_words or _inherited_words(connection, Path(path), forked_from)
    cwd, created, updated, turns, cost_usd, model, size = rest
    words = visible_line(shown(first_words), FIRST_WORDS_CHARS) or ("(cannot be read)" if damaged else "(no words)")
    return CatalogEntry(
        path=Path(path),
        title=shown(title) or words,
        title_by=title_by,
        tags=tuple(tags.split()),
        cwd=cwd,
        created=created,
        updated=updated,
        turns=turns,
        cost_usd=cost_usd,
        model=model,
        size=size,
        forked_from=forked_from,
        parent=parent,
        damaged=bool(damaged),
    )


def _inherited_words(connection: sqlite3.Connection, path: Path, forked_from: str) -> str:
    """The first words of the sessions that a fork comes from, as long as nothing was said in itself."""
    seen: set[str] = set()
    while forked_from and forked_from not in seen:
        seen.add(forked_from)
        before = (str(path.with_name(f"{forked_from}.jsonl")),)
        row = connection.execute("SELECT first_words, forked_from FROM session WHERE path = ?", before).fetchone()
        if row is None:
            return ""
        if row[0]:
            return str(row[0])
        forked_from = row[1]
    return ""


def fork_at(path: Path, turn: int | None) -> Session:
    """A new session with what the one at `path` holds up to the end of its turn `turn`, from 1; 0: nothing of it, None: all.

    Turns that were taken back count as little as they do in the session. The session itself stays untouched, and
    another process may be writing to it. Raises `CellwrightError` INVALID_PARAMETERS where there is no such turn, else as
    `Session.fork_from`.
    """
    if turn is None:
        return Session.fork_from(path)

    def kept(lines: list[Line]) -> list[Line]:
        found = until_turn_ended(in_effect(lines), turn) if turn > 0 else [] if turn == 0 else None
        if found is None:
            message = (
                f"The session {path.stem} has no turn {turn} that can be read. Turns count from 1; nothing was forked."
            )
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        return found

    return Session.fork_from(path, kept)


def branches(catalog: Catalog, session_id: str, cwd: Path) -> dict[int, list[str]]:
    """Return the sessions to choose from at each turn that has several, oldest first; `session_id` is among them.

    Of those that share a turn it stands for itself, else the one that was used last.
    """
    # branches are looked for among the newest sessions of the folder
    family = _family(catalog.entries(cwd, limit=200), session_id)
    if len(family) < 2:
        return {}
    starts = {entry.id: _turn_starts(entry.path) for entry in family}
    own = starts.get(session_id, [])
    found: dict[int, list[str]] = {}
    for turn, start in enumerate(own, 1):
        alike = [
            other for other in starts if starts[other][: turn - 1] == own[: turn - 1] and len(starts[other]) >= turn
        ]
        # the newest come first
        choices: dict[TurnStart, str] = {}
        for other in alike:
            choices.setdefault(starts[other][turn - 1], other)
        choices[start] = session_id
        if len(choices) > 1:
            found[turn] = [choices[each] for each in sorted(choices, key=lambda each: each[1])]
    return found


def _family(entries: Iterable[CatalogEntry], session_id: str) -> list[CatalogEntry]:
    """The sessions that were forked from the same one, in their order."""
    by_id = {entry.id: entry for entry in entries}

    def root(entry: CatalogEntry) -> str:
        seen = {entry.id}
        while entry.forked_from in by_id and entry.forked_from not in seen:
            entry = by_id[entry.forked_from]
            seen.add(entry.id)
        # forks of a session that was deleted belong together
        return entry.forked_from or entry.id

    if (own := by_id.get(session_id)) is None:
        return []
    return [entry for entry in by_id.values() if root(entry) == root(own) and not entry.is_beginning_gone]


def _turn_starts(path: Path) -> Sequence[TurnStart]:
    try:
        lines = in_effect(read_transcript(path).lines)
    except CellwrightError:
        return []  # it is damaged, or was deleted meanwhile
    return [(int(line.meta["seq"]), float(line.meta["at"])) for line in lines if begins_turn_encoded(line.message)]
