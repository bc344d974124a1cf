"""The line below what `Read` shows of a program: the definitions around its lines, and files that belong to it.

From the index alone, where it is there and answers at once: a reading waits for nothing. What is not sure is left out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from cellwright.codebase.imports import ImportResolver, importable_name
from cellwright.codebase.index_reader import IndexedSymbol, IndexReader
from cellwright.codebase.parsing.facts import FUNCTIONS
from cellwright.tools.code.navigation.project_code import ProjectCode

SECONDS = 0.15
MAX_FILES = 4
MAX_CANDIDATES = 40
"""More files than this hold a file's name among their imports: it says too little."""


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
        async with asyncio.timeout(SECONDS):
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
        for each in (candidates if len(candidates) <= MAX_CANDIDATES else ())
        if any(
            path in resolver.targets(each, row.file.language, row.module, tuple(row.names.split()))
            for row in reader.imports_of(each)
        )
    ]
    tests = [each for each in reader.files_called(_test_names(path)) if each not in importers]
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
    more = f" and {len(paths) - MAX_FILES} more" if len(paths) > MAX_FILES else ""
    return f"{what} {', '.join(paths[:MAX_FILES])}{more}"


def _test_names(path: str) -> list[str]:
    pure = PurePosixPath(path)
    stem, suffix = pure.name.partition(".")[0], pure.suffix
    names = (f"test_{stem}", f"{stem}_test", f"{stem}.test", f"{stem}.spec", f"{stem}Test")
    return [f"{name}{suffix}" for name in names]
