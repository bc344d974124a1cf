"""Vectors of the code, beside its index: where they are kept and searched, and the process that makes those missing.

They go by the hash of the text that they stand for: a function that is moved, or whose file changes around it, is not
embedded again. They lie beside the symbols in SQLite, or in a Qdrant that many share. A search looks at the signs of all
vectors first, one bit for each number, and then compares the best of them with eight bits for each: a hundred thousand
take some milliseconds, and a million 48 MB of memory.

The process is `python -m cellwright.codebase.vectors`; its task comes as JSON on its standard input. It runs beside the
indexer, since it may take hours: those of the newest files come first, each batch is kept as it is done, and what is
killed is gone on with.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct

from cellwright.codebase.embedding_models import load_embed
from cellwright.codebase.embedding_settings import Embed, EmbeddingProblem, EmbeddingSettings
from cellwright.codebase.source_file import source_text
from cellwright.codebase.store import BUSY, NICENESS, open_to_read, transaction, vectors_lock_path
from cellwright.redaction.redaction import LONGEST_SECRET, Redaction
from cellwright.sessions.transcripts.transcript_lock import acquire

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cellwright.codebase.embedding_settings import Matrix


BATCH = 64
UNIT_CHARS = 2_000
"""Of one unit: models read no further."""

QDRANT_KEY = "QDRANT_API_KEY"


class VectorStore(Protocol):
    """Vectors by hash."""

    def known(self, hashes: Collection[bytes]) -> set[bytes]:
        """Those of the hashes that there is a vector of."""

    def put(self, hashes: Sequence[bytes], rows: Matrix) -> None:
        """Keep a vector for each hash."""

    def nearest(self, query: Matrix, limit: int, among: Iterable[bytes] | None) -> list[tuple[bytes, float]]:
        """The nearest vectors to the one row of `query`, with their cosine; `among` bounds them to these."""

    def forget_all(self) -> None:
        """Forget the vectors of another model."""

    def forget_others(self) -> None:
        """Forget what stands for no text of this index any more."""

    def close(self) -> None:
        """End its use."""


def vector_store(settings: EmbeddingSettings, connection: sqlite3.Connection, key: str) -> VectorStore:
    """The store that `settings` name, for one thread. `key`: of Qdrant. Raises EmbeddingProblem."""
    if settings.qdrant_url:
        return QdrantVectors(settings, key)
    return SqliteVectors(connection)


class SqliteVectors:
    """Vectors in the index's own file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._version = -1
        self._hashes: Any = None
        self._keys: Any = None
        self._bits: Any = None

    def on(self, connection: sqlite3.Connection) -> SqliteVectors:
        """The same store, with what it remembers of it, on another connection."""
        self._connection = connection
        return self

    def known(self, hashes: Collection[bytes]) -> set[bytes]:
        """Those of the hashes that there is a vector of."""
        marks = ", ".join("?" * len(hashes))
        rows = self._connection.execute(f"SELECT hash FROM vector WHERE hash IN ({marks})", tuple(hashes))
        return {row for (row,) in rows}

    def put(self, hashes: Sequence[bytes], rows: Matrix) -> None:
        """Keep a vector for each hash."""
        import numpy as np

        scales = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-12)
        small = np.round(rows / scales * 127).astype(np.int8)
        bits = np.packbits(rows > 0, axis=1)
        self._connection.executemany(
            "INSERT OR REPLACE INTO vector (hash, scale, data) VALUES (?, ?, ?)",
            [
                (key, float(scale[0]) / 127, row.tobytes())
                for key, scale, row in zip(hashes, scales, small, strict=True)
            ],
        )
        self._connection.executemany(
            "INSERT OR REPLACE INTO vector_bits (hash, bits) VALUES (?, ?)",
            [(key, row.tobytes()) for key, row in zip(hashes, bits, strict=True)],
        )
        self._changed()

    def nearest(self, query: Matrix, limit: int, among: Iterable[bytes] | None) -> list[tuple[bytes, float]]:
        """The nearest vectors: by their signs, and the best of them by eight bits a number."""
        import numpy as np

        self._load()
        if self._bits is None or not len(self._bits):
            return []
        wanted = np.packbits(query[0] > 0)
        if len(wanted) != self._bits.shape[1]:
            raise EmbeddingProblem(f"The query has {len(query[0])} numbers, the index's vectors have others.")
        apart = _bits_apart(self._bits, wanted)
        if among is not None:
            keys = np.array([int.from_bytes(each[:8], "little") for each in among], np.uint64)
            apart = np.where(np.isin(self._keys, keys), apart, np.iinfo(apart.dtype).max)
        # so many times the vectors that are wanted are compared exactly
        count = min(limit * 10, len(apart))
        best = np.argpartition(apart, count - 1)[:count]
        if among is not None:
            best = best[apart[best] < np.iinfo(apart.dtype).max]
        hashes = [bytes(self._hashes[at]) for at in best]
        return self._compared(hashes, query)[:limit]

    def forget_all(self) -> None:
        """Forget the vectors of another model."""
        self._connection.execute("DELETE FROM vector")
        self._connection.execute("DELETE FROM vector_bits")
        self._changed()

    def forget_others(self) -> None:
        """Forget what stands for no text any more, when that is most of it."""
        kept = self._connection.execute("SELECT count(*) FROM vector").fetchone()[0]
        used = self._connection.execute("SELECT count(DISTINCT vector) FROM unit").fetchone()[0]
        if kept > 2 * used + 1_000:
            for table in ("vector", "vector_bits"):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE hash NOT IN (SELECT vector FROM unit WHERE vector IS NOT NULL)"
                )
            self._changed()

    def close(self) -> None:
        """Keep what was read: the connection is closed by who opened it."""

    def _changed(self) -> None:
        self._connection.execute(
            "INSERT INTO meta (key, value) VALUES ('vectors_version', 1) "
            "ON CONFLICT (key) DO UPDATE SET value = value + 1"
        )

    def _load(self) -> None:
        """Read the signs of all vectors, unless they are what was read before."""
        import numpy as np

        row = self._connection.execute("SELECT value FROM meta WHERE key = 'vectors_version'").fetchone()
        version = 0 if row is None else int(row[0])
        if version == self._version:
            return
        rows = self._connection.execute("SELECT hash, bits FROM vector_bits").fetchall()
        width = len(rows[0][1]) if rows else 0
        rows = [each for each in rows if len(each[1]) == width]
        self._hashes = np.frombuffer(b"".join(each[0] for each in rows), np.uint8).reshape(-1, 16)
        self._keys = np.ascontiguousarray(self._hashes[:, :8]).view("<u8").ravel()
        self._bits = np.frombuffer(b"".join(each[1] for each in rows), np.uint8).reshape(-1, width or 1)
        self._version = version

    def _compared(self, hashes: Sequence[bytes], query: Matrix) -> list[tuple[bytes, float]]:
        import numpy as np

        found: list[tuple[bytes, float]] = []
        for start in range(0, len(hashes), 500):
            some = hashes[start : start + 500]
            marks = ", ".join("?" * len(some))
            rows = self._connection.execute(
                f"SELECT hash, scale, data FROM vector WHERE hash IN ({marks})", some
            ).fetchall()
            if rows:
                matrix = np.frombuffer(b"".join(row[2] for row in rows), np.int8).reshape(len(rows), -1)
                scores = matrix.astype(np.float32) @ query[0] * np.array([row[1] for row in rows], np.float32)
                found += [(row[0], float(score)) for row, score in zip(rows, scores, strict=True)]
        return sorted(found, key=lambda pair: -pair[1])


