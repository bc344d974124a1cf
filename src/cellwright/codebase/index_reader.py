"""Questions to an index: definitions of a name, files that may use it, calls, imports, texts that fit words.

All answers are rows of the index as it was last written; what they say of a file holds for the size and time that they
carry with it. Made for one thread, as its connection is. Which files an import means, `ImportResolver` finds by the rules
of each language where files lie.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.codebase.source_file import searchable
from cellwright.codebase.store import lock_path, open_to_read, vectors_lock_path
from cellwright.sessions.transcripts.transcript_lock import is_held

if TYPE_CHECKING:
    import sqlite3


RANK_CONSTANT = 60
MIN_SCORE = 0.005
"""A text that has nothing of a question but words that are in most texts scores less; it would be shown as 0.00."""
STOP_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "how", "i", "if", "in", "is"}
    | {"it", "its", "of", "on", "or", "that", "the", "this", "to", "was", "we", "what", "when", "where", "which", "who"}
    | {"why", "with"}
)
"""Words that say nothing of code; a query of nothing else is taken as it is."""

_SCRIPTS = (".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", "/index.ts", "/index.tsx", "/index.js")


class IndexedFile(Struct, frozen=True):
    """A file of the index, its path relative to the project with `/`; `mtime` in nanoseconds."""

    id: int
    path: str
    language: str
    size: int
    mtime: int
    lines: int
    cells: tuple[int, ...]


class IndexedSymbol(Struct, frozen=True):
    """A definition in the file `file`."""

    id: int
    name: str
    qualified: str
    kind: str
    line: int
    end_line: int
    signature: str
    doc: str
    declared: bool
    cyclomatic: int
    cognitive: int
    nesting: int
    file: IndexedFile


class IndexedCall(Struct, frozen=True):
    """A call of `name`; `caller` is the symbol it is made in, None outside of all."""

    name: str
    line: int
    caller: int | None
    file: IndexedFile


class IndexedImport(Struct, frozen=True):
    """An import of `module`, as it is spelled."""

    module: str
    names: str
    line: int
    file: IndexedFile


class Hit(Struct, frozen=True):
    """A unit of text that fits words, with the definition that it is; the best one's `score` is 1."""

    line: int
    end_line: int
    score: float
    file: IndexedFile
    qualified: str
    kind: str


class IndexJob(Struct, frozen=True):
    """A part of the index's work: of `total` files or texts so many are `left`; `state` is waiting, running or done."""

    name: str
    state: str
    total: int
    left: int


class IndexStatus(Struct, frozen=True):
    """The state of an index. `complete`: all definitions are in it; `texts_complete`: all texts, too.

    `state` is what the indexer is at: listing, symbols, texts, idle; `left` of `total` files are still to be read then.
    `vectors` of `units` texts are embedded. The project has more than `most_files` files, which alone are in it; 0: no more.
    """

    exists: bool = False
    complete: bool = False
    texts_complete: bool = False
    state: str = "idle"
    total: int = 0
    left: int = 0
    files: int = 0
    lines: int = 0
    symbols: int = 0
    checked: float = 0.0
    bytes: int = 0
    units: int = 0
    vectors: int = 0
    is_embedding: bool = False
    embedding_problem: str = ""
    jobs: tuple[IndexJob, ...] = ()
    most_files: int = 0
    """The indexer's work, the most urgent first."""

    @property
    def share(self) -> float:
        """The share of files that are in the index, from 0 to 1."""
        return 1.0 if self.complete else (self.total - self.left) / self.total if self.total else 0.0


_FILE = "f.id, f.path, f.language, f.size, f.mtime, f.lines, f.cells"
_SYMBOL = (
    "s.id, s.name, s.qualified, s.kind, s.line, s.end_line, s.signature, s.doc, s.declared, s.cyclomatic, s.cognitive, "
    "s.nesting"
)


def _file(row: Sequence[Any]) -> IndexedFile:
    file_id, path, language, size, mtime, lines, cells = row
    return IndexedFile(file_id, path, language, size, mtime, lines, tuple(map(int, cells.split(","))) if cells else ())


def _symbol(row: Sequence[Any]) -> IndexedSymbol:
    symbol_id, name, qualified, kind, line, end_line, signature, doc, declared, cyclomatic, cognitive, nesting = row[
        :12
    ]
    return IndexedSymbol(
        symbol_id,
        name,
        qualified,
        kind,
        line,
        end_line,
        signature,
        doc,
        bool(declared),
        cyclomatic,
        cognitive,
        nesting,
        _file(row[12:]),
    )


