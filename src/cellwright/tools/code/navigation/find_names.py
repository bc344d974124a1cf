"""FindDefinitions and FindReferences: where a name is defined, and where and how it is used. They only read.

The index says which files may hold the name, ripgrep which of them do, and the syntax tree what each place is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.codebase.index_reader import IndexedFile, IndexedSymbol
from cellwright.codebase.references import references_in
from cellwright.codebase.source_file import SourceText, language_of
from cellwright.tools.code.navigation.project_code import (
    RG_SECONDS,
    CodeRow,
    ProjectCode,
    code_row,
    index_tool,
    short,
    where,
)
from cellwright.tools.inputs import HERE, SYMBOL_NAMES, in_folder
from cellwright.tools.search.ripgrep import NO_VERSION_CONTROL, relative_path, run_ripgrep, search_program

DEFINITIONS_DESCRIPTION = """\
Find where functions, classes, methods, types and constants are defined, by name: `name`, `Class.method`, `module.name` or \
`prefix*`; in a kernel also what its cells alone have defined. Faster and more exact than Grep for a definition."""

Symbol = Annotated[str, Meta(min_length=1, pattern=r"^[^\s\x00]+$", description="`name`, `Class.method` or `prefix*`.")]
QualifiedName = Annotated[str, Meta(min_length=1, description="`name` or `Class.method`.")]
Within = Annotated[str, Meta(min_length=1, description="Only in this file or folder.")]

REFERENCES_DESCRIPTION = """\
Find where a name is used, by name alone: calls, imports, writes and reads, each with its line; comments and strings are \
left out. Methods of the same name are not distinguished."""

Kind = Literal["any", "definition", "call", "import", "write", "read", "text"]
_DOCUMENTS = frozenset({"Markdown", "text", ""})


class FindDefinitionsInput(ToolInput):
    """The input of FindDefinitions."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: Symbol
    path: Within = HERE
    limit: Annotated[int, Meta(ge=1, le=200, description="Rows at most.")] = 30


def find_definitions_tool(code: ProjectCode) -> Tool:
    """FindDefinitions, for the code of one project."""

    @index_tool(
        name="FindDefinitions",
        other_names=(
            "find_definition",
            "go_to_definition",
        ),
        description=DEFINITIONS_DESCRIPTION,
        best_for="where a name is defined",
        examples=[{"symbol": "Server.stop"}],
        title=lambda input: f"Find definitions of {input.symbol}{in_folder(code.root, input.path)}",
    )
    async def find_definitions(input: FindDefinitionsInput, context: ToolContext) -> ToolResult:
        under = code.scope(input.path)
        await code.refresh()
        found = await code.definitions(input.symbol, under, context)
        shown = found[: input.limit]
        lines = [definition_line(symbol) for symbol in shown]
        live = code.live_definition(input.symbol)
        if not found and not live:
            lines = [f"Nothing named {input.symbol} is defined{in_folder(code.root, input.path)}."]
            similar = await code.similar_names(input.symbol, context)
            lines += [f"Names like it: {', '.join(similar)}."] if similar else []
        elif len(found) > len(shown):
            lines.append(f"[{len(found) - len(shown)} more: give a path, or a higher limit.]")
        if live:
            lines.append(live)
        return await code.answer(lines, tuple(map(definition_row, shown)), len(found))

    return find_definitions


def definition_line(symbol: IndexedSymbol) -> str:
    """A definition as a line: its place, what it is, its head, the beginning of its documentation."""
    lines = "" if symbol.end_line == symbol.line or symbol.file.cells else f"-{symbol.end_line}"
    declared = " (declared)" if symbol.declared else ""
    doc = f"  # {short(symbol.doc)}" if symbol.doc else ""
    head = f"{where(symbol.file, symbol.line)}{lines}: {symbol.kind} {symbol.qualified}{declared}"
    return f"{head} | {short(symbol.signature)}{doc}"


def definition_row(symbol: IndexedSymbol) -> CodeRow:
    """The same for programs."""
    end = symbol.end_line
    return code_row(
        symbol.file, symbol.line, end_line=end, name=symbol.qualified, kind=symbol.kind, text=symbol.signature
    )