def _bits_apart(rows: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> NDArray[Any]:
    """Count the bits in which each row differs."""
    import numpy as np

    if hasattr(np, "bitwise_count"):
        if rows.shape[1] % 8 == 0:
            rows, wanted = rows.view(np.uint64), wanted.view(np.uint64)
        apart = np.zeros(len(rows), np.uint16)
        for column in range(rows.shape[1]):  # a matrix of differences would be as large as the rows
            apart += np.bitwise_count(rows[:, column] ^ wanted[column])
        return apart
    counts = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.uint16)
    summed: NDArray[Any] = counts[rows ^ wanted].sum(axis=1, dtype=np.uint16)
    return summed


class QdrantVectors:
    """Vectors in a Qdrant: of a server, or of a folder on this machine. What other projects put there is left alone."""

    def __init__(self, settings: EmbeddingSettings, key: str) -> None:
        try:
            from qdrant_client import QdrantClient, models
        except ImportError:
            raise EmbeddingProblem("Qdrant needs its client: pip install 'cellwright[qdrant]'") from None
        self._models = models
        url = settings.qdrant_url
        try:
            self._client: Any = (
                QdrantClient(url=url, api_key=key or None)
                if url.startswith(("http:", "https:"))
                else QdrantClient(path=url.removeprefix("file:"))
            )
        except RuntimeError as error:  # a folder can be open in one process at a time
            raise EmbeddingProblem(f"Qdrant at {url} cannot be used now: {error}") from error
        safe = "".join(each if each.isalnum() else "-" for each in settings.identity)
        self._collection = f"cellwright-{safe}"[:60]

    def close(self) -> None:
        """Let others at it."""
        self._client.close()

    def known(self, hashes: Collection[bytes]) -> set[bytes]:
        """Those of the hashes that anybody has put there."""
        if not self._client.collection_exists(self._collection):
            return set()
        ids = [str(uuid.UUID(bytes=each)) for each in hashes]
        found = self._client.retrieve(self._collection, ids, with_payload=False, with_vectors=False)
        return {uuid.UUID(str(each.id)).bytes for each in found}

    def put(self, hashes: Sequence[bytes], rows: Matrix) -> None:
        """Keep a vector for each hash; the text stays here."""
        if not self._client.collection_exists(self._collection):
            vectors = self._models.VectorParams(size=int(rows.shape[1]), distance=self._models.Distance.COSINE)
            self._client.create_collection(self._collection, vectors_config=vectors)
        points = [
            self._models.PointStruct(id=str(uuid.UUID(bytes=each)), vector=row.tolist())
            for each, row in zip(hashes, rows, strict=True)
        ]
        self._client.upsert(self._collection, points, wait=True)

    def nearest(self, query: Matrix, limit: int, among: Iterable[bytes] | None) -> list[tuple[bytes, float]]:
        """The nearest vectors, by Qdrant's own index."""
        if not self._client.collection_exists(self._collection):
            return []
        only = None
        if among is not None:
            ids: list[Any] = [str(uuid.UUID(bytes=each)) for each in among]
            only = self._models.Filter(must=[self._models.HasIdCondition(has_id=ids)])
        found = self._client.query_points(self._collection, query=query[0].tolist(), limit=limit, query_filter=only)
        return [(uuid.UUID(str(point.id)).bytes, float(point.score)) for point in found.points]

    def forget_all(self) -> None:
        """Leave them: each model has a collection of its own."""

    def forget_others(self) -> None:
        """Leave them: others may have the same texts."""


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
    redaction = Redaction(lambda: {**request.secrets, **request.keys})

    def clean(text: str) -> str:
        """Take secrets out of what is sent to a service."""
        return redaction.clean(text).text if request.settings.is_service else text

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


def _say(connection: sqlite3.Connection, **values: float | int | str) -> None:
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", values.items())


if __name__ == "__main__":
    sys.exit(main())