@contextlib.contextmanager
def reading(database: Path) -> Iterator[IndexReader]:
    """A reader of the index at `database`. Raises sqlite3.Error where there is none that can be used."""
    with open_to_read(database) as connection:
        yield IndexReader(connection)


def status_of(database: Path) -> IndexStatus:
    """The state of the index at `database`. Raises sqlite3.DatabaseError where it is damaged."""
    if not database.exists():
        return IndexStatus()

    try:
        with reading(database) as reader:
            return reader.status(database)
    except sqlite3.OperationalError:  # removed meanwhile, or being made
        return IndexStatus()


class IndexReader:
    """The questions, on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def status(self, database: Path) -> IndexStatus:
        """The state of this index, which is in the file `database`."""
        said = dict(self._connection.execute("SELECT key, value FROM meta"))
        files, lines = self._connection.execute("SELECT count(*), coalesce(sum(lines), 0) FROM file").fetchone()
        symbols = self._connection.execute("SELECT count(*) FROM symbol").fetchone()[0]
        units, vectors = self._connection.execute("SELECT count(*), count(vector) FROM unit").fetchone()
        jobs = self._connection.execute("SELECT name, state, total, left FROM job ORDER BY priority")
        at_work = is_held(lock_path(database))
        return IndexStatus(
            exists=True,
            jobs=tuple(
                IndexJob(name, state if at_work or state == "done" else "waiting", total, left)
                for name, state, total, left in jobs
            ),
            complete=bool(said.get("complete")),
            texts_complete=bool(said.get("texts_complete")),
            # what was killed did not say that it ended
            state=said.get("state", "idle") if at_work else "idle",
            total=said.get("total", 0),
            left=said.get("left", 0),
            files=files,
            lines=lines,
            symbols=symbols,
            checked=said.get("checked", 0.0),
            bytes=sum(each.stat().st_size for each in database.parent.glob(f"{database.name}*")),
            units=units,
            vectors=vectors,
            is_embedding=is_held(vectors_lock_path(database)),
            embedding_problem=str(said.get("vectors_problem", "")),
            most_files=int(said.get("most_files", 0)),
        )

    def is_complete(self) -> bool:
        """Return whether all definitions are in it."""
        return bool(self._said("complete"))

    def most_files(self) -> int:
        """The number of files that are in it of a project that has more; 0 where all are."""
        return int(str(self._said("most_files") or 0))

    def texts_are_complete(self) -> bool:
        """Return whether all texts are in it."""
        return bool(self._said("texts_complete"))

    def _said(self, key: str) -> object:
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def file(self, path: str) -> IndexedFile | None:
        """The file of this path."""
        row = self._connection.execute(f"SELECT {_FILE} FROM file f WHERE path = ?", (path,)).fetchone()
        return None if row is None else _file(row)

    def files(self, under: str = "") -> list[IndexedFile]:
        """All files below a folder, "" for the project."""
        where, values = _below(under)
        return [
            _file(row)
            for row in self._connection.execute(f"SELECT {_FILE} FROM file f WHERE {where} ORDER BY path", values)
        ]

    def definitions(self, name: str, under: str = "", limit: int = 1_000) -> list[IndexedSymbol]:
        """The definitions of `name`, which may be `Class.method`, or `prefix*`; in upper or lower case where none fits else.

        Those with a body come before mere declarations, then by path.
        """
        last = name.rpartition(".")[2]
        if last.endswith("*"):
            stem = last.rstrip("*")
            found = self._symbols("s.name >= ? AND s.name < ?", (stem, stem + "\U0010ffff"), under, limit)
        else:
            found = self._symbols("s.name = ?", (last,), under, limit)
            found = found or self._symbols("lower(s.name) = lower(?)", (last,), under, limit)
        return found if last == name else [each for each in found if _is_inside(each, name.rpartition(".")[0])]

    def similar_names(self, name: str, limit: int = 1_000) -> list[tuple[str, str]]:
        """Names that hold `name`, whatever the case, each with the path of a file that defines it; the shortest first."""
        pattern = "%" + re.sub(r"([%_\\])", r"\\\1", name.rpartition(".")[2].strip("*")) + "%"
        rows = self._connection.execute(
            "SELECT DISTINCT s.name, f.path FROM symbol s JOIN file f ON f.id = s.file "
            "WHERE s.name LIKE ? ESCAPE '\\' AND s.kind != 'heading' ORDER BY length(s.name), s.name LIMIT ?",
            (pattern, limit),
        )
        return rows.fetchall()

    def _symbols(self, where: str, values: tuple[object, ...], under: str, limit: int) -> list[IndexedSymbol]:
        below, more = _below(under)
        rows = self._connection.execute(
            f"SELECT {_SYMBOL}, {_FILE} FROM symbol s JOIN file f ON f.id = s.file WHERE {where} AND s.kind != 'heading' "
            f"AND {below} ORDER BY s.declared, f.path, s.line LIMIT ?",
            (*values, *more, limit),
        )
        return [_symbol(row) for row in rows]

    def symbol(self, symbol_id: int) -> IndexedSymbol | None:
        """The symbol of this id."""
        found = self._symbols("s.id = ?", (symbol_id,), "", 1)
        return found[0] if found else None

    def symbols_below(self, under: str = "", limit: int = 200_000) -> list[IndexedSymbol]:
        """The definitions in a file, or in all files below a folder, by path and line."""
        below, values = _below(under)
        rows = self._connection.execute(
            f"SELECT {_SYMBOL}, {_FILE} FROM symbol s JOIN file f ON f.id = s.file WHERE {below} "
            "ORDER BY f.path, s.line LIMIT ?",
            (*values, limit),
        )
        return [_symbol(row) for row in rows]

    def files_with_word(self, word: str, under: str = "") -> list[IndexedFile]:
        """The files that hold the identifier somewhere, perhaps in another case or in a comment."""
        below, values = _below(under)
        rows = self._connection.execute(
            f"SELECT {_FILE} FROM word JOIN file f ON f.id = word.rowid WHERE word MATCH ? AND {below} "
            "ORDER BY f.path LIMIT ?",
            (_quoted(word), *values, 20_000),
        )
        return [_file(row) for row in rows]

    def calls_of(self, name: str, under: str = "", limit: int = 1_000) -> list[IndexedCall]:
        """The calls of what is called `name`."""
        below, values = _below(under)
        rows = self._connection.execute(
            f"SELECT c.name, c.line, c.caller, {_FILE} FROM call c JOIN file f ON f.id = c.file WHERE c.name = ? "
            f"AND {below} ORDER BY f.path, c.line LIMIT ?",
            (name, *values, limit),
        )
        return [IndexedCall(row[0], row[1], row[2], _file(row[3:])) for row in rows]

    def calls_in(self, symbol: IndexedSymbol) -> list[IndexedCall]:
        """The calls that are made within a symbol, those in what is defined in it included."""
        rows = self._connection.execute(
            "SELECT name, line, caller FROM call WHERE file = ? AND line BETWEEN ? AND ? ORDER BY line",
            (symbol.file.id, symbol.line, symbol.end_line),
        )
        return [IndexedCall(row[0], row[1], row[2], symbol.file) for row in rows]

    def imports_of(self, path: str) -> list[IndexedImport]:
        """The imports that a file makes."""
        rows = self._connection.execute(
            f"SELECT i.module, i.names, i.line, {_FILE} FROM import i JOIN file f ON f.id = i.file WHERE f.path = ? "
            "ORDER BY i.line",
            (path,),
        )
        return [IndexedImport(row[0], row[1], row[2], _file(row[3:])) for row in rows]

    def importers_of(self, name: str) -> list[str]:
        """The paths of files with an import that holds `name`, in its module or among what it takes from it."""
        pattern = "%" + re.sub(r"([%_\\])", r"\\\1", name) + "%"
        rows = self._connection.execute(
            "SELECT DISTINCT f.path FROM import i JOIN file f ON f.id = i.file "
            "WHERE i.module LIKE ? ESCAPE '\\' OR i.names LIKE ? ESCAPE '\\' ORDER BY f.path",
            (pattern, pattern),
        )
        return [path for (path,) in rows]

    def files_called(self, names: Sequence[str]) -> list[str]:
        """The paths of files of these names, wherever they are."""
        found: list[str] = []
        for name in names:
            rows = self._connection.execute(
                "SELECT path FROM file WHERE path = ? OR path LIKE ? ESCAPE '\\' ORDER BY path",
                (name, "%/" + re.sub(r"([%_\\])", r"\\\1", name)),
            )
            found += [path for (path,) in rows]
        return found

    def lexical(self, query: str, under: str = "", languages: Sequence[str] = (), limit: int = 100) -> list[Hit]:
        """The units that fit the words of `query` best (BM25; a name counts three times), the best first."""
        words = dict.fromkeys(word.lower() for word in searchable(query).split())
        words = dict.fromkeys(word for word in words if word not in STOP_WORDS) or words
        if not words:
            return []
        below, values = _below(under)
        if languages:
            below += f" AND f.language IN ({', '.join('?' * len(languages))})"
            values = (*values, *languages)
        rows = self._connection.execute(
            f"SELECT u.line, u.end_line, bm25(unit_text, 3.0, 1.0) AS rank, coalesce(s.qualified, ''), "
            f"coalesce(s.kind, ''), {_FILE} FROM unit_text "
            f"JOIN unit u ON u.id = unit_text.rowid JOIN file f ON f.id = u.file "
            f"LEFT JOIN symbol s ON s.id = u.symbol WHERE unit_text MATCH ? AND {below} ORDER BY rank LIMIT ?",
            (" OR ".join(map(_quoted, words)), *values, limit),
        ).fetchall()
        best = rows[0][2] if rows else -1.0
        hits = [
            Hit(line, end, round(rank / best, 4) if best and math.isfinite(best) else 1.0, _file(file), name, kind)
            for line, end, rank, name, kind, *file in rows
        ]
        return [hit for hit in hits if hit.score >= MIN_SCORE]

    def vectors_below(self, under: str = "", languages: Sequence[str] = ()) -> list[bytes] | None:
        """The vectors of units there; None where that is all of them."""
        if not under and not languages:
            return None
        below, values = _below(under)
        if languages:
            below += f" AND f.language IN ({', '.join('?' * len(languages))})"
            values = (*values, *languages)
        rows = self._connection.execute(
            f"SELECT DISTINCT u.vector FROM unit u JOIN file f ON f.id = u.file WHERE u.vector IS NOT NULL AND {below}",
            values,
        )
        return [vector for (vector,) in rows]

    def units_of_vectors(
        self, scored: Sequence[tuple[bytes, float]], under: str, languages: Sequence[str]
    ) -> list[Hit]:
        """The units that these vectors stand for, in the same order; `score` is the cosine."""
        below, values = _below(under)
        if languages:
            below += f" AND f.language IN ({', '.join('?' * len(languages))})"
            values = (*values, *languages)
        hits: list[Hit] = []
        for vector, score in scored:
            rows = self._connection.execute(
                f"SELECT u.line, u.end_line, coalesce(s.qualified, ''), coalesce(s.kind, ''), {_FILE} FROM unit u "
                f"JOIN file f ON f.id = u.file LEFT JOIN symbol s ON s.id = u.symbol WHERE u.vector = ? AND {below}",
                (vector, *values),
            )
            hits += [Hit(line, end, round(score, 4), _file(file), name, kind) for line, end, name, kind, *file in rows]
        return hits

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for what keeps its own tables in the same file."""
        return self._connection


