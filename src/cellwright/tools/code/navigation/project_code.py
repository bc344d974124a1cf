"""A project's code as the tools see it: from its index, and from the files themselves where that has no answer yet.

The first question starts the indexer, in a process of its own; each later one has it look for what changed, and waits a
moment for that. A row whose file has changed since is made anew from the file. Files that may not be read unasked are in
no answer.

`related_line` is what stands below what `Read` shows of a program: from the index alone, where it is there and answers at
once, since a reading waits for nothing. What is not sure is left out.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.codebase.embedding_settings import EmbeddingProblem, EmbeddingSettings
from cellwright.codebase.facts import FUNCTIONS, FileFacts
from cellwright.codebase.index_reader import (
    Hit,
    ImportResolver,
    IndexedCall,
    IndexedFile,
    IndexedSymbol,
    IndexReader,
    IndexStatus,
    fused,
    importable_name,
    is_named,
    reading,
    status_of,
)
from cellwright.codebase.source_file import SourceText, language_of, largest_of, place_in, source_text
from cellwright.codebase.store import BUSY, IndexRequest, index_path
from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.rules.rule import Rule
from cellwright.sessions.state_dir import make_private_folder
from cellwright.tools.code.navigation.index_processes import IndexerProcess, Look, ProjectEmbedding
from cellwright.tools.paths import existing_path, shown_path
from cellwright.tools.process.runner import own_module_environment
from cellwright.tools.search.ripgrep import NO_VERSION_CONTROL, relative_path, run_ripgrep, search_program

WAIT_SECONDS = 2.0
"""The time that an answer waits for the index to see what changed."""

PARSED_FILES = 300
"""So many files are read at most for an answer that the index does not have."""

SEMANTIC_HITS = 200

LISTING = ("--files", "--hidden", "--null", *NO_VERSION_CONTROL, "--", ".")
RG_SECONDS = 20.0
ROW_CHARS = 200

Answer = TypeVar("Answer")


class CodeRow(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A place in the code. Lines are those of the file, of a notebook those of its cell `cell` (from 1)."""

    path: str
    line: int
    cell: int | None = None
    end_line: int | None = None
    name: str = ""
    kind: str = ""
    text: str = ""
    score: float | None = None
    depth: int | None = None
    values: Mapping[str, float] | None = None


class CodeOutput(ToolOutput):
    """Rows of an answer; `total` counts those that are left out, too. `index`: complete, building or none."""

    rows: tuple[CodeRow, ...]
    total: int
    index: str


