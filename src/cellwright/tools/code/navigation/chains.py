"""CallChain and ImportChain: who calls a function or imports a file, and whom it calls or imports, to a depth.

They only read. Calls are followed by name; cycles of imports through the file are named.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.codebase.index_reader import ImportResolver, IndexedFile, IndexedSymbol, importable_name
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.navigation.code_context import symbols_named
from cellwright.tools.code.navigation.find_names import QualifiedName, Within
from cellwright.tools.code.navigation.project_code import (
    PARSED_FILES,
    CodeRow,
    ProjectCode,
    code_row,
    index_tool,
    where,
)
from cellwright.tools.inputs import HERE, SYMBOL_NAMES

MAX_ROWS = 300

CALLS_DESCRIPTION = """\
Show who calls a function, or whom it calls, as a tree to a depth. By name: functions of the same name are taken together."""


IMPORTS_DESCRIPTION = """\
Show which files of the project a file imports, and which import it, to a depth, and cycles of imports that it is in \
(Python, JavaScript, TypeScript, Java, Rust, C, C++)."""

Direction = Literal["imports", "importers", "cycles"]


class CallChainInput(ToolInput):
    """The input of CallChain."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: QualifiedName
    direction: Annotated[Literal["callers", "callees"], Meta(description="Which way to go.")] = "callers"
    depth: Annotated[int, Meta(ge=1, le=6)] = 2
    path: Within = HERE
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Rows at most.")] = 100


class _Link(Struct, frozen=True):
    """A call at a place; `next` is the function to go on with, None where there is none."""

    file: IndexedFile
    line: int
    name: str
    next: IndexedSymbol | None


Links = Callable[[IndexedSymbol], Awaitable[list[_Link]]]


def call_chain_tool(code: ProjectCode) -> Tool:
    """CallChain, for the code of one project."""

    @index_tool(
        name="CallChain",
        description=CALLS_DESCRIPTION,
        best_for="who calls what",
        examples=[{"symbol": "load_config", "depth": 3}],
        title=lambda input: f"Follow {input.direction} of {input.symbol}",
    )
    async def call_chain(input: CallChainInput, context: ToolContext) -> ToolResult:
        found = await symbols_named(code, input.symbol, code.scope(input.path), context)
        start = found[0]

        async def callers(symbol: IndexedSymbol) -> list[_Link]:
            calls = await code.calls_of(symbol.name, "", context)
            return [
                _Link(call.file, call.line, caller.qualified if caller else "(module)", caller)
                for call, caller in calls
            ]

        async def callees(symbol: IndexedSymbol) -> list[_Link]:
            return await _called(code, symbol, context)

        lines = [f"{where(start.file, start.line)}: {start.kind} {start.qualified}"]
        chain = await _walk_calls(start, callers if input.direction == "callers" else callees, input)
        lines += ["  " * depth + f"{where(link.file, link.line)}: {link.name}{mark}" for depth, link, mark in chain]
        if not chain:
            lines.append(f"No {input.direction} were found.")
        elif len(chain) >= input.limit:
            lines.append("[There may be more: a smaller depth, or a higher limit.]")
        rows = tuple(
            code_row(link.file, link.line, name=link.name, kind="call", depth=depth) for depth, link, _ in chain
        )
        return await code.answer(lines, rows)

    return call_chain


async def _called(code: ProjectCode, symbol: IndexedSymbol, context: ToolContext) -> list[_Link]:
    parsed = await asyncio.to_thread(code.parsed, symbol.file.path)
    if parsed is None:
        return []
    file, facts, _ = parsed
    within = facts.calls_within(symbol.line, symbol.end_line)
    targets = {
        each.name: each
        for each in await code.definitions_of_each(list(dict.fromkeys(call.name for call in within)), context)
    }
    first = {call.name: call for call in reversed(within)}
    return [
        _Link(
            file,
            call.line,
            f"{targets[name].qualified} ({where(targets[name].file, targets[name].line)})",
            targets[name],
        )
        for name, call in sorted(first.items(), key=lambda item: item[1].line)
        if name in targets
    ]


async def _walk_calls(start: IndexedSymbol, links: Links, input: CallChainInput) -> list[tuple[int, _Link, str]]:
    """The links in the order of a tree, each with its depth; a function is gone on from once."""
    chain: list[tuple[int, _Link, str]] = []
    seen = {(start.file.path, start.qualified)}

    async def visit(symbol: IndexedSymbol, depth: int) -> None:
        for link in await links(symbol):
            if len(chain) >= input.limit:
                return
            following = link.next
            key = None if following is None else (following.file.path, following.qualified)
            known = key in seen
            chain.append((depth, link, " (see above)" if known and depth < input.depth else ""))
            if following is not None and key is not None and not known and depth < input.depth:
                seen.add(key)
                await visit(following, depth + 1)

    await visit(start, 1)
    return chain


class ImportChainInput(ToolInput):
    """The input of ImportChain."""

    path: Annotated[str, Meta(min_length=1, description="The file.")]
    direction: Annotated[Direction, Meta(description="Which way to go, or cycles through the file.")] = "imports"
    depth: Annotated[int, Meta(ge=1, le=10)] = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Rows at most.")] = 100