def fused(lexical: Sequence[Hit], semantic: Sequence[Hit], weight: float = 1.0) -> list[Hit]:
    """Both lists as one, by the places of a hit in each of them (reciprocal rank fusion); the best one's score is 1."""
    scores: dict[tuple[str, int, int], float] = {}
    hits: dict[tuple[str, int, int], Hit] = {}
    for each, share in ((lexical, 1.0), (semantic, weight)):
        for rank, hit in enumerate(each, start=1):
            key = (hit.file.path, hit.line, hit.end_line)
            hits.setdefault(key, hit)
            scores[key] = scores.get(key, 0.0) + share / (RANK_CONSTANT + rank)
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return [replace(hits[key], score=round(scores[key] / scores[order[0]], 4)) for key in order]


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _below(under: str) -> tuple[str, tuple[object, ...]]:
    """A condition for files at `under` or below it."""
    if not under:
        return "1", ()
    return "(f.path = ? OR (f.path >= ? AND f.path < ?))", (under, f"{under}/", f"{under}0")  # 0 comes after /


def is_named(symbol: IndexedSymbol, name: str) -> bool:
    """Return whether `name`, as in `IndexReader.definitions`, means this symbol."""
    outer, _, last = name.rpartition(".")
    fits = symbol.name.startswith(last.rstrip("*")) if last.endswith("*") else symbol.name.lower() == last.lower()
    return fits and symbol.kind != "heading" and (not outer or _is_inside(symbol, outer))