class ProjectCode:
    """The code below `root`. `restrictions` are the deny and ask rules in force, with what their `/x` starts from."""

    def __init__(
        self,
        root: Path,
        restrictions: Sequence[tuple[str, str]],
        environ: Mapping[str, str],
        embedding: EmbeddingSettings | None = None,
        live_definitions: Callable[[str], str] = lambda _name: "",
    ) -> None:
        self.root = root
        self.live_definition = live_definitions
        """Says of a name what this process has by it that is in no file; "" for nothing."""
        self.environ = environ
        self.embedding: ProjectEmbedding | None = None
        """The texts' vectors, where the settings name a model."""
        if embedding is not None:
            self.embedding = ProjectEmbedding(root, self.database, embedding, environ, own_module_environment(environ))
        self.problem = ""
        """The reason why there is no index; empty where there is one or will be."""
        self._restrictions = tuple(restrictions)
        self._indexer = IndexerProcess(self.database, environ)
        self._look: Look | None = None
        self._waited_for: Look | None = None
        self._damaged = False

    @property
    def database(self) -> Path:
        """The file of the index."""
        return index_path(self.root)

    # --- the index ---

    async def refresh(self, wait_seconds: float = WAIT_SECONDS, *, rebuild: bool = False) -> None:
        """Have the indexer look for what changed, and wait so long for it. On a running loop, which it then belongs to."""
        asked = time.monotonic()
        if self.root in (Path.home(), Path(self.root.anchor)):
            self.problem = f"{self.root} is too much to index: start in a project's folder"
            return
        while (left := asked + wait_seconds - time.monotonic()) > 0 or self._look is None:
            if self._look is None or self._look.ended.done():
                if self._look is not None and self._look.began >= asked:
                    return
                try:
                    self._look = self._begin(rebuild=rebuild)
                except OSError as error:  # there is no place for it, or no process
                    self.problem = f"it cannot be made: {error}"
                    return
            look = self._look
            if look is self._waited_for and not look.ended.done():
                return  # it takes long: one answer has waited for it, the next ones do not
            if not (await asyncio.wait({look.ended}, timeout=max(left, 0)))[0]:
                self._waited_for = look
                return
            self._note_end(look.exit_code)
            if self.problem:
                return
            if self.embedding is not None:
                self.embedding.start()

    def _begin(self, *, rebuild: bool) -> Look:
        make_private_folder(self.database.parent)
        request = IndexRequest(
            root=str(self.root),
            database=str(self.database),
            listing=(*search_program(), *LISTING),
            restrictions=self._restrictions,
            check=self._damaged,
            rebuild=rebuild,
        )
        self._damaged = False
        return self._indexer.look(msgspec.json.encode(request) + b"\n")

    def _note_end(self, exit_code: int) -> None:
        if exit_code in (0, BUSY):
            self.problem = ""
        else:
            said = f": {self._indexer.said}" if self._indexer.said else ""
            self.problem = f"the indexer ended with {exit_code}{said}"

    async def ask(self, question: Callable[[IndexReader], Answer]) -> Answer | None:
        """Ask the index, in a thread; None where there is none that can answer."""

        def answer() -> Answer:
            with reading(self.database) as reader:
                return question(reader)

        try:
            return await asyncio.to_thread(answer)
        except sqlite3.OperationalError:
            return None  # not there yet, or just being made
        except sqlite3.DatabaseError:
            self._damaged = True
            return None

    async def status(self) -> IndexStatus:
        """The state of the index."""
        try:
            return await asyncio.to_thread(status_of, self.database)
        except sqlite3.DatabaseError:
            self._damaged = True
            return IndexStatus()

    async def state(self) -> str:
        """Return complete, building or none."""
        complete = await self.ask(lambda reader: reader.is_complete())
        return "complete" if complete else "none" if complete is None and self.problem else "building"

    async def note(self) -> str:
        """A line about what an answer may lack; empty where the index is complete."""
        if await self.state() == "complete":
            most = await self.ask(lambda reader: reader.most_files())
            return f"[The index holds {most:,} files, and the project has more: Grep finds the rest.]" if most else ""
        if self.problem:
            return f"[There is no index ({self.problem}): this was found with ripgrep and may be less.]"
        status = await self.status()
        return (
            f"[The index is still being built ({status.share:.0%}): the rest was found with ripgrep and may be less.]"
        )

    async def answer(
        self, lines: Iterable[str], rows: Sequence[CodeRow], total: int | None = None, note: str | None = None
    ) -> ToolResult:
        """The result of a tool: lines, and below them what they may lack, or another `note`; for programs the rows."""
        output = CodeOutput(rows=tuple(rows), total=len(rows) if total is None else total, index=await self.state())
        below = await self.note() if note is None else note
        return ToolResult("\n".join([*lines, *([below] if below else [])]), structured=output)

    # --- answers from the index, or else from the files ---

    async def fitting(
        self, query: str, under: str, languages: Sequence[str], limit: int
    ) -> tuple[list[Hit] | None, str]:
        """The units that fit `query` best by words, and by meaning where there is a model; and how they were found.

        None where there is no index that can answer.
        """
        by_words = await self.ask(lambda reader: reader.lexical(query, under, languages, limit))
        if by_words is None:
            return None, ""
        if self.embedding is None:
            return by_words, "[By words alone: no embedding is set up.]"
        settings = self.embedding.settings
        if not self.embedding.is_agreed():
            note = f"[By words alone: the user has not agreed yet to use {settings.model} (/index embed).]"
            return by_words, note
        status = await self.status()
        if not status.vectors:
            reason = status.embedding_problem or "the texts are being embedded"
            return by_words, f"[By words alone: {reason}.]"
        embedding = self.embedding
        try:
            by_meaning = await self.ask(
                lambda reader: embedding.nearest(reader, query, under, languages, SEMANTIC_HITS)
            )
        except EmbeddingProblem as problem:
            return by_words, f"[By words alone: {problem}]"
        note = (
            "" if status.vectors >= status.units else f"[{status.vectors / status.units:.0%} is found by meaning, too.]"
        )
        return fused(by_words, by_meaning or []), note

    async def definitions(self, name: str, under: str, context: ToolContext) -> list[IndexedSymbol]:
        """The definitions of a name."""
        found = await self.ask(lambda reader: reader.definitions(name, under) if reader.is_complete() else None)
        if found is None:
            last = name.rpartition(".")[2]
            stem = last.rstrip("*")
            files = await self.files_with(stem if stem == last else rf"\b{re.escape(stem)}", under, fixed=stem == last)
            found = await asyncio.to_thread(self._defined_in, files, name)
        else:
            found = await asyncio.to_thread(self._fresh, found, name)
        return self.readable(found, context, lambda symbol: symbol.file.path)

    async def symbols_below(self, under: str) -> list[IndexedSymbol]:
        """The definitions in all files of a folder, headings too."""
        found = await self.ask(lambda reader: reader.symbols_below(under) if reader.is_complete() else None)
        if found is not None:
            return found
        return await asyncio.to_thread(self._symbols_in, await self.files_with(r"\w", under, fixed=False))

    async def similar_names(self, name: str, context: ToolContext) -> list[str]:
        """Some names like `name`, for one that is nowhere defined."""
        found = await self.ask(lambda reader: reader.similar_names(name)) or []
        names = dict.fromkeys(each for each, _ in self.readable(found, context, lambda pair: pair[1]))
        return list(names)[:8]

    async def definitions_of_each(self, names: Sequence[str], context: ToolContext) -> list[IndexedSymbol]:
        """The definition with a body of each of the names that has one, or a few of which the first is as good as any."""

        def question(reader: IndexReader) -> list[IndexedSymbol] | None:
            return [each for name in names for each in reader.definitions(name)] if reader.is_complete() else None

        found = await self.ask(question) if names else []
        if found is None:
            files = await self.files_with(rf"\b(?:{'|'.join(map(re.escape, names))})\b", "", fixed=False)
            found = await asyncio.to_thread(self._symbols_in, files)
        by_name: dict[str, list[IndexedSymbol]] = {name: [] for name in names}
        for symbol in self.readable(found, context, lambda symbol: symbol.file.path):
            if not symbol.declared and symbol.kind != "heading" and symbol.name in by_name:
                by_name[symbol.name].append(symbol)
        # more definitions of one name than this say nothing of which one a call means
        return [each[0] for each in by_name.values() if 0 < len(each) <= 3]

    async def calls_of(
        self, name: str, under: str, context: ToolContext
    ) -> list[tuple[IndexedCall, IndexedSymbol | None]]:
        """The calls of a name, each with the definition that it is made in."""

        def question(reader: IndexReader) -> list[tuple[IndexedCall, IndexedSymbol | None]] | None:
            if not reader.is_complete():
                return None
            calls = reader.calls_of(name, under)
            return [(call, reader.symbol(call.caller) if call.caller is not None else None) for call in calls]

        found = await self.ask(question)
        if found is None:
            files = await self.files_with(name, under)
            found = await asyncio.to_thread(self._called_in, files[:PARSED_FILES], name)
        else:
            found = await asyncio.to_thread(self._fresh_calls, found, name)
        return self.readable(found, context, lambda pair: pair[0].file.path)

    async def files_with(self, word: str, under: str, *, fixed: bool = True) -> list[str]:
        """The files that ripgrep finds the word in, by path."""
        arguments = ["--files-with-matches", "--null", "--hidden", "--color=never", *NO_VERSION_CONTROL]
        arguments += ["--word-regexp", "--fixed-strings"] if fixed else []
        output = await run_ripgrep(
            search_program(),
            [*arguments, "--", word, f"./{under}" if under else "."],
            cwd=self.root,
            separator=b"\0",
            seconds=RG_SECONDS,
        )
        paths = sorted(relative_path(record) for record in output.records)
        return [path for path in paths if language_of(PurePosixPath(path))]

    def readable(self, found: Iterable[Answer], context: ToolContext, path_of: Callable[[Answer], str]) -> list[Answer]:
        """Those of `found` whose file Claude may read unasked."""
        known: dict[str, bool] = {}

        def may(path: str) -> bool:
            if path not in known:
                known[path] = context.may_read(str(self.root / path))
            return known[path]

        return [each for each in found if may(path_of(each))]

    # --- files ---

    def scope(self, file_path: str) -> str:
        """The path `file_path`, relative to the project, "" for all of it. Raises ToolError for one that is not in it."""
        path, display_path = existing_path(self.root, file_path)
        inside = shown_path(self.root, path)
        if inside == ".":
            return ""
        if Path(inside).is_absolute() or inside.startswith(".."):
            message = (
                f"{display_path} is not in the project {self.root}, which this tool is about. Use Grep and Read there."
            )
            raise ToolError(message, code=ErrorCode.FILE_PATH_INVALID)
        return inside

    def source(self, path: str) -> SourceText | None:
        """The text of a file as it is now; None for what is none, or too large."""
        file, pure = self.root / path, PurePosixPath(path)
        try:
            return source_text(pure, file.read_bytes()) if file.stat().st_size <= largest_of(pure) else None
        except OSError:
            return None

    def parsed(self, path: str) -> tuple[IndexedFile, FileFacts, SourceText] | None:
        """A file as it is now, with its facts."""
        try:
            status = (self.root / path).stat()
        except OSError:
            return None
        if (source := self.source(path)) is None:
            return None
        file = IndexedFile(-1, path, source.language, status.st_size, status.st_mtime_ns, source.lines, source.cells)
        return file, source.facts(), source

    def symbols(self, path: str) -> list[IndexedSymbol]:
        """The definitions in a file as it is now."""
        parsed = self.parsed(path)
        return [] if parsed is None else _symbols(*parsed[:2])

    def _symbols_in(self, paths: Sequence[str]) -> list[IndexedSymbol]:
        return [symbol for path in paths[:PARSED_FILES] for symbol in self.symbols(path)]

    def _defined_in(self, paths: Sequence[str], name: str) -> list[IndexedSymbol]:
        named = [each for each in self._symbols_in(paths) if is_named(each, name)]
        return sorted(named, key=lambda each: (each.declared, each.file.path, each.line))

    def _called_in(self, paths: Iterable[str], name: str) -> list[tuple[IndexedCall, IndexedSymbol | None]]:
        found: list[tuple[IndexedCall, IndexedSymbol | None]] = []
        for path in paths:
            if (parsed := self.parsed(path)) is None:
                continue
            file, facts, _ = parsed
            symbols = _symbols(file, facts)
            for call in facts.calls:
                if call.name == name:
                    caller = symbols[call.caller] if call.caller >= 0 else None
                    found.append((IndexedCall(name, call.line, None, file), caller))
        return found

    def _fresh(self, found: Sequence[IndexedSymbol], name: str) -> list[IndexedSymbol]:
        """The same rows, those of files that have changed made anew."""
        current: dict[str, list[IndexedSymbol] | None] = {}
        fresh: list[IndexedSymbol] = []
        for symbol in found:
            path = symbol.file.path
            if path not in current:
                stale = len(current) < PARSED_FILES and self.is_stale(symbol.file)
                current[path] = [each for each in self.symbols(path) if is_named(each, name)] if stale else None
                fresh += current[path] or ()
            if current[path] is None:
                fresh.append(symbol)
        return fresh

    def _fresh_calls(
        self, found: Sequence[tuple[IndexedCall, IndexedSymbol | None]], name: str
    ) -> list[tuple[IndexedCall, IndexedSymbol | None]]:
        """The same calls, those in files that have changed made anew."""
        files = {call.file.path: call.file for call, _ in found}
        stale = [path for path, file in list(files.items())[:PARSED_FILES] if self.is_stale(file)]
        kept = [pair for pair in found if pair[0].file.path not in stale]
        return sorted([*kept, *self._called_in(stale, name)], key=lambda pair: (pair[0].file.path, pair[0].line))

    def fresh_hit(self, hit: Hit) -> Hit | None:
        """The hit at the lines that its definition has now; None where the file has changed and that is no more in it."""
        if not self.is_stale(hit.file) or not hit.qualified:
            return hit
        for symbol in self.symbols(hit.file.path):
            if (symbol.qualified, symbol.kind) == (hit.qualified, hit.kind):
                return replace(hit, file=symbol.file, line=symbol.line, end_line=symbol.end_line)
        return None

    def is_stale(self, file: IndexedFile) -> bool:
        """Return whether the file is not what it was when it was indexed."""
        try:
            status = (self.root / file.path).stat()
        except OSError:
            return True
        return (status.st_size, status.st_mtime_ns) != (file.size, file.mtime)


