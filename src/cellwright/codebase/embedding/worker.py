"""The process that embeds the units of an index that have no vector yet, those of the newest files first.

It runs beside the indexer, since it may take hours: each batch is kept as it is done, and what is killed is gone on with.
The process is `python -m cellwright.codebase.embedding.worker`; its task comes as JSON on its standard input.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from cellwright.codebase.embedding.load_model import load_embed
from cellwright.codebase.embedding.provider import Embed, EmbeddingProblem, EmbeddingSettings
from cellwright.codebase.embedding.vectors import VectorStore, vector_store
from cellwright.codebase.indexer import NICENESS
from cellwright.codebase.parsing.source_file import source_text
from cellwright.codebase.store import BUSY, open_to_read, transaction, vectors_lock_path
from cellwright.redaction.redaction import LONGEST_SECRET, Redaction
from cellwright.sessions.transcripts.transcript_lock import acquire

BATCH = 64
UNIT_CHARS = 2_000
"""Of one unit: models read no further."""

QDRANT_KEY = "QDRANT_API_KEY"


class EmbedRequest(Struct, frozen=True):
    """The task: `keys` are those of services, by the names of their variables; `models` is where downloads are kept.

    `secrets` are the secret values of the user's environment: texts that are sent to a service hold none of them.
    """

    root: str
    database: str
    settings: EmbeddingSettings
    models: str
    keys: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}


class _Unit(Struct, frozen=True):
    id: int
    line: int
    end_line: int
    name: str
    path: str
    size: int
    mtime: int


def main() -> int:
    """Do what standard input says; 0 when there is nothing left to do, BUSY when another process is at it."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=EmbedRequest)
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
    lease = acquire(vectors_lock_path(Path(request.database)), 0)
    if lease is None:
        return BUSY
    try:
        with open_to_read(Path(request.database), writes=True) as connection:
            _say(connection, vectors_problem="", vectors_began=time.time())
            try:
                _embed_all(request, connection)
            except EmbeddingProblem as problem:
                _say(connection, vectors_problem=str(problem))
    except sqlite3.OperationalError:
        return 0  # there is no index of this version: its indexer makes it, and then we are started again
    finally:
        lease.release()
    return 0


def _embed_all(request: EmbedRequest, connection: sqlite3.Connection) -> None:
    embed = load_embed(request.settings, request.keys, Path(request.models))
    store = vector_store(request.settings, connection, request.keys.get(QDRANT_KEY, ""))
    identity = f"{request.settings.identity} {request.settings.qdrant_url}"
    row = connection.execute("SELECT value FROM meta WHERE key = ?", ("vectors_of",)).fetchone()
    if row is None or row[0] != identity:
        with transaction(connection):
            store.forget_all()
            connection.execute("UPDATE unit SET vector = NULL")
            _say(connection, vectors_of=identity)
    with contextlib.closing(store):
        _fill(request, connection, embed, store)


def _fill(request: EmbedRequest, connection: sqlite3.Connection, embed: Embed, store: VectorStore) -> None:
    clean = _cleaner(request)
    waiting = [
        unit_id
        for (unit_id,) in connection.execute(
            "SELECT u.id FROM unit u JOIN file f ON f.id = u.file WHERE u.vector IS NULL ORDER BY f.mtime DESC, u.id"
        )
    ]
    texts = _Texts(Path(request.root))
    for start in range(0, len(waiting), BATCH):
        _embed_batch(list(_units(connection, waiting[start : start + BATCH])), texts, clean, embed, store, connection)
    with transaction(connection):
        store.forget_others()


def _embed_batch(
    units: Sequence[_Unit],
    texts: _Texts,
    clean: Callable[[str], str],
    embed: Embed,
    store: VectorStore,
    connection: sqlite3.Connection,
) -> None:
    found = [(unit, clean(text)[:UNIT_CHARS]) for unit in units if (text := texts.of(unit))]
    by_hash = {hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest(): text for _, text in found}
    missing = [each for each in by_hash if each not in store.known(by_hash)] if by_hash else []
    rows = embed([by_hash[each] for each in missing], "document") if missing else None
    with transaction(connection):
        if rows is not None:
            store.put(missing, rows)
        connection.executemany(
            "UPDATE unit SET vector = ? WHERE id = ?",
            [
                (hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest(), unit.id)
                for unit, text in found
            ],
        )


def _units(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[_Unit]:
    marks = ", ".join("?" * len(ids))
    rows = connection.execute(
        "SELECT u.id, u.line, u.end_line, coalesce(s.qualified, ''), f.path, f.size, f.mtime FROM unit u "
        f"JOIN file f ON f.id = u.file LEFT JOIN symbol s ON s.id = u.symbol WHERE u.id IN ({marks})",
        ids,
    )
    return (_Unit(*row) for row in rows)


class _Texts:
    """The texts of units, as they lie in the files."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines = functools.lru_cache(maxsize=16)(self._read)

    def of(self, unit: _Unit) -> str:
        """A unit, with its name and place; "" where its file is not what was indexed: that comes again."""
        lines = self._lines(unit.path, unit.size, unit.mtime)
        body = "\n".join(lines[unit.line - 1 : unit.end_line])[: UNIT_CHARS + LONGEST_SECRET]
        return f"{PurePosixPath(unit.path).stem} {unit.name}\n{body}" if lines else ""

    def _read(self, path: str, size: int, mtime: int) -> list[str]:
        file = self._root / path
        try:
            status = file.stat()
            if (status.st_size, status.st_mtime_ns) != (size, mtime):
                return []
            source = source_text(PurePosixPath(path), file.read_bytes())
        except OSError:
            return []
        return [] if source is None else source.text.decode("utf-8", "replace").split("\n")


def _cleaner(request: EmbedRequest) -> Callable[[str], str]:
    """Take secrets out of what is sent to a service."""
    if not request.settings.is_service:
        return lambda text: text
    redaction = Redaction(lambda: {**request.secrets, **request.keys})
    return lambda text: redaction.clean(text).text


def _say(connection: sqlite3.Connection, **values: float | int | str) -> None:
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", values.items())


if __name__ == "__main__":
    sys.exit(main())