def _is_inside(symbol: IndexedSymbol, outer: str) -> bool:
    """Return whether `outer` is what a symbol is in: a class, or a module in its own spelling (`package.module`)."""
    module = re.sub(r"(?:/__init__)?\.\w+$", "", symbol.file.path).replace("/", ".")
    whole = f".{module}.{symbol.qualified}".rpartition(".")[0]
    return whole.endswith(f".{outer}")


class ImportResolver:
    """Resolves imports below `root`, asking for each path once."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._there: dict[str, bool] = {}

    def targets(self, importing: str, language: str, module: str, names: tuple[str, ...]) -> list[str]:
        """The files that an import in the file `importing` means, relative to the root; none for what is not in it."""
        if language in ("Python", "notebook"):
            return self._python(importing, module, names)
        if language in ("JavaScript", "TypeScript", "TSX"):
            return self._first(self._script(importing, module))
        if language in ("C", "C++"):
            return self._first(_joined(folder, module) for folder in (*_above(importing), "include", "src"))
        if language == "Java":
            path = module.removesuffix(".*").replace(".", "/")
            return self._first(_joined(folder, f"{path}.java") for folder in (*_above(importing), "src/main/java"))
        if language == "Rust":
            return self._first(self._rust(importing, module, names))
        return []

    def _first(self, candidates: Iterator[str]) -> list[str]:
        return next(([path] for path in candidates if self._is_file(path)), [])

    def _is_file(self, path: str) -> bool:
        if path not in self._there:
            self._there[path] = bool(path) and not path.startswith("../") and os.path.isfile(f"{self._root}/{path}")  # noqa: PTH113
        return self._there[path]

    def _python(self, importing: str, module: str, names: tuple[str, ...]) -> list[str]:
        stripped = module.lstrip(".")
        dots = len(module) - len(stripped)
        parts = stripped.replace(".", "/")
        if dots:
            folder = PurePosixPath(importing)
            for _ in range(dots):
                folder = folder.parent
            bases = [str(folder)]
        else:
            bases = [*_above(importing), "src", "lib", "python"]
        for base in bases:
            found = [path for name in names for path in self._module(_joined(base, parts, name))]
            if own := self._module(_joined(base, parts)):
                # `from package import name`: the name is a module of its own, or something of the package
                return found if len(found) == len(names) and found else list(dict.fromkeys([*own, *found]))
            if found:
                return found
        return []

    def _module(self, path: str) -> list[str]:
        return self._first(iter((f"{path}.py", f"{path}/__init__.py", f"{path}.pyi")))

    def _script(self, importing: str, module: str) -> Iterator[str]:
        if not module.startswith("."):
            return
        base = os.path.normpath(f"{PurePosixPath(importing).parent}/{module}").replace(os.sep, "/")
        yield base
        for suffix in _SCRIPTS:
            yield f"{base}{suffix}"
        stem, dot, ending = base.rpartition(".")
        if dot and ending in ("js", "jsx", "mjs"):  # TypeScript's imports name what it is compiled to
            yield from (f"{stem}.ts", f"{stem}.tsx")

    def _rust(self, importing: str, module: str, names: tuple[str, ...]) -> Iterator[str]:
        parts = [part for part in module.split("::") if part]
        folder = PurePosixPath(importing).parent
        if not parts:
            return
        if parts[0] in ("self", "super"):
            bases = [str(folder if parts[0] == "self" else folder.parent), str(folder)]
        elif parts[0] == "crate":
            bases = [each for each in _above(importing) if each.endswith("src") or not each]
        else:
            return
        for base in bases:
            for end in range(len(parts), 0, -1):
                for name in (*names, "") if end == len(parts) else ("",):
                    path = _joined(base, *parts[1:end], name)
                    yield from (f"{path}.rs", f"{path}/mod.rs")


def importable_name(path: str) -> str:
    """The part of a path that imports of it hold: the file's name without its ending, or the folder's."""
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    return folders[-1] if stem in ("__init__", "index", "mod") and folders else stem


def _above(path: str) -> list[str]:
    """The folders that a file is in, from its own up to the root, which is ""."""
    return ["" if str(parent) == "." else str(parent) for parent in PurePosixPath(path).parents]


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part and part != ".")