class FindReferencesInput(ToolInput):
    """The input of FindReferences."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: Annotated[
        str, Meta(min_length=1, pattern=r"^[^\s\x00.*]+$", description="The name alone, without its class.")
    ]
    path: Within = HERE
    kind: Annotated[Kind, Meta(description="Only uses of this kind; text: in files of other languages.")] = "any"
    limit: Annotated[int, Meta(ge=1, le=500, description="Rows at most.")] = 100


class _Use(Struct, frozen=True):
    """One use, with its line of source."""

    file: IndexedFile
    line: int
    kind: str
    text: str


def find_references_tool(code: ProjectCode) -> Tool:
    """FindReferences, for the code of one project."""

    @index_tool(
        name="FindReferences",
        other_names=("find_usages",),
        description=REFERENCES_DESCRIPTION,
        best_for="where a name is used",
        examples=[{"symbol": "parse_config", "kind": "call"}],
        title=lambda input: f"Find references to {input.symbol}{in_folder(code.root, input.path)}",
    )
    async def find_references(input: FindReferencesInput, context: ToolContext) -> ToolResult:
        under = code.scope(input.path)
        await code.refresh()
        paths = code.readable(await files_using(code, input.symbol, under), context, str)
        uses, read = await asyncio.to_thread(_uses, code, paths, input)
        lines = [f"{where(use.file, use.line)}: {use.kind} | {short(use.text)}" for use in uses]
        if not uses:
            way = "" if input.kind == "any" else f" in this way ({input.kind})"
            lines = [f"{input.symbol} is not used{in_folder(code.root, input.path)}{way}."]
        else:
            kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(use.kind for use in uses).most_common())
            rest = (
                f"; {len(paths) - read} more files hold the name: give a path or a higher limit"
                if read < len(paths)
                else ""
            )
            lines.append(f"[{len(uses)} places in {read} files: {kinds}{rest}.]")
        rows = tuple(
            code_row(use.file, use.line, name=input.symbol, kind=use.kind, text=short(use.text)) for use in uses
        )
        return await code.answer(lines, rows, len(uses))

    return find_references


async def files_using(code: ProjectCode, name: str, under: str) -> list[str]:
    """The files that hold the name as a word: programs first, then documents."""
    candidates = await code.ask(lambda reader: reader.files_with_word(name, under) if reader.is_complete() else None)
    # more files than this are not named to rg one by one: it looks through all there are
    if candidates is None or len(candidates) > 4_000:
        found = await code.files_with(name, under)
    else:
        found = await _holding(code, name, [file.path for file in candidates])
    return sorted(found, key=lambda path: (language_of(PurePosixPath(path)) in _DOCUMENTS, path))


async def _holding(code: ProjectCode, name: str, paths: Sequence[str]) -> list[str]:
    """Those of the files that ripgrep finds the name in."""
    if not paths:
        return []
    arguments = [
        "--files-with-matches",
        "--null",
        "--color=never",
        "--word-regexp",
        "--fixed-strings",
        *NO_VERSION_CONTROL,
    ]
    output = await run_ripgrep(
        search_program(),
        [*arguments, "--", name, *(f"./{path}" for path in paths)],
        cwd=code.root,
        separator=b"\0",
        seconds=RG_SECONDS,
    )
    return [relative_path(record) for record in output.records]


def _uses(code: ProjectCode, paths: Sequence[str], input: FindReferencesInput) -> tuple[list[_Use], int]:
    """The uses in these files up to the limit, and how many files were read for them."""
    found: list[_Use] = []
    for read, path in enumerate(paths):
        if len(found) >= input.limit:
            return found[: input.limit], read
        if (source := code.source(path)) is not None:
            found += _uses_in(path, source, input)
    return found[: input.limit], len(paths)


def _uses_in(path: str, source: SourceText, input: FindReferencesInput) -> list[_Use]:
    lines = source.text.split(b"\n")
    file = IndexedFile(-1, path, source.language, 0, 0, len(lines), source.cells)
    # `import load as load` has the name twice, and is one row
    found = dict.fromkeys((each.line, each.kind) for each in references_in(source, input.symbol))
    return [
        _Use(file, line, kind, lines[line - 1].decode("utf-8", "replace"))
        for line, kind in found
        if input.kind in ("any", kind)
    ]