class _Edge(Struct, frozen=True):
    """An import in `source`, at `line`, of the file `target`."""

    source: str
    line: int
    module: str
    target: str


class ImportGraph:
    """The imports of a project, from its index or its files, resolved to files as they are asked for."""

    def __init__(self, code: ProjectCode, may: Callable[[str], bool]) -> None:
        self._code = code
        self._may = may
        self._resolver = ImportResolver(code.root)
        self._known: dict[str, list[_Edge]] = {}

    async def imports(self, path: str) -> list[_Edge]:
        """List what a file imports, from the file as it is now."""
        if path not in self._known:
            self._known[path] = await asyncio.to_thread(self._read, path)
        return self._known[path]

    def _read(self, path: str) -> list[_Edge]:
        parsed = self._code.parsed(path)
        if parsed is None:
            return []
        file, facts, _ = parsed
        edges = [
            _Edge(path, each.line, each.module, target)
            for each in facts.imports
            for target in self._resolver.targets(path, file.language, each.module, each.names)
        ]
        return [edge for edge in edges if edge.target != path and self._may(edge.target)]

    async def importers(self, path: str) -> list[_Edge]:
        """The files that import a file."""
        stem = importable_name(path)
        found = await self._code.ask(lambda reader: reader.importers_of(stem) if reader.is_complete() else None)
        paths = found if found is not None else (await self._code.files_with(stem, ""))[:PARSED_FILES]
        edges = [edge for each in dict.fromkeys(paths) if self._may(each) for edge in await self.imports(each)]
        return [edge for edge in edges if edge.target == path]


def import_chain_tool(code: ProjectCode) -> Tool:
    """ImportChain, for the code of one project."""

    @index_tool(
        name="ImportChain",
        description=IMPORTS_DESCRIPTION,
        best_for="what imports what",
        examples=[{"path": "src/app/config.py", "direction": "importers", "depth": 2}],
        title=lambda input: f"Follow {input.direction} of {input.path}",
    )
    async def import_chain(input: ImportChainInput, context: ToolContext) -> ToolResult:
        path = code.scope(input.path)
        if not (code.root / path).is_file():
            raise ToolError(f"{input.path} is a folder: name a file.", code=ErrorCode.FILE_PATH_INVALID)
        await code.refresh()
        graph = ImportGraph(code, lambda each: context.may_read(str(code.root / each)))
        if input.direction == "cycles":
            cycle = await _cycle(graph, path)
            lines = [f"{edge.source}:{edge.line}: imports {edge.target}" for edge in cycle]
            lines = lines or [f"No cycle of imports goes through {path}."]
            rows = tuple(_row(edge, edge.target, depth) for depth, edge in enumerate(cycle, start=1))
        else:
            chain = await _walk_imports(graph, path, input)
            forward = input.direction == "imports"
            lines = [path]
            for depth, edge in chain:
                place = f"{edge.source}:{edge.line}"
                lines.append("  " * depth + (f"{edge.target} ({place})" if forward else f"{place}: {edge.module}"))
            if not chain:
                lines.append("It imports no file of the project." if forward else "No file of the project imports it.")
            elif len(chain) >= input.limit:
                lines.append("[There may be more: a smaller depth, or a higher limit.]")
            rows = tuple(_row(edge, edge.target if forward else edge.source, depth) for depth, edge in chain)
        return await code.answer(lines, rows, note="" if input.direction == "imports" else None)

    return import_chain


def _row(edge: _Edge, name: str, depth: int) -> CodeRow:
    return CodeRow(path=edge.source, line=edge.line, name=name, kind="import", depth=depth)


async def _walk_imports(graph: ImportGraph, start: str, input: ImportChainInput) -> list[tuple[int, _Edge]]:
    """The links in the order of a tree; a file is gone on from once."""
    forward = input.direction == "imports"
    chain: list[tuple[int, _Edge]] = []
    seen = {start}

    async def visit(path: str, depth: int) -> None:
        edges = await (graph.imports(path) if forward else graph.importers(path))
        for edge in {(edge.target if forward else edge.source): edge for edge in reversed(edges)}.values():
            following = edge.target if forward else edge.source
            if len(chain) >= input.limit or following in seen:
                continue
            seen.add(following)
            chain.append((depth, edge))
            if depth < input.depth:
                await visit(following, depth + 1)

    await visit(start, 1)
    return chain


async def _cycle(graph: ImportGraph, start: str) -> list[_Edge]:
    """The shortest way along imports from a file back to itself; empty where there is none."""
    way: dict[str, _Edge] = {}
    waiting = deque([start])
    while waiting and len(way) < PARSED_FILES * 10:
        path = waiting.popleft()
        for edge in await graph.imports(path):
            if edge.target == start:
                back = [edge]
                while back[0].source != start:
                    back.insert(0, way[back[0].source])
                return back
            if edge.target not in way:
                way[edge.target] = edge
                waiting.append(edge.target)
    return []