def _symbols(file: IndexedFile, facts: FileFacts) -> list[IndexedSymbol]:
    return [
        IndexedSymbol(
            -1,
            each.name,
            each.qualified,
            each.kind,
            each.line,
            each.end_line,
            each.signature,
            each.doc,
            each.declared,
            each.cyclomatic,
            each.cognitive,
            each.nesting,
            file,
        )
        for each in facts.symbols
    ]


def project_code(
    root: Path,
    rules: Iterable[object],
    environ: Mapping[str, str],
    embedding: EmbeddingSettings | None = None,
    live_definitions: Callable[[str], str] = lambda _name: "",
) -> ProjectCode:
    """The code below `root`; `rules` are the settings' deny and ask rules, `embedding` the model that they name.

    `live_definitions` says of a name what this process has by it.
    """
    restrictions = [(rule.text, rule.source_root) for rule in rules if isinstance(rule, Rule)]
    return ProjectCode(root, restrictions, environ, embedding, live_definitions)


def where(file: IndexedFile, line: int) -> str:
    """A place as it stands in rows: `path:line`."""
    return f"{file.path}{place_in(file.cells, line)}"


def code_row(file: IndexedFile, line: int, **fields: object) -> CodeRow:
    """A row for a place in a file; in a notebook, in one of its cells."""
    if not file.cells:
        return CodeRow(path=file.path, line=line, **fields)  # type: ignore[arg-type]
    cell, _, in_cell = place_in(file.cells, line).removeprefix("#cell").partition(":")
    fields.pop("end_line", None)
    return CodeRow(path=file.path, line=int(in_cell), cell=int(cell), **fields)  # type: ignore[arg-type]


