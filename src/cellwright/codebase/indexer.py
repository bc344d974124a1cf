"""The indexer: one pass over a project's files, in a process of its own, that makes its index what the files are.

Only one process writes an index at a time. What changed is found by time and size, and then by a hash of the content; the
newest files come first, and what is done is kept file by file, so that a pass that was killed is gone on with by the next.
The process is `python -m cellwright.codebase.indexer`; each line of its standard input is a request.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import queue
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from cellwright.codebase.facts import FileFacts, Symbol
from cellwright.codebase.source_file import (
    FileContent,
    SecondReader,
    SourceText,
    WantedFile,
    language_of,
    largest_of,
    parser_of,
    read_content,
    searchable,
    source_text,
    units_of,
    words_of,
)
from cellwright.codebase.store import BUSY, NICENESS, IndexRequest, lock_path, open_to_write, remove, transaction
from cellwright.sessions.state_dir import make_private_folder
from cellwright.sessions.transcripts.transcript_lock import acquire
from cellwright.text import lazy_pattern

MAX_FILES = 300_000
BATCH_FILES = 200
HELPED_FILES = 1_000
"""So many files are worth a second process that reads them, too."""

JOBS = ("definitions", "texts")
"""The work on all files, in this order: most tools need the first."""

SKIPPED_FOLDERS = frozenset(
    {"node_modules", "bower_components", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", ".ipynb_checkpoints", ".git", ".hg", ".svn", ".jj"}
)
"""Folders of what was installed or made, left out also where no .gitignore says so."""

Keep = Callable[[str], bool]


class _Listed(Struct, frozen=True):
    """A file that is there."""

    path: str
    size: int
    mtime: int


class _Known(Struct, frozen=True):
    """A file as the index has it."""

    id: int
    size: int
    mtime: int
    parser: str
    hash: bytes | None


def main() -> int:
    """Do what each line of standard input says and answer it with a line: 0 when the index is up to date, else BUSY.

    Ends with the input, or if there was no line for `keep_seconds`; returns the last answer.
    """
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
    chunks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read_on() -> None:
        """Hand on what comes in standard input, and its end as nothing."""
        # not from sys.stdin, whose lock this thread would hold while Python ends
        chunk = b"begin"
        while chunk:
            chunk = os.read(0, 65_536)
            chunks.put(chunk)

    threading.Thread(target=read_on, name="cellwright-requests", daemon=True).start()
    code, rest = 0, b""
    keep_seconds: float | None = None
    with contextlib.suppress(queue.Empty):
        while chunk := chunks.get(timeout=keep_seconds):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                request = msgspec.json.decode(line, type=IndexRequest)
                code, keep_seconds = _answer(request), request.keep_seconds
                sys.stdout.write(f"{code}\n")
                sys.stdout.flush()
    return code


def _answer(request: IndexRequest) -> int:
    database = Path(request.database)
    make_private_folder(database.parent)
    lease = acquire(lock_path(database), request.wait_seconds)
    if lease is None:
        return BUSY
    try:
        if request.rebuild:
            remove(database)
        try:
            _pass(request, database, check=request.check)
        except sqlite3.DatabaseError:  # damaged: it is only a cache
            remove(database)
            _pass(request, database, check=False)
    finally:
        lease.release()
    return 0


def _pass(request: IndexRequest, database: Path, *, check: bool) -> None:
    connection = open_to_write(database, check=check)
    try:
        with contextlib.closing(_Pass(request, connection)) as indexing:
            indexing.run()
    finally:
        connection.close()


_Read = tuple[_Listed, FileContent]


class _Pass:
    """One pass: what is there is compared with what is known, and what differs is read."""

    def __init__(self, request: IndexRequest, connection: sqlite3.Connection) -> None:
        self.root = Path(request.root)
        self.request = request
        self.connection = connection

    def close(self) -> None:
        """Say that nothing goes on any more."""
        self._say(state="idle", ended=time.time())

    def run(self) -> None:
        """Bring the index up to date."""
        for name in JOBS:
            self._say_job(name, "waiting", 0, 0)
        self._say(state="listing", began=time.time(), pid=os.getpid(), root=str(self.root))
        listed, whole = self._listed()
        rows = self.connection.execute("SELECT path, id, size, mtime, parser, hash FROM file")
        known = {path: _Known(*rest) for path, *rest in rows}
        gone = [known[path].id for path in known.keys() - listed.keys()] if whole else []
        for start in range(0, len(gone), BATCH_FILES):
            with transaction(self.connection):
                for file_id in gone[start : start + BATCH_FILES]:
                    self._forget(file_id)
        changed = [file for path, file in listed.items() if _differs(file, known.get(path))]
        changed.sort(key=lambda file: -file.mtime)
        self._say(most_files=MAX_FILES if len(listed) >= MAX_FILES else 0)
        self._say(state="symbols", total=len(listed), left=len(changed))
        self._say_job("definitions", "running", len(listed), len(changed))
        done = 0
        for batch in self._read_in_batches(changed, known):
            with transaction(self.connection):
                for file, content in batch:
                    self._update(file, content, known.get(file.path))
                    done += 1
                self._say(left=len(changed) - done)
                self._say_job("definitions", "running", len(listed), len(changed) - done)
        self._say(complete=1, checked=time.time())
        self._say_job("definitions", "done", len(listed), 0)
        self._rebuild_words()
        self._texts()
        self._say(texts_complete=1)

    # --- what is there ---

    def _listed(self) -> tuple[dict[str, _Listed], bool]:
        """The files that the index is to hold, and whether the list is whole."""
        allowed = _allowed(self.request)
        found: dict[str, _Listed] = {}
        base = os.fsencode(self.root) + b"/"
        with subprocess.Popen(
            self.request.listing,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as listing:
            assert listing.stdout is not None
            chunks = iter(lambda: listing.stdout.read(65_536), b"")  # type: ignore[union-attr]
            for raw in _split(chunks):
                file = _look_at(base, raw)
                if file is not None and allowed(file.path):
                    found[file.path] = file
                    if len(found) >= MAX_FILES:
                        listing.kill()
                        return found, False
        # 1: no file at all; 2: some folder could not be read
        return found, listing.returncode in (0, 1, 2)

    # --- a file ---

    def _read_in_batches(self, changed: Sequence[_Listed], known: Mapping[str, _Known]) -> Iterator[Iterator[_Read]]:
        """The files with their contents, in batches that are read while they are gone through; many with a helper."""

        def wanted(file: _Listed) -> WantedFile:
            before = known.get(file.path)
            same = before is not None and before.parser == _kind_of(file.path).parser
            return WantedFile(str(self.root), file.path, (before.hash or b"") if before is not None and same else b"")

        def read(files: Sequence[_Listed]) -> Iterator[_Read]:
            for file in files:
                yield file, read_content(wanted(file))

        # so many are there for this process
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if len(changed) < HELPED_FILES or processors == 1:
            yield from map(read, _batches(changed))
            return
        with contextlib.closing(SecondReader()) as helper:
            helping: list[_Listed] = []
            for batch in _batches(changed):
                own, theirs = _shared(batch)
                contents = helper.take()
                helper.give([wanted(file) for file in theirs])
                yield itertools.chain(zip(helping, contents, strict=True), read(own))
                helping = theirs
            yield zip(helping, helper.take(), strict=True)

    def _update(self, file: _Listed, content: FileContent, known: _Known | None) -> None:
        if content.facts is None and known is not None:
            self.connection.execute(
                "UPDATE file SET size = ?, mtime = ? WHERE id = ?", (file.size, file.mtime, known.id)
            )
            return
        if known is not None:
            self._forget(known.id)
        row = (
            file.path,
            content.language,
            _kind_of(file.path).parser,
            file.size,
            file.mtime,
            content.hash,
            content.lines,
            ",".join(map(str, content.cells)),
            int(not content.language),
        )
        columns = "path, language, parser, size, mtime, hash, lines, cells, texts"
        new = self.connection.execute(f"INSERT INTO file ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
        assert new is not None
        self._say(versions=self._value("versions") + 1)
        if content.language:
            self._insert_words(new, content.words)
            self._insert_facts(new, content.facts or FileFacts())

    def _forget(self, file_id: int) -> None:
        for table in ("symbol", "call", "import", "unit"):
            self.connection.execute(f"DELETE FROM {table} WHERE file = ?", (file_id,))
        self.connection.execute("DELETE FROM file WHERE id = ?", (file_id,))

    def _insert_words(self, file_id: int, words: str) -> None:
        self.connection.execute("INSERT INTO word (rowid, words) VALUES (?, ?)", (file_id, words))

    def _insert_facts(self, file_id: int, facts: FileFacts) -> None:
        first = self.connection.execute("SELECT coalesce(max(id), 0) + 1 FROM symbol").fetchone()[0]
        ids = range(first, first + len(facts.symbols))
        rows = []
        for symbol_id, symbol in zip(ids, facts.symbols, strict=True):
            parent = ids[symbol.parent] if symbol.parent >= 0 else None
            where = (file_id, symbol.name, symbol.qualified, symbol.kind, symbol.line, symbol.end_line, parent)
            what = (symbol.signature, symbol.doc, symbol.declared, symbol.cyclomatic, symbol.cognitive, symbol.nesting)
            rows.append((symbol_id, *where, *what))
        self.connection.executemany(
            "INSERT INTO symbol (id, file, name, qualified, kind, line, end_line, parent, signature, doc, declared, "
            "cyclomatic, cognitive, nesting) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        self.connection.executemany(
            "INSERT INTO call (name, file, caller, line) VALUES (?, ?, ?, ?)",
            [(each.name, file_id, ids[each.caller] if each.caller >= 0 else None, each.line) for each in facts.calls],
        )
        self.connection.executemany(
            "INSERT INTO import (module, file, names, line) VALUES (?, ?, ?, ?)",
            [(each.module, file_id, " ".join(each.names), each.line) for each in facts.imports],
        )

    # --- texts, after all symbols ---

    def _texts(self) -> None:
        waiting = self.connection.execute("SELECT id, path FROM file WHERE texts = 0 ORDER BY mtime DESC").fetchall()
        total = self.connection.execute("SELECT count(*) FROM file").fetchone()[0]
        self._say(state="texts", left=len(waiting), texts_complete=int(not waiting))
        for start in range(0, len(waiting), BATCH_FILES):
            batch = waiting[start : start + BATCH_FILES]
            with transaction(self.connection):
                for file_id, path in batch:
                    self._insert_units(file_id, path)
                    self.connection.execute("UPDATE file SET texts = 1 WHERE id = ?", (file_id,))
                left = len(waiting) - start - len(batch)
                self._say(left=left)
                self._say_job("texts", "running", total, left)
        self._say_job("texts", "done", total, 0)

    def _insert_units(self, file_id: int, path: str) -> None:
        source = self._read(path)
        if source is None:
            return
        columns = "id, name, qualified, kind, line, end_line, parent"
        rows = self.connection.execute(
            f"SELECT {columns} FROM symbol WHERE file = ? ORDER BY id", (file_id,)
        ).fetchall()
        ids = [row[0] for row in rows]
        positions = {symbol_id: index for index, symbol_id in enumerate(ids)}
        symbols = [
            Symbol(name, qualified, kind, line, end_line, positions.get(parent, -1))
            for _, name, qualified, kind, line, end_line, parent in rows
        ]
        lines = source.text.decode("utf-8", "replace").split("\n")
        stem = PurePosixPath(path).stem
        for unit in units_of(source, symbols):
            of_symbol = ids[unit.symbol] if unit.symbol >= 0 else None
            name = symbols[unit.symbol].qualified if unit.symbol >= 0 else stem
            inserted = self.connection.execute(
                "INSERT INTO unit (file, symbol, line, end_line) VALUES (?, ?, ?, ?)",
                (file_id, of_symbol, unit.line, unit.end_line),
            )
            body = searchable("\n".join(lines[unit.line - 1 : unit.end_line]))
            self.connection.execute(
                "INSERT INTO unit_text (rowid, name, body) VALUES (?, ?, ?)",
                (inserted.lastrowid, searchable(name), body),
            )

    def _rebuild_words(self) -> None:
        """Fill the tables of words and texts anew when most of what is in them is of files that are gone."""
        living = self.connection.execute("SELECT count(*) FROM file").fetchone()[0]
        versions = self._value("versions")
        if versions <= 2 * living + 1_000:
            return
        with transaction(self.connection):
            self.connection.execute("INSERT INTO word (word) VALUES ('delete-all')")
            self.connection.execute("INSERT INTO unit_text (unit_text) VALUES ('delete-all')")
            self.connection.execute("DELETE FROM unit")
            self.connection.execute("UPDATE file SET texts = (language = '')")
            for file_id, path in self.connection.execute("SELECT id, path FROM file").fetchall():
                if (source := self._read(path)) is not None:
                    self._insert_words(file_id, words_of(source))
            self._say(versions=living, texts_complete=0)

    def _read(self, path: str) -> SourceText | None:
        try:
            return source_text(PurePosixPath(path), (self.root / path).read_bytes())
        except OSError:
            return None

    # --- what is said of the pass ---

    def _say(self, **values: float | int | str) -> None:
        self.connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", values.items())

    def _say_job(self, name: str, state: str, total: int, left: int) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO job (priority, name, state, total, left) VALUES (?, ?, ?, ?, ?)",
            (JOBS.index(name), name, state, total, left),
        )

    def _value(self, key: str) -> int:
        row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return 0 if row is None else int(row[0])


class _Kind(Struct, frozen=True):
    """Facts of all files of a name: their language, the grammar that they are parsed by here, the largest that is read."""

    language: str
    parser: str
    largest: int


def _kind_of(path: str) -> _Kind:
    name = path.rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    return _kind(f"x.{suffix.lower()}" if stem else name)


@functools.cache
def _kind(name: str) -> _Kind:
    # to look whether a grammar is installed takes longer than to look at a file
    pure = PurePosixPath(name)
    return _Kind(language_of(pure), parser_of(pure), largest_of(pure))


def _differs(file: _Listed, known: _Known | None) -> bool:
    if known is None or (file.size, file.mtime) != (known.size, known.mtime):
        return True
    return known.parser != _kind_of(file.path).parser


def _shared(batch: Sequence[_Listed]) -> tuple[list[_Listed], list[_Listed]]:
    """A batch, shared out between this process, which also writes what both have read, and its helper."""
    own: list[_Listed] = []
    theirs: list[_Listed] = []
    mine = read = 0
    for file in batch:
        read += file.size
        # the indexer's own part of what is read: it writes all
        if mine < 0.35 * read:
            own.append(file)
            mine += file.size
        else:
            theirs.append(file)
    return own, theirs


def _batches(files: Sequence[_Listed]) -> Iterator[list[_Listed]]:
    batch: list[_Listed] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size
        if len(batch) >= BATCH_FILES or size >= 2_000_000:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *records, rest = (rest + chunk).split(b"\0")
        yield from records


_SKIPPED = lazy_pattern(
    rb"(?:^|[/\\])(?:" + b"|".join(re.escape(os.fsencode(name)) for name in SKIPPED_FOLDERS) + rb")[/\\]"
)


def _look_at(base: bytes, raw: bytes) -> _Listed | None:
    """A listed file that the index holds; None for others."""
    raw = raw.removeprefix(b"./")
    if _SKIPPED.search(raw):
        return None
    path = os.fsdecode(raw).replace(os.sep, "/")
    try:
        path.encode()
        kind = _kind_of(path)
        if not kind.language:
            return None
        status = os.stat(base + raw)  # noqa: PTH116  bytes, many thousand times
    except (OSError, UnicodeEncodeError):
        return None  # gone meanwhile, or a name that is no text
    return _Listed(path, status.st_size, status.st_mtime_ns) if status.st_size <= kind.largest else None


def _allowed(request: IndexRequest) -> Keep:
    """A test of whether no rule keeps a file from being read."""
    if not request.restrictions:
        return lambda _path: True
    from cellwright.permissions.rules.rule import READ, Rule, compile_rule, parse_rule  # only where there are rules

    compiled = []
    for text, source_root in request.restrictions:
        rule = parse_rule(text, source_root)
        one = compile_rule(Rule(rule.text, rule.tool, rule.specifier, source_root), "deny", request.root)
        if one is not None and one.names(READ):
            compiled.append(one)
    bases = tuple(dict.fromkeys((request.root, os.path.realpath(request.root))))
    return lambda path: not any(rule.covers_place([f"{base}/{path}" for base in bases]) for rule in compiled)


if __name__ == "__main__":
    sys.exit(main())