def short(text: str) -> str:
    """A line of code for a row."""
    line = " ".join(text.split())
    return line if len(line) <= ROW_CHARS else f"{line[: ROW_CHARS - 1]}…"


def index_tool(**told: Any) -> Callable[[Callable[..., Any]], Tool]:
    """`tool` for one that answers from the index of a project: what all of them have in common."""
    access = ToolAccess("index", "path")
    limits = ToolLimits(seconds=60)
    return tool(
        rarely_used=True, output=CodeOutput, access=access, read_only=True, category="search", limits=limits, **told
    )


async def related_line(
    code: ProjectCode, path: Path, lines: tuple[int, int] | None, may_read: Callable[[str], bool]
) -> str:
    """One line about the file at `path`, of which `lines` were read (None: all); "" where nothing helps."""
    try:
        relative = path.relative_to(os.path.realpath(code.root)).as_posix()
    except ValueError:
        return ""

    def question(reader: IndexReader) -> str:
        return _line(code, reader, relative, lines, may_read) if reader.is_complete() else ""

    try:
        async with asyncio.timeout(0.15):
            return await code.ask(question) or ""
    except TimeoutError:
        return ""


def _line(
    code: ProjectCode, reader: IndexReader, path: str, lines: tuple[int, int] | None, may_read: Callable[[str], bool]
) -> str:
    file = reader.file(path)
    if file is None or file.cells or file.language in ("Markdown", "text"):
        return ""
    parts = []
    if lines is not None and not code.is_stale(file):
        parts.append(_around(reader.symbols_below(path), *lines))
    resolver = ImportResolver(code.root)

    def readable(paths: Iterable[str]) -> list[str]:
        return [each for each in dict.fromkeys(paths) if each != path and may_read(str(code.root / each))]

    imports = [
        target
        for each in reader.imports_of(path)
        for target in resolver.targets(path, file.language, each.module, tuple(each.names.split()))
    ]
    candidates = reader.importers_of(importable_name(path))
    importers = [
        each
        # where more files hold its name among their imports, it says too little
        for each in (candidates if len(candidates) <= 40 else ())
        if any(
            path in resolver.targets(each, row.file.language, row.module, tuple(row.names.split()))
            for row in reader.imports_of(each)
        )
    ]
    pure = PurePosixPath(path)
    stem = pure.name.partition(".")[0]
    names = (f"test_{stem}", f"{stem}_test", f"{stem}.test", f"{stem}.spec", f"{stem}Test")
    tests = [each for each in reader.files_called([f"{name}{pure.suffix}" for name in names]) if each not in importers]
    parts.append(_named("imports", readable(imports)))
    parts.append(_named("imported by", readable(importers)))
    parts.append(_named("tests", readable(tests)))
    found = "; ".join(part for part in parts if part)
    return f"[{found}]" if found else ""


def _around(symbols: list[IndexedSymbol], first: int, last: int) -> str:
    """The functions and classes that the lines begin or end in."""
    cut = [
        each
        for each in symbols
        if each.kind in (*FUNCTIONS, "class")
        and each.line <= last
        and each.end_line >= first
        and (each.line < first or each.end_line > last)
    ]
    shown = [f"{each.qualified} ({each.line}-{each.end_line})" for each in cut[:6]]
    return f"these lines are within {', '.join(shown)}" if shown else ""


def _named(what: str, paths: list[str]) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
    return f"{what} {', '.join(paths[:4])}{more}"
